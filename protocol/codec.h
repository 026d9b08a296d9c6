// Bytes <-> messages: pure functions over spans, no sockets, no state. Layouts: docs/protocol.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/limits.h"
#include "protocol/messages.h"
#include "protocol/result.h"

namespace echotrain::protocol {

/// What is known of the message that starts at the first byte given to measure().
struct Extent {
  std::uint16_t id = 0;    ///< 0 while fewer than 2 bytes are there
  std::uint64_t size = 0;  ///< whole message with its id if `exact`, else the bytes needed to learn more
  bool exact = false;
};

/// Says how long the message at the start of `bytes` is, looking at no more than its fixed part and allocating nothing.
/// Everything that docs/protocol.md calls fatal and that the fixed part can show is refused here: unknown or
/// unsupported id (with what it probably is: HTTP, TLS, MRD v2), bad version, sizes over `limits` (64-bit arithmetic),
/// compression kinds with no known layout. Version 0 is accepted (the session warns once).
Result<Extent> measure(std::span<const std::byte> bytes, const Limits& limits);

/// Decodes one whole message (exactly the bytes that measure() asked for). Payloads refer into `bytes`, kept alive by
/// `owner`; compressed samples are expanded into a buffer of their own. Texts are cut at their first NUL.
Result<Message> decode(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const Limits& limits);

using Buffer = std::vector<std::byte>;

// Each appends one whole message to `out`.
void encode(const ConfigFile& message, Buffer& out);  ///< name: at most 1023 characters (std::length_error above)
void encode(const ConfigText& message, Buffer& out);
void encode(const HeaderText& message, Buffer& out);
void encode(const Close& message, Buffer& out);
void encode(const Text& message, Buffer& out);  ///< as is, with one NUL; make the text with format_log_text()
void encode(const Query& message, Buffer& out);
void encode(const Response& message, Buffer& out);
void encode(const Acquisition& message, Buffer& out);
void encode(const Waveform& message, Buffer& out);
void encode(const Image& message, Buffer& out);

/// All of an image message but its pixels, so that pixels can be sent from where they lie (vectored write).
void encode_without_pixels(const Image& message, Buffer& out);

enum class Level { debug, info, warning, error, critical };

/// The text of a TEXT message: level padded to 8 characters, a space, the text with control characters and invalid
/// UTF-8 replaced, a newline (docs/protocol.md, "Rules for what the server sends").
std::string format_log_text(Level level, std::string_view text);

/// `text` with control characters and invalid UTF-8 replaced by '?', cut to `max_bytes`: safe for logs and peers.
std::string printable(std::string_view text, std::size_t max_bytes = 4096);

/// Bytes per pixel of an ISMRMRD data type; 0 when the type is not one of 1..8.
std::size_t bytes_per_pixel(std::uint16_t data_type);

}  // namespace echotrain::protocol
