// A download is a file that is made of kept images.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "gadgets/numerics/core/memory_budget.h"
#include "server/console/live/live_scan.h"
#include "server/console/live/recent_images.h"

namespace echotrain::server {

/// The reason why there is no file, in words, with a status of HTTP: 404, 409 (the format cannot hold these images),
/// 503.
struct DownloadError : std::runtime_error {
  DownloadError(unsigned its_status, const std::string& text) : std::runtime_error(text), status(its_status) {}
  unsigned status;
};

/// One file on its way. It belongs to one thread at a time, which it may keep busy for as long as an image takes.
class Download {
 public:
  virtual ~Download() = default;
  /// Looks at what there is. It is called once and first. Throws DownloadError, as next() does.
  virtual void plan() = 0;
  /// Sets `piece` to the bytes that come next; an empty one means nothing. False: the file is whole.
  virtual bool next(std::string& piece) = 0;
  const std::string& name() const { return name_; }  ///< "scan_7_nifti.zip": letters, digits, _ and one dot
  std::string_view type() const { return type_; }    ///< Content-Type

 protected:
  std::string name_;
  std::string_view type_ = "application/zip";
};

struct DownloadRequest {
  std::uint64_t scan = 0;
  std::string_view format;                ///< "hdf5", "nifti", "png", "dicom"
  std::optional<std::uint64_t> series{};  ///< one of them; nothing: all
};

/// Makes downloads. The budget pays what each needs in memory beside the images, from begin() to its end. Thread-safe.
class Downloads {
 public:
  static constexpr int kMost = 4;  ///< at a time

  explicit Downloads(std::shared_ptr<numerics::MemoryBudget> budget) : budget_(std::move(budget)) {}
  /// Begins a download. `origin` (null: not known any more) is what DICOM tells of the scan. Throws DownloadError.
  std::shared_ptr<Download> begin(const DownloadRequest& order, const RecentImages& images,
                                  std::shared_ptr<const ScanOrigin> origin) const;

 private:
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  const std::shared_ptr<std::atomic<int>> count_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace echotrain::server
