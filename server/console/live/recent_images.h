// The recent images are those of the last scans, in memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/memory_budget.h"
#include "protocol/data/messages.h"

namespace echotrain::server {

/// An image that is kept. Its memory goes back when the last holder lets it go.
struct KeptImage {
  explicit KeptImage(std::shared_ptr<numerics::MemoryBudget> its_budget) : budget(std::move(its_budget)) {}
  ~KeptImage() { budget->give(bytes); }
  KeptImage(const KeptImage&) = delete;
  KeptImage& operator=(const KeptImage&) = delete;

  const std::shared_ptr<numerics::MemoryBudget> budget;
  std::uint64_t bytes = 0;    ///< that were taken from the budget
  std::uint64_t number = 0;   ///< counts all images of the server from 1
  std::uint64_t session = 0;  ///< that made it
  std::string client;         ///< whose that is
  std::uint64_t used = 0;     ///< by MemoryBudget::now()
  protocol::Image image;      ///< with pixels of its own
};

/// Keeps images up to a bound, which is within the one budget: a scan that needs the memory gets it. Where room is
/// short, the client that has most loses its oldest (as in evict_to_fair_share): one with no more than an equal part
/// loses none to others. Thread-safe.
class RecentImages final : public numerics::Evictable {
 public:
  /// Not 0.
  RecentImages(std::uint64_t bound_bytes, std::shared_ptr<numerics::MemoryBudget> budget);
  ~RecentImages() override;

  /// Takes an image of a session of `client`; a thread of this copies its pixels. What does not fit is left out. Waits
  /// for no viewer: viewers have a lock of their own.
  void add(std::uint64_t session, const protocol::Image& image, const std::string& client = {});
  /// The newest of a session; null: none.
  std::shared_ptr<const KeptImage> newest(std::uint64_t session) const;
  std::shared_ptr<const KeptImage> find(std::uint64_t session, std::uint64_t number) const;
  /// Returns images in the order in which they came: those with numbers above `after`, at most `most`.
  std::vector<std::shared_ptr<const KeptImage>> of(std::uint64_t session, std::uint64_t after = 0,
                                                   std::size_t most = std::numeric_limits<std::size_t>::max()) const;
  /// The number of a session's images, and the numbers of the oldest and of the newest; 0: none.
  struct Extent {
    std::size_t count = 0;
    std::uint64_t first = 0, last = 0;
  };
  Extent extent(std::uint64_t session) const;
  /// The newest image, and whose it is: changes with each image. {0, 0}: there was none.
  struct Newest {
    std::uint64_t number = 0, session = 0;
    bool operator==(const Newest&) const = default;
  };
  Newest newest() const;
  std::uint64_t left_out() const;  ///< images that did not fit or came too fast
  std::uint64_t bytes() const;     ///< of all that are kept
  std::uint64_t bound() const { return bound_; }

  std::optional<std::uint64_t> unused_since() const override;
  void evict(std::uint64_t wanted) override;

 private:
  struct Waiting {
    std::uint64_t session;
    protocol::Image image;
    std::string client;
  };
  struct Queued {
    std::size_t images = 0;
    std::uint64_t bytes = 0;
  };
  using Images = std::deque<std::shared_ptr<KeptImage>>;  // the oldest first
  struct Part {
    Images images;
    std::uint64_t counted = 0;
  };
  class SparePixels;
  static std::uint64_t size_of(const protocol::Image& image);
  void copy_all();
  void keep(Waiting waiting);
  std::uint64_t counted(std::uint64_t bytes) const;
  std::shared_ptr<KeptImage> take_oldest(const std::string& client, std::uint64_t more);  // with mutex_ held

  const std::uint64_t bound_;
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  const std::shared_ptr<SparePixels> spare_;
  std::mutex waiting_mutex_;  // of scans, and of the thread; never held together with mutex_
  std::condition_variable work_;
  std::deque<Waiting> waiting_;
  std::map<std::string, Queued> queued_;  // of it, by client
  bool ending_ = false;
  std::atomic<std::uint64_t> left_out_ = 0;

  mutable std::mutex mutex_;
  std::map<std::string, Part> kept_;         // by client
  std::map<std::uint64_t, Images> kept_of_;  // the same, by session
  std::uint64_t kept_bytes_ = 0, kept_counted_ = 0, last_ = 0;
  Newest newest_;
  std::thread thread_;
};

}  // namespace echotrain::server
