// The wire format in a file or a pipe: messages one after another, exactly as on a socket.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "protocol/wire/codec.h"
#include "protocol/wire/message_buffer.h"

namespace echotrain::protocol {

/// A file that is closed with its owner, or one that belongs to somebody else (stdin, stdout).
struct FileCloser {
  bool owned = true;
  void operator()(std::FILE* file) const;
};
using FileHandle = std::unique_ptr<std::FILE, FileCloser>;

/// Reads messages from a file or a pipe, handing on what a pipe has as soon as it has it.
class StreamReader {
 public:
  /// std::system_error when the file cannot be opened.
  explicit StreamReader(const std::filesystem::path& file, const Limits& limits = {});
  explicit StreamReader(std::FILE* file,
                        const Limits& limits = {});  ///< not closed; nothing may be read from it before
  /// The next message; nothing at the end of the file. An end inside a message is an error ("truncated"), and so is a
  /// read that fails ("io").
  Result<std::optional<Message>> next();

 private:
  FileHandle file_;
  MessageBuffer buffer_;
};

/// Writes messages to a file or a pipe.
class StreamWriter {
 public:
  /// std::system_error when the file cannot be made. One that is there is replaced.
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
