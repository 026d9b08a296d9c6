// A capture stream reads the messages of a capture, a part of the file at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/data/limits.h"

namespace echotrain::server {

/// Reads a file of messages (protocol/wire/codec.h) that nobody changes. Belongs to one thread.
class CaptureStream {
 public:
  /// `descriptor` stays the caller's, and open. Reads the messages from `begin` on, the beginning of one.
  CaptureStream(int descriptor, std::uint64_t bytes, const protocol::Limits& limits, std::uint64_t begin = 0);

  struct Message {
    std::uint16_t id = 0;
    std::uint64_t offset = 0, size = 0;  ///< in the file
  };
  /// Returns the message that comes next; nothing at the end, or where problem() says why there is none.
  std::optional<Message> next();
  const std::string& problem() const { return problem_; }
  bool read_failed() const { return read_failed_; }  ///< it is the file that cannot be read
  bool cut_off() const { return cut_off_; }          ///< it is the file's end, inside a message

  /// Returns bytes of the file from `offset` on, at least one and at most `most`, valid until the next call of a
  /// member; none when the file cannot be read.
  std::span<const std::byte> bytes(std::uint64_t offset, std::uint64_t most);
  static constexpr std::size_t kWindow = 1 << 20;  ///< bytes in memory, but for messages whose fixed part is longer

 private:
  const int descriptor_;
  const std::uint64_t size_;
  const protocol::Limits limits_;
  std::vector<std::byte> window_;
  std::uint64_t begin_ = 0, position_ = 0;
  std::size_t filled_ = 0;
  std::string problem_;
  bool read_failed_ = false, cut_off_ = false;
};

}  // namespace echotrain::server
