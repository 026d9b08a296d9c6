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
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <system_error>

#include "gadgets/numerics/core/numerics_errors.h"
#include "gadgets/shared/store/fair_share_eviction.h"
#include "gadgets/shared/store/private_files.h"

namespace echotrain {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'E', 'C', 'H', 'O', 'A', 'R', 'R', '1'};
constexpr const char *kSuffix = ".array", *kUse = ".use";
constexpr std::ptrdiff_t kMostClients = 64;  // users of an array
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

/// True if the file continues with `key`.
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

/// The file is named by SHA-256, so that nobody can make a key whose file takes the place of another one.
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
                                                              const std::stop_token& stop,
                                                              const std::string& client) const {
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
  note_use(path, owner_name(salt_of(folder_), client));
  return values;
}

/// Notes a use in the time of a file "DIGEST.OWNER.use".
void ArrayStore::note_use(const fs::path& array, const std::string& owner) const {
  const std::string digest = array.stem().string();
  const fs::path use = folder_ / fmt::format("{}.{}{}", digest, owner, kUse);
  std::error_code error;
  fs::last_write_time(use, fs::file_time_type::clock::now(), error);
  if (!error) return;
  const std::vector<StoredFile> uses = stored_files(folder_, kUse);
  if (std::ranges::count_if(uses, [&](const StoredFile& each) {
        return each.path.filename().string().starts_with(digest);
      }) < kMostClients)
    std::ofstream(use, std::ios::app).close();
  fs::last_write_time(use, fs::file_time_type::clock::now(), error);  // the file system's own clock is coarse
}

/// Removes files by the rule until `more` bytes of the owner's fit; returns false where they do not. Files without a
/// known user, as those of former versions, go first.
bool ArrayStore::make_room(std::uint64_t more, const std::string& owner) const {
  struct Kept {
    StoredFile file;
    std::vector<StoredFile> uses;  // the latest is last
  };
  trim_stored_files(folder_, kSuffix, std::numeric_limits<std::uint64_t>::max());  // files that processes left
                                                                                   // unfinished
  const auto now = fs::file_time_type::clock::now();
  std::error_code error;
  std::map<std::string, Kept> kept;
  std::uint64_t sum = more;
  for (StoredFile& each : stored_files(folder_, kSuffix)) {
    sum += each.bytes;
    kept[each.path.stem().string()].file = std::move(each);
  }
  for (StoredFile& use : stored_files(folder_, kUse)) {
    const auto of = kept.find(use.path.stem().stem().string());
    if (of != kept.end())
      of->second.uses.push_back(std::move(use));
    else if (now - use.written > kStale)  // its array is gone
      fs::remove(use.path, error);
  }
  for (bool again = true; again && sum > most_bytes_;) {
    again = false;
    std::map<std::string, std::vector<Kept*>> owned;  // null: the new array
    for (auto& [digest, each] : kept)
      if (!each.file.path.empty())
        owned[each.uses.empty() ? "" : each.uses.back().path.stem().extension().string()].push_back(&each);
    for (auto& [name, arrays] : owned)
      std::sort(arrays.begin(), arrays.end(),
                [](const Kept* a, const Kept* b) { return a->file.written > b->file.written; });
    std::vector<Kept*>& own = owned["." + owner];
    own.insert(own.begin(), nullptr);
    evict_to_fair_share(
        owned, most_bytes_, [&](const Kept* each) { return each == nullptr ? more : each->file.bytes; },
        [&](Kept* each) {
          if (each == nullptr) return false;
          if (!each->uses.empty()) {
            fs::remove(each->uses.back().path, error);
            each->uses.pop_back();
            again = true;
            if (!each->uses.empty()) return false;  // it now belongs to its previous user
          }
          if (!fs::remove(each->file.path, error) && error) return false;
          sum -= each->file.bytes;
          each->file.path.clear();
          return true;
        },
        [&](const Kept* each) {
          return each != nullptr && (each->uses.empty() || now - each->file.written > kShareLapses);
        });
  }
  return sum <= most_bytes_;
}

void ArrayStore::add(const std::string& key, numerics::HostView<const numerics::cfloat> array,
                     const std::stop_token& stop, const std::string& client) const {
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
  const std::string owner = owner_name(salt_of(folder_), client);
  if (!make_room(sizeof(Head) + key.size() + bytes, owner)) return;
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
  if (error)
    fs::remove(temporary, error);
  else
    note_use(path, owner);
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
