// A text for or from a peer is made safe to send or log, or checked when it is received.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace echotrain::protocol {

/// Returns the length in bytes of the well-formed UTF-8 character at the start of `text`; 0 when there is none
/// (overlong forms, surrogates, values above U+10FFFF and cut characters are not well-formed; RFC 3629).
std::size_t utf8_character(std::string_view text);

/// True if all of `text` is well-formed UTF-8.
bool is_utf8(std::string_view text);

/// Returns the part of `text` before its first NUL.
std::string_view cut_at_nul(std::string_view text);

/// Returns `text` with everything but printable ASCII replaced by '?', cut to `max_bytes` (then ending in "..."): for
/// the messages of an Error.
std::string quotable(std::string_view text, std::size_t max_bytes = 60);

enum class Level { debug, info, warning, error, critical };

/// Returns the text of a TEXT message: level padded to 8 characters, a space, the text with control characters and
/// invalid UTF-8 replaced, a newline (docs/protocol.md, "Rules for what the server sends").
std::string format_log_text(Level level, std::string_view text);

/// Returns `text` with control characters, format characters (which change the direction of text, or are not seen),
/// separators of lines and invalid UTF-8 replaced by '?', cut to `max_bytes`: safe for logs and peers.
std::string printable(std::string_view text, std::size_t max_bytes = 4096);

}  // namespace echotrain::protocol
