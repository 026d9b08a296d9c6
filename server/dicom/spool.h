// The spool holds DICOM files on disk until their peers have taken them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gadgets/shared/store/private_files.h"
#include "server/base/clock.h"

namespace echotrain::server {

/// A folder with a folder for each peer, whose files are named by a number that counts on and by whose they are; what a
/// peer will not take lies in its folder `refused`, within bounds of its own. Files are for the server's user only
/// (0600) and hold patients' data. They survive the process: a spool finds what another one has left. Thread-safe.
class Spool {
 public:
  struct Limits {
    std::uint64_t bytes = 0;  ///< of all files together, also of those put aside
    std::uint64_t refused_bytes = std::numeric_limits<std::uint64_t>::max();  ///< of each peer's `refused`
    std::chrono::hours refused_age{24 * 36500};                               ///< since they were put aside
  };

  /// Makes the folders, for the server's user only (0700). std::runtime_error, saying what to do, when that is not
  /// possible or another process uses the folder. Half of the bytes are divided among the peers, the other half is for
  /// the peers that need it first, so that a peer that is down leaves the others their share. Of what is for a peer, an
  /// owner gets no more than it leaves to others: half, if it is alone, the next one half of the rest.
  Spool(std::filesystem::path folder, Limits limits, const std::vector<std::string>& peers);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Returns the owner, as files are named, of a client's identity; the folder's salt keeps the identity secret.
  std::string owner(const std::string& identity) const { return owner_name(salt_, identity); }
  /// Adds a file that is on the disk (fdatasync) under its name when this returns. Returns nothing, or why it was not
  /// added and what to do: a bound is reached, or the disk failed. Without an owner, no part holds.
  std::string put(const std::string& peer, std::string_view bytes, const std::string& owner = {});
  /// Returns why there is no room for files of so many bytes in all; nothing where there is room, or where looking
  /// would have to wait.
  std::string no_room(const std::string& peer, std::uint64_t bytes, const std::string& owner) const;
  /// Returns the file to send next: among those that `passed_over` does not name, the oldest one of the owner whose
  /// last turn is longest ago; this is its turn. Nothing when none waits.
  std::optional<std::filesystem::path> next(
      const std::string& peer, const std::function<bool(const std::filesystem::path&)>& passed_over = nullptr);
  /// Removes a file that has been sent.
  void remove(const std::string& peer, const std::filesystem::path& file);
  /// Moves a file that the peer will never take to `refused`, where an operator may look at it and remove it.
  void put_aside(const std::string& peer, const std::filesystem::path& file);
  /// Removes what has been in the peer's `refused` for too long, and the oldest of what is too much. Returns how many.
  std::uint64_t tidy(const std::string& peer);

  struct Waiting {
    std::uint64_t files = 0, bytes = 0;
    std::uint64_t refused = 0;  ///< files put aside
  };
  Waiting waiting(const std::string& peer) const;
  /// Lists folders of peers that the options no longer name, with files in them.
  std::vector<std::string> orphans() const;

 private:
  struct Aside {
    std::filesystem::file_time_type since;
    std::string name;
    std::uint64_t bytes;
  };
  struct Line {
    std::map<std::uint64_t, std::uint64_t> files;  // number: bytes
    std::uint64_t turn = 0;                        // the last one
  };
  struct Queue {
    std::map<std::string, Line> lines;  // of owners that have files
    std::uint64_t files = 0, turn = 0;  // of all; the last one
    std::deque<Aside> refused;          // the oldest first
    std::uint64_t bytes = 0, refused_bytes = 0;
    std::map<std::string, std::uint64_t, std::less<>> owned;  // bytes of each owner, with those written and put aside
    std::uint64_t writing = 0;                                ///< bytes of files that are being written
    std::optional<Clock::time_point> listed;                  ///< when `refused` was read from the disk
  };
  std::string refusal(const std::string& peer, std::uint64_t size, const std::string& owner) const;
  static void add(Queue& queue, const std::string& name, std::uint64_t bytes);
  static std::optional<std::uint64_t> take(Queue& queue, const std::string& name);
  void take_stock(const std::filesystem::path& folder, Queue& queue);
  std::uint64_t tidy(const std::filesystem::path& folder, Queue& queue);
  void list_refused(const std::filesystem::path& folder, Queue& queue);

  const std::filesystem::path folder_;
  const Limits limits_;
  int lock_ = -1;
  std::string salt_;
  mutable std::mutex mutex_;
  std::map<std::string, Queue> queues_;
  std::vector<std::string> orphans_;
  std::uint64_t bytes_ = 0;  // of all files
  std::uint64_t next_ = 1;
};

}  // namespace echotrain::server
