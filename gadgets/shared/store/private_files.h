// Files that no other user reads, and digests of names that nobody is to learn from them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

namespace echotrain {

/// The whole of a file of at most `most` bytes; empty when there is none.
std::string contents(const std::filesystem::path& path, std::uint64_t most);

/// Writes a file beside `path` that nobody else writes, and no other user reads; false when that fails.
bool write_beside(const std::filesystem::path& path, const std::string& text, std::filesystem::path& temporary);

/// The folder's random number, made if there is none or a damaged one, as its folder is: several processes agree on it.
/// One of this process where the path is empty, or the folder cannot be written.
std::string salt_of(const std::filesystem::path& folder);

using SaltedDigest = std::array<unsigned char, 16>;
/// Of SHA-256. `what` tells digests of one purpose from others. Throws std::bad_alloc.
SaltedDigest salted_digest(const std::string& salt, char what, std::initializer_list<std::string_view> texts);

/// A client's name in the names of a folder's files: 8 hexadecimal digits, of the folder's salt and its identity.
std::string owner_name(const std::string& salt, std::string_view identity);
/// Whether a text is one.
bool is_owner_name(std::string_view text);

}  // namespace echotrain
