// The files of raw captures: their names, how they are made, and for how long they are kept.
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

/// A new name: "20260131T120000Z-s17-8c1f03d2.mrd" has the time (UTC), the session's number and a random part.
std::string capture_name(std::chrono::system_clock::time_point began, std::uint64_t session);
/// Whether `name` is of that form.
bool is_capture_name(std::string_view name);

/// Makes the folder, for its owner only (0700), where it is missing. std::runtime_error, saying what to do, when it
/// cannot be made or no file can be made in it.
void prepare_capture_directory(const std::filesystem::path& directory);

/// A capture that is open for writing and reading, and the file of its checksums. While it is, retention (of whatever
/// process) leaves it alone.
class CaptureFile {
 public:
  /// Makes both files, for their owner only (0600). std::system_error.
  CaptureFile(const std::filesystem::path& directory, const std::string& name);
  ~CaptureFile();
  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;

  int descriptor() const { return descriptor_; }
  int checksums_descriptor() const { return checksums_descriptor_; }
  const std::filesystem::path& path() const { return path_; }
  void remove() const;  ///< ignores errors

  /// The disk may lack some of the file (at first its name), or of its checksums.
  std::atomic<bool> unsynced = true, checksums_unsynced = false;
  bool name_synced = false;            ///< for whoever synchronises it
  protocol::ChecksumWriter checksums;  ///< for whoever writes it, as the next one
  bool checksums_end = false;          ///< no more lines are written: the last one was, or could not be

 private:
  const std::filesystem::path path_;
  int descriptor_ = -1, checksums_descriptor_ = -1;
};

/// Forces the names of a folder's files to the disk. Returns what failed, or nothing.
std::string sync_folder(const std::filesystem::path& folder);

/// What the system says of an errno.
std::string system_text(int error);

/// What retention has removed.
struct Removed {
  int files = 0;
  std::uint64_t bytes = 0;
};
/// Removes captures that are older than keep_days, and the oldest while all together are larger than keep_gib. Never
/// the newest one, one that is being written, or a file whose name is not a capture's. Checksums whose capture is gone
/// are removed after a day.
Removed remove_old_captures(const config::CaptureOptions& options, std::chrono::system_clock::time_point now);

}  // namespace echotrain::server
