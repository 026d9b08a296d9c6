// The codec turns bytes into messages and messages into bytes: pure functions over spans, no sockets, no state.
// Layouts: docs/protocol.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "protocol/data/limits.h"
#include "protocol/data/messages.h"
#include "protocol/data/result.h"
#include "protocol/data/text.h"

namespace echotrain::protocol {

/// The extent of the message that starts at the first byte given to measure(), as far as it is known.
struct Extent {
  std::uint16_t id = 0;    ///< 0 while fewer than 2 bytes are there
  std::uint64_t size = 0;  ///< whole message with its id if `exact`, else the bytes needed to learn more
  bool exact = false;
};

/// Says how long the message at the start of `bytes` is, looking at no more than its fixed part and allocating nothing.
/// Refuses everything that docs/protocol.md calls fatal and that the fixed part can show: unknown or unsupported id
/// (with what it probably is: HTTP, TLS, MRD v2), bad version, sizes over `limits` (64-bit arithmetic), compression
/// kinds with no known layout. Version 0 is accepted (the session warns once).
Result<Extent> measure(std::span<const std::byte> bytes, const Limits& limits);

/// Decodes one whole message (exactly the bytes that measure() asked for). Payloads refer into `bytes`, kept alive by
/// `owner`; compressed samples are expanded into a buffer of their own. Texts are cut at their first NUL.
Result<Message> decode(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const Limits& limits);

/// Decodes a readout that measure() has found to be whole, in place: `to` is a new one. Of compressed samples only the
/// block's beginning is checked, and they stay as they are, for expand().
Status decode_acquisition(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner, Acquisition& to);

/// True if decode_acquisition() has left compressed samples and the flag that says how.
bool is_compressed(const Acquisition& acquisition);
/// Returns the bytes that expand() takes at a time, the plain samples among them; 0 for a readout with plain samples.
std::uint64_t expanding_bytes(const Acquisition& acquisition);
/// Puts plain samples in the place of compressed ones. Errors have code "compression". `owner`: kept as long as the
/// samples are; may be null.
Status expand(Acquisition& acquisition, std::shared_ptr<const void> owner = nullptr);

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

/// Appends an image message without its pixels, so that pixels can be sent from where they lie (vectored write).
void encode_without_pixels(const Image& message, Buffer& out);

/// Returns "1008 (ACQUISITION)", or just the number for an id without a name.
std::string id_text(std::uint16_t id);

}  // namespace echotrain::protocol
