// DICOM files that wait on disk for their peers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echotrain::server {

/// A folder with a folder for each peer, whose files are named by a number that counts on; what a peer has refused for
/// good lies in its folder `refused`. Files are for their owner only (0600) and hold patients' data. They survive the
/// process: a spool finds what another one has left. Thread-safe.
class Spool {
 public:
  /// Makes the folders, for their owner only (0700). std::runtime_error, saying what to do, when that is not possible
  /// or another process uses the folder. All files together, also refused ones, take at most `bound` bytes. Half of
  /// them is divided among the peers, the other half is for whoever needs it first, so that a peer that is down leaves
  /// the others their share.
  Spool(std::filesystem::path folder, std::uint64_t bound, const std::vector<std::string>& peers);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Adds a file that is on the disk (fdatasync) under its name when this returns. Returns why it was not added, or
  /// nothing: the bound is reached, or the disk failed.
  std::string put(const std::string& peer, std::string_view bytes);
  /// The file that has waited longest; nothing when none waits.
  std::optional<std::filesystem::path> oldest(const std::string& peer) const;
  /// It has been sent.
  void remove(const std::string& peer, const std::filesystem::path& file);
  /// The peer will never take it: moves it to `refused`, where an operator may look at it and remove it.
  void put_aside(const std::string& peer, const std::filesystem::path& file);

  struct Waiting {
    std::uint64_t files = 0, bytes = 0;
    std::uint64_t refused = 0;  ///< files put aside
  };
  Waiting waiting(const std::string& peer) const;
  /// Folders of peers that the options no longer name, with files in them.
  std::vector<std::string> orphans() const;

 private:
  struct Queue {
    std::map<std::string, std::uint64_t> files;  // name, bytes; in the order of their numbers
    std::uint64_t bytes = 0, refused = 0, refused_bytes = 0;
    std::uint64_t writing = 0;  ///< bytes of files that are being written
  };
  std::string refusal(const std::string& peer, std::uint64_t size) const;
  void take_stock(const std::filesystem::path& folder, Queue& queue);
  void count_refused(const std::filesystem::path& folder, Queue& queue);
  void recount_refused();

  const std::filesystem::path folder_;
  const std::uint64_t bound_;
  int lock_ = -1;
  mutable std::mutex mutex_;
  std::map<std::string, Queue> queues_;
  std::vector<std::string> orphans_;
  std::uint64_t bytes_ = 0;  // of all files
  std::uint64_t next_ = 1;
};

}  // namespace echotrain::server
