// A byte source gives the bytes of a stream in yardl's compact binary encoding, in order, each with its place. Source:
// https://microsoft.github.io/yardl/reference/binary.html.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/data/result.h"
#include "protocol/files/stream_file.h"

namespace echotrain::protocol::mrd2 {

/// The reason why a stream is refused. Thrown and caught within this folder, where values nest; outside it is an Error.
struct Refusal {
  Error error;
};
/// Throws a Refusal that names the byte.
[[noreturn]] void refuse(const char* code, std::uint64_t position, const std::string& why);

/// Reads a file or a pipe; what has arrived of a pipe is given at once. Every function throws a Refusal: "truncated" at
/// the end of the stream, "io" when it cannot be read.
class ByteSource {
 public:
  /// `begun` are bytes that were already read from the file.
  explicit ByteSource(FileHandle file, std::span<const std::byte> begun = {});

  std::uint64_t position() const { return position_; }  ///< of the next byte, from 0
  bool at_end();                                        ///< waits for a byte
  std::uint8_t byte();
  std::uint64_t natural();  ///< an unsigned varint of at most 64 bits ("malformed" otherwise)
  std::int64_t integer();   ///< a zig-zag varint
  void read(std::span<std::byte> to);
  /// Memory is taken as bytes arrive, so that a claim alone costs nothing.
  std::vector<std::byte> bytes(std::uint64_t count);
  void skip(std::uint64_t count);

 private:
  bool fill();  // nothing is left of the buffer; whether there is more
  std::size_t left() const { return end_ - next_; }

  FileHandle file_;
  std::vector<std::byte> buffer_;
  std::size_t next_ = 0, end_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace echotrain::protocol::mrd2
