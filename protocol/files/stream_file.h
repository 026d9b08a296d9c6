// A stream file is the wire format in a file or a pipe: messages one after another, exactly as on a socket.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "protocol/wire/codec.h"
#include "protocol/wire/message_buffer.h"

namespace echotrain::protocol {

/// Closes a file that its handle owns; leaves one that it does not own (stdin, stdout) open.
struct FileCloser {
  bool owned = true;
  void operator()(std::FILE* file) const;
};
using FileHandle = std::unique_ptr<std::FILE, FileCloser>;

/// Reads messages from a file or a pipe. A pipe's messages are returned as soon as they have arrived.
class StreamReader {
 public:
  /// Throws std::system_error when the file cannot be opened.
  explicit StreamReader(const std::filesystem::path& file, const Limits& limits = {});
  /// Reads a file that is not closed, after the bytes that were already read from it, if any.
  explicit StreamReader(std::FILE* file, const Limits& limits = {}, std::span<const std::byte> begun = {});
  /// Returns the next message; nothing at the end of the file. An end inside a message is an error ("truncated"), and
  /// so is a read that fails ("io").
  Result<std::optional<Message>> next();

 private:
  FileHandle file_;
  MessageBuffer buffer_;
};

/// Writes messages to a file or a pipe.
class StreamWriter {
 public:
  /// Replaces an existing file. Throws std::system_error when the file cannot be created.
  explicit StreamWriter(const std::filesystem::path& file);
  explicit StreamWriter(std::FILE* file);  ///< not closed
  StreamWriter(StreamWriter&&) noexcept = default;
  StreamWriter& operator=(StreamWriter&&) = delete;
  ~StreamWriter();
  void write(const Message& message);  ///< std::system_error when the bytes cannot be written
  void flush();                        ///< std::system_error likewise

 private:
  FileHandle file_;
  Buffer buffer_;
};

}  // namespace echotrain::protocol
