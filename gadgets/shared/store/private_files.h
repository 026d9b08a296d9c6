// Private files, which no other user can read, and salted digests that hide names.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

namespace echotrain {

/// Returns the whole of a file of at most `most` bytes; empty when there is none.
std::string contents(const std::filesystem::path& path, std::uint64_t most);

/// Writes a file beside `path`, under a name that no other process uses, unreadable for other users; returns false when
/// that fails.
bool write_beside(const std::filesystem::path& path, const std::string& text, std::filesystem::path& temporary);

/// Returns the folder's random number. It is made, with its folder, if it is missing or damaged; several processes
/// agree on it. Where the path is empty, or the folder cannot be written, it is this process's own.
std::string salt_of(const std::filesystem::path& folder);

using SaltedDigest = std::array<unsigned char, 16>;
/// A digest by SHA-256. `what` tells digests of one purpose from others. Throws std::bad_alloc.
SaltedDigest salted_digest(const std::string& salt, char what, std::initializer_list<std::string_view> texts);

/// The name that stands for a client in the names of a folder's files: 8 hexadecimal digits, from the folder's salt and
/// the client's identity.
std::string owner_name(const std::string& salt, std::string_view identity);
/// True if a text is such a name.
bool is_owner_name(std::string_view text);

}  // namespace echotrain
