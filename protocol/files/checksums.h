// The checksums of a file that grows are a CRC-32C of each MiB, in a file beside it (docs/capture.md, "Checksums").
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace echotrain::protocol {

/// Returns the file of checksums of `file`: "scan.mrd.crc32c" of "scan.mrd".
std::filesystem::path checksum_file(const std::filesystem::path& file);

/// Makes the lines of a file of checksums from the bytes of the file that they are of.
class ChecksumWriter {
 public:
  static constexpr std::size_t kBlockBytes = 1 << 20;
  explicit ChecksumWriter(std::size_t block_bytes = kBlockBytes) : block_bytes_(block_bytes) {}

  /// Takes the bytes that follow those taken before. Returns the lines of the blocks that are now whole, often none.
  std::string add(std::span<const std::byte> bytes);
  /// Returns, as no more bytes come, the line of the last block, if it is not whole, and the last line, which says so.
  std::string end();

 private:
  void end_block(std::string& lines);

  const std::size_t block_bytes_;
  std::uint64_t offset_ = 0;  // of the block
  std::size_t length_ = 0;    // of it so far
  std::uint32_t crc_ = 0;     // of these bytes
  bool begun_ = false;        // the first line is written
};

/// The verdict of the checksums on a file.
struct Verdict {
  enum class State {
    right,       ///< every byte is what it was
    damaged,     ///< the file or its checksums have changed since they were written
    unfinished,  ///< what has checksums is right; they end before the last line, and maybe before the file does
    unchecked    ///< there are no checksums
  };
  State state = State::unchecked;
  std::string text;  ///< for people, without the file's name: "damaged: MiB 3 of 12 (the first is 0) has changed"
};

/// Checks a file by the file of checksums beside it. Whatever that holds is checked too and never trusted. Throws
/// std::system_error when one of the two cannot be opened; if there is no file of checksums, returns State::unchecked.
Verdict verify(const std::filesystem::path& file);

/// Fills `room` with the bytes from `offset` on; false when they cannot be read.
using ReadAt = std::function<bool(std::uint64_t offset, std::span<std::byte> room)>;
/// Does the same for the lines of a file of checksums and `size` bytes that `read` reads.
Verdict verify(std::string_view lines, std::uint64_t size, const ReadAt& read);

}  // namespace echotrain::protocol
