// The chosen images are those of a download; the makers of files take them one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "server/console/download/download.h"
#include "server/console/download/zip_writer.h"
#include "server/console/live/image_view.h"

namespace echotrain::server {

/// Images of a scan in the order in which they came. It does not keep them alive.
class ChosenImages {
 public:
  explicit ChosenImages(const std::vector<std::shared_ptr<const KeptImage>>& images);

  std::size_t size() const { return heads_.size(); }
  const protocol::ImageHeader& head(std::size_t i) const { return heads_[i]; }
  /// Throws DownloadError when the image has gone.
  std::shared_ptr<const KeptImage> get(std::size_t i) const;
  /// Returns the numbers of the images of each series.
  std::map<std::uint16_t, std::vector<std::size_t>> by_series() const;

 private:
  std::vector<std::weak_ptr<const KeptImage>> images_;
  std::vector<protocol::ImageHeader> heads_;
};

/// Returns "_c02" where there are several channels, else nothing.
std::string channel_suffix(const protocol::ImageHeader& head, std::size_t channel);

/// A ZIP file of several files.
class ZipDownload : public Download {
 public:
  bool next(std::string& piece) override;

 protected:
  /// Gives the next bytes, as next() does, of what is in the file.
  virtual bool more(std::string& piece) = 0;
  /// Throws DownloadError when a ZIP file cannot hold so much.
  static void require_room(std::uint64_t files, std::uint64_t bytes);
  ZipWriter zip_;

 private:
  bool ended_ = false;
};

std::unique_ptr<Download> make_nifti(std::uint64_t scan, ChosenImages images);
std::unique_ptr<Download> make_png(std::uint64_t scan, ChosenImages images);
std::unique_ptr<Download> make_dicom(std::uint64_t scan, ChosenImages images, std::shared_ptr<const ScanOrigin> origin);
std::unique_ptr<Download> make_hdf5(std::uint64_t scan, ChosenImages images,
                                    std::shared_ptr<numerics::MemoryBudget> budget);

}  // namespace echotrain::server
