#include "gadgets/shared/store/array_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <random>
#include <system_error>

#include "gadgets/numerics/core/errors.h"

namespace echotrain {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'E', 'C', 'H', 'O', 'A', 'R', 'R', '1'};
constexpr const char* kSuffix = ".array";
constexpr auto kStale = std::chrono::hours(1);

struct Head {
  char magic[8];
  std::uint64_t key_bytes, elements, checksum;
};

/// Calls move(begin, bytes) in short stretches; throws Stopped if `stop` is set before one.
template <class Move>
void in_stretches(std::size_t bytes, const std::stop_token& stop, const Move& move) {
  constexpr std::size_t kStretch = std::size_t{16} << 20;
  for (std::size_t at = 0; at < bytes; at += kStretch) {
    if (stop.stop_requested()) throw numerics::Stopped();
    move(at, std::min(kStretch, bytes - at));
  }
}

/// digest_bytes() of `bytes` bytes that come in parts; the size of all but the last is a multiple of 8.
class Digest {
 public:
  Digest(std::size_t bytes, std::uint64_t seed) : hash_(seed ^ (bytes * 0x9e3779b97f4a7c15ull)) {}
  void add(const void* data, std::size_t bytes) {
    // Each word is mixed so that every bit reaches every other, and then joined to the hash.
    const auto* at = static_cast<const unsigned char*>(data);
    while (bytes > 0) {
      std::uint64_t word = 0;
      const std::size_t n = std::min(bytes, sizeof word);
      std::memcpy(&word, at, n);
      at += n;
      bytes -= n;
      word *= 0xff51afd7ed558ccdull;
      word ^= word >> 32;
      hash_ = (hash_ ^ word) * 0xc4ceb9fe1a85ec53ull;
      hash_ ^= hash_ >> 29;
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_;
};

/// Damage is found by this digest of the elements.
constexpr std::uint64_t kElementSeed = 3;

/// Whether the file goes on with `key`.
bool continues_with(std::istream& in, const std::string& key, const std::stop_token& stop) {
  std::vector<char> part;
  bool same = true;
  in_stretches(key.size(), stop, [&](std::size_t at, std::size_t n) {
    if (!same) return;
    part.resize(n);
    same = in.read(part.data(), static_cast<std::streamsize>(n)) && std::memcmp(part.data(), key.data() + at, n) == 0;
  });
  return same;
}

}  // namespace

std::uint64_t digest_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  Digest digest(bytes, seed);
  digest.add(data, bytes);
  return digest.value();
}

/// Named by SHA-256, so that nobody can make a key whose file takes the place of another one.
fs::path ArrayStore::file(const std::string& key, const std::stop_token& stop) const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> sha(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::array<unsigned char, 32> digest{};
  bool good = sha && EVP_DigestInit_ex(sha.get(), EVP_sha256(), nullptr) == 1;
  in_stretches(key.size(), stop, [&](std::size_t at, std::size_t n) {
    good = good && EVP_DigestUpdate(sha.get(), key.data() + at, n) == 1;
  });
  if (!good || EVP_DigestFinal_ex(sha.get(), digest.data(), nullptr) != 1) throw std::bad_alloc();
  return folder_ / fmt::format("{:02x}{}", fmt::join(digest, ""), kSuffix);
}

std::optional<std::vector<numerics::cfloat>> ArrayStore::find(const std::string& key, std::int64_t count,
                                                              const std::stop_token& stop) const {
  if (folder_.empty() || most_bytes_ == 0) return std::nullopt;
  const fs::path path = file(key, stop);
  std::error_code error;
  const auto elements = static_cast<std::uint64_t>(count);
  const std::uint64_t expected = sizeof(Head) + key.size() + elements * sizeof(numerics::cfloat);
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) != expected) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  Head head{};
  if (!in.read(reinterpret_cast<char*>(&head), sizeof head) || std::memcmp(head.magic, kMagic, sizeof kMagic) != 0 ||
      head.key_bytes != key.size() || head.elements != elements || !continues_with(in, key, stop))
    return std::nullopt;
  std::vector<numerics::cfloat> values;
  values.reserve(elements);
  const std::size_t bytes = elements * sizeof(numerics::cfloat);
  Digest digest(bytes, kElementSeed);
  in_stretches(bytes, stop, [&](std::size_t at, std::size_t n) {
    values.resize((at + n) / sizeof(numerics::cfloat));
    char* to = reinterpret_cast<char*>(values.data()) + at;
    in.read(to, static_cast<std::streamsize>(n));
    digest.add(to, n);
  });
  if (!in || digest.value() != head.checksum) return std::nullopt;
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);  // marks the file as used now
  return values;
}

void ArrayStore::add(const std::string& key, numerics::HostView<const numerics::cfloat> array,
                     const std::stop_token& stop) const {
  const std::uint64_t bytes = static_cast<std::uint64_t>(array.size()) * sizeof(numerics::cfloat);
  if (folder_.empty() || sizeof(Head) + key.size() + bytes > most_bytes_) return;
  const auto* from = reinterpret_cast<const char*>(array.data());
  const fs::path path = file(key, stop),
                 temporary =
                     path.string() + fmt::format(".{}-{:x}{}", ::getpid(), std::random_device()(), kUnfinishedFile);
  Digest digest(bytes, kElementSeed);
  in_stretches(bytes, stop, [&](std::size_t at, std::size_t n) { digest.add(from + at, n); });
  std::error_code error;
  fs::create_directories(folder_, error);
  trim_stored_files(folder_, kSuffix, most_bytes_ - (sizeof(Head) + key.size() + bytes));
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    Head head{};
    std::memcpy(head.magic, kMagic, sizeof kMagic);
    head.key_bytes = key.size();
    head.elements = static_cast<std::uint64_t>(array.size());
    head.checksum = digest.value();
    out.write(reinterpret_cast<const char*>(&head), sizeof head);
    const auto write = [&](const char* data, std::size_t size) {
      in_stretches(size, stop,
                   [&](std::size_t at, std::size_t n) { out.write(data + at, static_cast<std::streamsize>(n)); });
    };
    try {
      write(key.data(), key.size());
      write(from, bytes);
    } catch (const numerics::Stopped&) {
      fs::remove(temporary, error);
      throw;
    }
    out.close();
    if (!out) {
      fs::remove(temporary, error);
      return;
    }
  }
  fs::rename(temporary, path, error);
  if (error) fs::remove(temporary, error);
}

std::vector<StoredFile> stored_files(const fs::path& folder, const std::string& extension) {
  std::vector<StoredFile> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code of_file;
    if (at->path().extension() != extension || !at->is_regular_file(of_file)) continue;
    StoredFile file{at->path(), at->last_write_time(of_file), 0};
    if (!of_file) file.bytes = at->file_size(of_file);
    if (!of_file) found.push_back(std::move(file));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.written < b.written; });
  return found;
}

void trim_stored_files(const fs::path& folder, const std::string& extension, std::uint64_t most_bytes,
                       std::chrono::hours keep) {
  const auto now = fs::file_time_type::clock::now();
  std::error_code error;
  for (const StoredFile& file : stored_files(folder, kUnfinishedFile))
    if (now - file.written > kStale) fs::remove(file.path, error);
  const std::vector<StoredFile> files = stored_files(folder, extension);
  std::uint64_t sum = 0;
  for (const StoredFile& file : files) sum += file.bytes;
  for (const StoredFile& file : files) {
    if (sum <= most_bytes && std::chrono::duration_cast<std::chrono::hours>(now - file.written) < keep) return;
    sum -= file.bytes;
    fs::remove(file.path, error);
  }
}

}  // namespace echotrain
