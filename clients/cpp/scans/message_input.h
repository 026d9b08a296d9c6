// A message input reads the messages of a stream in a file or on stdin, whose format follows from its first bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/data/messages.h"
#include "protocol/data/result.h"
#include "protocol/files/stream_file.h"
#include "protocol/mrd2/mrd2_stream.h"

namespace echotrain::client {

enum class Format { hdf5, stream, mrd2, scanner };  ///< scanner: raw data of a Siemens scanner
std::string_view format_name(Format format);        ///< "an HDF5 file", ...

/// Returns "3 texts, 1 query": of each kind, how often it was left out.
std::string in_words(const protocol::mrd2::LeftOut& left_out);

class MessageInput {
 public:
  /// Opens a file, or stdin ("-"). Throws std::system_error when it cannot be opened. Of HDF5 and scanners' files
  /// nothing is read.
  explicit MessageInput(const std::filesystem::path& path);

  Format format() const { return format_; }
  /// Returns the next message of a stream; nothing at its end. Responses of servers are read, too.
  protocol::Result<std::optional<protocol::Message>> next();
  /// Returns what MRD 2 held that ISMRMRD has no place for; empty for nothing.
  std::string left_out() const;

 private:
  Format format_ = Format::stream;
  protocol::FileHandle file_;
  std::unique_ptr<protocol::StreamReader> stream_;
  std::unique_ptr<protocol::mrd2::Mrd2Reader> mrd2_;
};

}  // namespace echotrain::client
