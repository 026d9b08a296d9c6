// A raw stream gives the messages of a stream file as undecoded bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "protocol/data/limits.h"

namespace echotrain::client {

/// One whole message.
struct RawMessage {
  std::uint16_t id = 0;
  std::span<const std::byte> bytes;  ///< including the id
};

/// Walks over a file (mapped, so that its size does not matter) up to CLOSE, its end or bytes that are no message.
class RawStream {
 public:
  /// Throws std::system_error when the file cannot be read.
  explicit RawStream(const std::filesystem::path& file);
  ~RawStream();
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;

  /// Returns the next message before CLOSE; nothing when there is none. Its bytes live as long as this.
  std::optional<RawMessage> next();
  /// Returns the place where next() continues [bytes].
  std::size_t position() const { return position_; }
  void go_to(std::size_t position) { position_ = position; }

  /// True if CLOSE was there; the next one says what is wrong with the end (empty: nothing). Both are valid once next()
  /// has given nothing.
  bool closed() const { return closed_; }
  const std::string& problem() const { return problem_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  protocol::Limits limits_;
  bool closed_ = false;
  std::string problem_;
};

}  // namespace echotrain::client
