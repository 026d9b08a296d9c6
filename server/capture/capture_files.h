// The files of captures: their names, which tell of their scans, and their removal in time (retention).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "config/server_options.h"
#include "protocol/files/checksums.h"

namespace echotrain::server {

/// Returns a new name: "20260131T120000Z-s17-8c1f03d2-5e0b9a47.mrd" has the time (UTC), the session's number, a random
/// part and the client's owner_name(), if there is one; then that of `client`, in whose part it is, if that is another
/// one.
std::string capture_name(std::chrono::system_clock::time_point began, std::uint64_t session,
                         const std::string& owner = {}, const std::string& client = {});
/// True if `name` is of that form.
bool is_capture_name(std::string_view name);
/// Returns the client's owner_name() in a name; empty where there is none.
std::string capture_owner(std::string_view name);

/// Makes the folder, for its owner only (0700), where it is missing. std::runtime_error, saying what to do, when it
/// cannot be made or no file can be made in it.
/// `option` names the folder in its text.
void prepare_capture_directory(const std::filesystem::path& directory, const std::string& option = "capture.directory");

/// A capture that is open for writing and reading, and the file of its checksums. While it is, retention (of whatever
/// process) leaves it alone.
class CaptureFile {
 public:
  /// Makes both files, for their owner only (0600). std::system_error.
  CaptureFile(const std::filesystem::path& directory, const std::string& name);
  /// Opens a file that may be there already, and has no checksums: its first `size` bytes stay. std::system_error.
  CaptureFile(const std::filesystem::path& directory, const std::string& name, std::uint64_t size);
  ~CaptureFile();
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  int descriptor() const { return descriptor_; }
  int checksums_descriptor() const { return checksums_descriptor_; }
  const std::filesystem::path& path() const { return path_; }
  void remove() const;  ///< ignores errors
  bool synced() const { return !unsynced && !checksums_unsynced && name_synced; }

  /// The disk may lack some of the file (at first its name), or of its checksums.
  std::atomic<bool> unsynced = true, checksums_unsynced = false;
  bool name_synced = false;            ///< for the thread that synchronises it
  protocol::ChecksumWriter checksums;  ///< for the thread that writes it, as the next one
  bool checksums_end = false;          ///< no more lines are written: the last one was, or could not be

 private:
  const std::filesystem::path path_;
  int descriptor_ = -1, checksums_descriptor_ = -1;
};

/// Forces the names of a folder's files to the disk. Returns what failed, or nothing.
std::string sync_folder(const std::filesystem::path& folder);

/// Returns the system's text for an errno.
std::string system_text(int error);

/// The files that retention has removed.
struct Removed {
  int files = 0;
  std::uint64_t bytes = 0;
};
/// Removes captures that are older than keep_days, and while all together are larger than keep_gib the oldest of the
/// client that has most: one that has no more than an equal part loses none to others. Each counts 1 MiB at least, so
/// that their number is bounded, too. Never the newest one, one that is being written, or a file whose name is not a
/// capture's. Those whose name has no client are of one. Checksums whose capture is gone are removed after a day.
Removed remove_old_captures(const config::CaptureOptions& options, std::chrono::system_clock::time_point now);

}  // namespace echotrain::server
