#include "gadgets/shared/store/private_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <random>
#include <system_error>

#include "gadgets/shared/store/array_store.h"
#include "gadgets/shared/store/record_codec.h"

namespace echotrain {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSaltFile = "salt";
constexpr std::size_t kSaltBytes = 32, kOwnerDigits = 8;

std::string random_bytes(std::size_t count) {
  std::random_device device;
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(device()));
  return bytes;
}

}  // namespace

std::string contents(const fs::path& path, std::uint64_t most) {
  std::error_code error;
  const std::uintmax_t size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
  if (error || size == 0 || size > most) return {};
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) return {};
  return text;
}

bool write_beside(const fs::path& path, const std::string& text, fs::path& temporary) {
  temporary = path.string() + fmt::format(".{}-{:x}{}", ::getpid(), std::random_device()(), kUnfinishedFile);
  const int made = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (made < 0) return false;
  ::close(made);
  std::ofstream out(temporary, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (out) return true;
  std::error_code error;
  fs::remove(temporary, error);
  return false;
}

// The first process to link a file to the name makes it for all.
std::string salt_of(const fs::path& folder) {
  if (folder.empty()) return random_bytes(kSaltBytes);
  const fs::path path = folder / kSaltFile;
  std::string salt = contents(path, kSaltBytes);
  if (salt.size() == kSaltBytes) return salt;
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  ::mkdir(folder.c_str(), S_IRWXU);
  fs::path temporary;
  salt = random_bytes(kSaltBytes);
  if (!write_beside(path, salt, temporary)) return salt;
  // Salts are linked when they are complete: an existing one of another size is damaged. If a folder that is not empty
  // has its name, the folder stays, and the salt is this process's own.
  if (fs::exists(fs::symlink_status(path, error)) && contents(path, kSaltBytes).size() != kSaltBytes)
    fs::remove(path, error);
  fs::create_hard_link(temporary, path, error);
  fs::remove(temporary, error);
  const std::string agreed = contents(path, kSaltBytes);
  return agreed.size() == kSaltBytes ? agreed : salt;
}

// Sizes precede texts, so that no two lists of texts are the same bytes.
SaltedDigest salted_digest(const std::string& salt, char what, std::initializer_list<std::string_view> texts) {
  std::string bytes = salt + what;
  for (const std::string_view text : texts) {
    put(bytes, static_cast<std::uint64_t>(text.size()));
    bytes += text;
  }
  std::array<unsigned char, 32> whole{};
  if (EVP_Digest(bytes.data(), bytes.size(), whole.data(), nullptr, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  SaltedDigest digest{};
  std::copy_n(whole.begin(), digest.size(), digest.begin());
  return digest;
}

std::string owner_name(const std::string& salt, std::string_view identity) {
  const SaltedDigest digest = salted_digest(salt, 'o', {identity});
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + kOwnerDigits / 2, ""));
}

bool is_owner_name(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == kOwnerDigits && std::all_of(text.begin(), text.end(), is_digit);
}

}  // namespace echotrain
