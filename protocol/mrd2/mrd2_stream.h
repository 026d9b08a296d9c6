// An MRD 2 stream (yardl's binary encoding, protocol "Mrd") is read and written as the messages of ISMRMRD. Sources:
// https://ismrmrd.github.io/mrd and https://microsoft.github.io/yardl/reference/binary.html.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "protocol/data/limits.h"
#include "protocol/data/messages.h"
#include "protocol/data/result.h"
#include "protocol/files/stream_file.h"

namespace echotrain::protocol::mrd2 {

/// The first bytes of every such stream.
inline constexpr std::string_view kMagic = "yardl";

/// The things that had no place in the other format, in words, and how often each came.
using LeftOut = std::map<std::string, std::size_t>;

/// Reads a file or a pipe, whose messages are given as soon as they have arrived. The stream's own schema is followed,
/// so versions of MRD 2 whose fields have other places are read as well.
class Mrd2Reader {
 public:
  /// Throws std::system_error when the file cannot be opened.
  explicit Mrd2Reader(const std::filesystem::path& file, const Limits& limits = {});
  /// Reads a file that is not closed, after the bytes that were already read from it.
  explicit Mrd2Reader(std::FILE* file, const Limits& limits = {}, std::span<const std::byte> begun = {});
  ~Mrd2Reader();
  Mrd2Reader(Mrd2Reader&&) noexcept;

  /// Returns the next message: HeaderText, then Acquisitions, Waveforms and Images, then Close; then nothing. Errors
  /// name the byte and the item: "truncated", "io", "malformed", "bad-schema", "too-large" (limits.header_bytes for the
  /// header, acquisition_bytes, waveform_bytes and image_bytes for data; memory is taken as bytes arrive). After an
  /// error nothing more can be read.
  Result<std::optional<Message>> next();

  /// Returns items and fields so far that ISMRMRD has no place for; items that do not fit are among them, and the
  /// reading goes on behind them.
  const LeftOut& left_out() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes a file or a pipe, as MRD 2.1. Throws std::system_error when the bytes cannot be written.
class Mrd2Writer {
 public:
  explicit Mrd2Writer(const std::filesystem::path& file);  ///< replaces an existing file
  explicit Mrd2Writer(std::FILE* file);                    ///< not closed
  ~Mrd2Writer();
  Mrd2Writer(Mrd2Writer&&) noexcept;

  /// Writes a message. A header must be the first one; without one, the stream says that it has none. Returns an Error
  /// where the header is no ISMRMRD header ("bad-header"), comes too late, or data do not fill what their head says.
  Status write(const Message& message);
  /// Writes the stream's end. Without it, readers know that something is missing.
  void finish();
  const LeftOut& left_out() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::protocol::mrd2
