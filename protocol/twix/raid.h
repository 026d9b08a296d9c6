// A raid file is a Siemens raw data file (twix, ".dat") as VD and VE write it: a directory and, one after another, the
// measurements of one examination step. Facts of the format: twixtools (P. Ehses, MIT licence), hdr_def.py; pymapvbvd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "protocol/files/stream_file.h"

namespace echotrain::protocol::twix {

inline constexpr std::size_t kMostMeasurements = 64;  ///< places of the directory
/// The bytes that tell a raid file from others.
inline constexpr std::size_t kBeginning = 24;

enum class FileKind { other, raid, vb };
/// Returns what a file is by its first kBeginning bytes: vb is the older format of one measurement, which is not read.
FileKind file_kind(std::span<const std::byte> beginning);
FileKind file_kind(const std::filesystem::path& file);  ///< other where it cannot be read

/// One measurement of the directory. The patient's name, which stands beside it, is not read.
struct RaidEntry {
  std::size_t number = 0;  ///< from 1
  std::uint32_t uid = 0;   ///< the scanner's number of the measurement
  std::string protocol;
  std::uint64_t begin = 0, end = 0;  ///< bytes of the file
  bool cut = false;                  ///< the directory announces more than the file has
};

class RaidFile {
 public:
  /// Throws DatasetError for a file that cannot be opened, is none of these, or whose measurements lie outside of it or
  /// over one another.
  explicit RaidFile(const std::filesystem::path& file);

  const std::vector<RaidEntry>& entries() const { return entries_; }
  /// Returns the measurement of this number, 0 being the last one. Throws DatasetError, naming those that there are.
  const RaidEntry& entry(std::size_t number) const;
  const std::string& name() const { return name_; }
  /// Reads to the end of `to`, or of the file; returns how many bytes. Throws DatasetError where reading fails.
  std::size_t read(std::uint64_t position, std::span<std::byte> to) const;

 private:
  std::string name_;
  FileHandle file_;
  std::vector<RaidEntry> entries_;
};

}  // namespace echotrain::protocol::twix
