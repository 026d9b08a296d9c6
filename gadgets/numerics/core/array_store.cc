#include "gadgets/numerics/core/array_store.h"

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

namespace echotrain::numerics {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'E', 'C', 'H', 'O', 'A', 'R', 'R', '1'};
constexpr const char* kSuffix = ".array";
constexpr const char* kUnfinished = ".part";  // a file that is being written, or was when its process was killed
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
    if (stop.stop_requested()) throw Stopped();
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
constexpr std::uint64_t kSeed = 3;

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

std::optional<std::vector<cfloat>> ArrayStore::find(const std::string& key, std::int64_t count,
                                                    const std::stop_token& stop) const {
  if (folder_.empty() || most_bytes_ == 0) return std::nullopt;
  const fs::path path = file(key, stop);
  std::error_code error;
  const auto elements = static_cast<std::uint64_t>(count);
  const std::uint64_t expected = sizeof(Head) + key.size() + elements * sizeof(cfloat);
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) != expected) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  Head head{};
  if (!in.read(reinterpret_cast<char*>(&head), sizeof head) || std::memcmp(head.magic, kMagic, sizeof kMagic) != 0 ||
      head.key_bytes != key.size() || head.elements != elements || !continues_with(in, key, stop))
    return std::nullopt;
  std::vector<cfloat> values;
  values.reserve(elements);
  const std::size_t bytes = elements * sizeof(cfloat);
  Digest digest(bytes, kSeed);
  in_stretches(bytes, stop, [&](std::size_t at, std::size_t n) {
    values.resize((at + n) / sizeof(cfloat));
    char* to = reinterpret_cast<char*>(values.data()) + at;
    in.read(to, static_cast<std::streamsize>(n));
    digest.add(to, n);
  });
  if (!in || digest.value() != head.checksum) return std::nullopt;
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);  // marks the file as used now
  return values;
}

void ArrayStore::add(const std::string& key, HostView<const cfloat> array, const std::stop_token& stop) const {
  const std::uint64_t bytes = static_cast<std::uint64_t>(array.size()) * sizeof(cfloat);
  if (folder_.empty() || sizeof(Head) + key.size() + bytes > most_bytes_) return;
  const auto* from = reinterpret_cast<const char*>(array.data());
  const fs::path path = file(key, stop),
                 temporary = path.string() + fmt::format(".{}-{:x}{}", ::getpid(), std::random_device()(), kUnfinished);
  Digest digest(bytes, kSeed);
  in_stretches(bytes, stop, [&](std::size_t at, std::size_t n) { digest.add(from + at, n); });
  std::error_code error;
  fs::create_directories(folder_, error);
  make_room(sizeof(Head) + key.size() + bytes);
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
    } catch (const Stopped&) {
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

void ArrayStore::make_room(std::uint64_t bytes) const {
  struct Old {
    fs::file_time_type used;
    fs::path path;
    std::uint64_t bytes;
  };
  std::vector<Old> files;
  std::uint64_t sum = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code of_file;
    if (at->path().extension() == kUnfinished &&
        fs::file_time_type::clock::now() - at->last_write_time(of_file) > kStale)
      fs::remove(at->path(), of_file);
    if (at->path().extension() != kSuffix || !at->is_regular_file(of_file)) continue;
    files.push_back({at->last_write_time(of_file), at->path(), at->file_size(of_file)});
    sum += files.back().bytes;
  }
  std::sort(files.begin(), files.end(), [](const Old& a, const Old& b) { return a.used < b.used; });
  for (const Old& old : files) {
    if (sum + bytes <= most_bytes_) return;
    sum -= old.bytes;
    fs::remove(old.path, error);
  }
}

}  // namespace echotrain::numerics
