#include "gadgets/shared/noise_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <system_error>

#include "gadgets/numerics/core/array_store.h"

namespace echotrain {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'E', 'C', 'H', 'O', 'N', 'O', 'I', '1'};
constexpr const char* kSuffix = ".noise";
constexpr const char* kSaltFile = "salt";
constexpr std::size_t kSaltBytes = 32;
constexpr std::uint64_t kSeed = 7;
constexpr std::uint64_t kMostFileBytes = std::uint64_t{64} << 20;
constexpr int kMostCoils = 1024;
constexpr std::size_t kMostLabelBytes = 64;

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string random_bytes(std::size_t count) {
  std::random_device device;
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(device()));
  return bytes;
}

template <class T>
void put(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Takes values off the front of a text; `good` is false once one was missing.
struct Taker {
  std::string_view left;
  bool good = true;
  template <class T>
  T take() {
    T value{};
    bytes(&value, sizeof value);
    return value;
  }
  void bytes(void* to, std::size_t count) {
    good = good && left.size() >= count;
    if (!good) return;
    std::memcpy(to, left.data(), count);
    left.remove_prefix(count);
  }
};

bool is_matrix(const NoiseRecord& record) {
  return record.coils >= 1 && record.coils <= kMostCoils &&
         record.covariance.size() == static_cast<std::size_t>(record.coils) * static_cast<std::size_t>(record.coils) &&
         (record.labels.empty() || record.labels.size() == static_cast<std::size_t>(record.coils));
}

std::string packed(const NoiseRecord& record) {
  std::string out;
  put(out, static_cast<std::int32_t>(record.coils));
  put(out, record.dwell_us);
  put(out, record.samples);
  put(out, record.made_unix_s);
  for (const numerics::cdouble& value : record.covariance) put(out, value);
  put(out, static_cast<std::int32_t>(record.labels.size()));
  for (const std::string& label : record.labels) {
    const std::size_t size = std::min(label.size(), kMostLabelBytes);
    put(out, static_cast<unsigned char>(size));
    out.append(label, 0, size);
  }
  return out;
}

std::shared_ptr<const NoiseRecord> unpacked(std::string_view text) {
  Taker from{text};
  auto record = std::make_shared<NoiseRecord>();
  record->coils = from.take<std::int32_t>();
  if (record->coils < 1 || record->coils > kMostCoils) return nullptr;
  record->dwell_us = from.take<double>();
  record->samples = from.take<std::int64_t>();
  record->made_unix_s = from.take<std::int64_t>();
  const auto values = static_cast<std::size_t>(record->coils) * static_cast<std::size_t>(record->coils);
  if (from.left.size() < values * sizeof(numerics::cdouble)) return nullptr;
  record->covariance.resize(values);
  from.bytes(record->covariance.data(), values * sizeof(numerics::cdouble));
  const auto labels = from.take<std::int32_t>();
  for (std::int32_t i = 0; i < std::min(labels, kMostCoils) && from.good; ++i) {
    std::string label(from.take<unsigned char>(), '\0');
    from.bytes(label.data(), label.size());
    record->labels.push_back(std::move(label));
  }
  return from.good && from.left.empty() && is_matrix(*record) ? record : nullptr;
}

/// The whole of a file of at most `most` bytes; empty when there is none.
std::string contents(const fs::path& path, std::uint64_t most) {
  std::error_code error;
  const std::uintmax_t size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
  if (error || size == 0 || size > most) return {};
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) return {};
  return text;
}

/// Writes a file beside `path` that nobody else writes, and no other user reads; false when that fails.
bool write_beside(const fs::path& path, const std::string& text, fs::path& temporary) {
  temporary = path.string() + fmt::format(".{}-{:x}.part", ::getpid(), std::random_device()());
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

/// The folder's salt, made if there is none. Whoever is first to link a file to the name makes it for all.
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
  fs::create_hard_link(temporary, path, error);
  fs::remove(temporary, error);
  const std::string agreed = contents(path, kSaltBytes);
  return agreed.size() == kSaltBytes ? agreed : salt;
}

fs::path folder_of(const numerics::ResourceOptions& options) {
  const bool keeps = options.scan_store_disk && options.scan_store_bytes > 0 && options.scan_store_hours > 0;
  return keeps && !options.cache_folder.empty() ? options.cache_folder / "noise" : fs::path();
}

}  // namespace

std::uint64_t NoiseRecord::bytes() const {
  return sizeof(NoiseRecord) + covariance.size() * sizeof(numerics::cdouble) +
         labels.size() * (sizeof(std::string) + kMostLabelBytes);
}

NoiseStore::NoiseStore(const numerics::Resources& resources)
    : most_bytes_(resources.options().scan_store_bytes),
      hours_(resources.options().scan_store_hours),
      folder_(folder_of(resources.options())),
      budget_(resources.memory()),
      share_(std::make_shared<numerics::MemoryAccount>(budget_)) {
  budget_->offer(*this);
}

NoiseStore::~NoiseStore() { budget_->withdraw(*this); }

bool NoiseStore::too_old(const NoiseRecord& record) const { return unix_now() - record.made_unix_s > hours_ * 3600; }

NoiseStore::Digest NoiseStore::digest_of(const std::string& measurement_id) {
  std::string text;
  {
    const std::scoped_lock lock(mutex_);
    if (salt_.empty()) salt_ = salt_of(folder_);
    text = salt_ + measurement_id;
  }
  std::array<unsigned char, 32> whole{};
  if (EVP_Digest(text.data(), text.size(), whole.data(), nullptr, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  Digest digest{};
  std::copy_n(whole.begin(), digest.size(), digest.begin());
  return digest;
}

fs::path NoiseStore::file(const Digest& digest) const {
  return folder_ / fmt::format("{:02x}{}", fmt::join(digest, ""), kSuffix);
}

std::shared_ptr<const NoiseRecord> NoiseStore::find(const std::string& measurement_id) {
  if (measurement_id.empty() || hours_ == 0) return nullptr;
  const Digest digest = digest_of(measurement_id);
  {
    const std::scoped_lock lock(mutex_);
    for (Entry& entry : entries_)
      if (entry.digest == digest && !too_old(*entry.record)) {
        entry.used = budget_->now();
        return entry.record;
      }
  }
  auto found = read(digest);
  if (!found || too_old(*found)) return nullptr;
  keep(digest, found);
  return found;
}

void NoiseStore::add(const std::string& measurement_id, const NoiseRecord& record) {
  if (measurement_id.empty() || !is_matrix(record) || hours_ == 0) return;
  const Digest digest = digest_of(measurement_id);
  keep(digest, std::make_shared<NoiseRecord>(record));
  write(digest, record);
}

void NoiseStore::keep(const Digest& digest, std::shared_ptr<const NoiseRecord> record) {
  if (!budget_->make_room(record->bytes())) return;
  const std::scoped_lock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.digest == digest || too_old(*entry.record); });
  entries_.push_front({digest, std::move(record), budget_->now()});
  count();
}

/// Drops what is beyond the bound, and pays for the rest. Called with mutex_ held.
void NoiseStore::count() {
  std::uint64_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (bytes + entry->record->bytes() > most_bytes_) {
      entry = entries_.erase(entry);
    } else {
      bytes += entry->record->bytes();
      ++entry;
    }
  }
  share_.set(bytes);
}

std::vector<NoiseStore::Listed> NoiseStore::list() {
  std::vector<std::pair<Digest, std::shared_ptr<const NoiseRecord>>> all;
  {
    const std::scoped_lock lock(mutex_);
    for (const Entry& entry : entries_) all.emplace_back(entry.digest, entry.record);
  }
  for (const Digest& digest : files()) {
    const auto same = [&](const auto& each) { return each.first == digest; };
    if (std::any_of(all.begin(), all.end(), same)) continue;
    if (auto record = read(digest)) all.emplace_back(digest, std::move(record));
  }
  std::erase_if(all, [&](const auto& each) { return too_old(*each.second); });
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.second->made_unix_s > b.second->made_unix_s; });
  std::vector<Listed> out;
  for (const auto& [digest, record] : all)
    out.push_back({fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + 4, "")), record});
  return out;
}

std::shared_ptr<const NoiseRecord> NoiseStore::read(const Digest& digest) const {
  if (folder_.empty()) return nullptr;
  const std::string text = contents(file(digest), std::min(most_bytes_, kMostFileBytes));
  Taker from{text};
  char magic[sizeof kMagic] = {};
  from.bytes(magic, sizeof magic);
  const auto of = from.take<Digest>();
  const auto checksum = from.take<std::uint64_t>();
  if (!from.good || std::memcmp(magic, kMagic, sizeof kMagic) != 0 || of != digest ||
      checksum != numerics::digest_bytes(from.left.data(), from.left.size(), kSeed))
    return nullptr;
  return unpacked(from.left);
}

void NoiseStore::write(const Digest& digest, const NoiseRecord& record) const {
  if (folder_.empty()) return;
  const std::string payload = packed(record);
  std::string text(kMagic, sizeof kMagic);
  put(text, digest);
  put(text, numerics::digest_bytes(payload.data(), payload.size(), kSeed));
  text += payload;
  if (text.size() > most_bytes_) return;
  make_room(text.size());
  fs::path temporary;
  std::error_code error;
  if (!write_beside(file(digest), text, temporary)) return;
  fs::rename(temporary, file(digest), error);
  if (error) fs::remove(temporary, error);
}

/// Of the files that are there, by their names.
std::vector<NoiseStore::Digest> NoiseStore::files() const {
  std::vector<Digest> out;
  std::error_code error;
  if (folder_.empty()) return out;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().stem().string();
    Digest digest{};
    bool good = at->path().extension() == kSuffix && name.size() == 2 * digest.size();
    for (std::size_t i = 0; good && i < digest.size(); ++i) {
      const char* begin = name.data() + 2 * i;
      good = std::from_chars(begin, begin + 2, digest[i], 16).ptr == begin + 2;
    }
    if (good) out.push_back(digest);
  }
  return out;
}

/// Removes files that are too old, unfinished ones, and the oldest beyond the bound.
void NoiseStore::make_room(std::uint64_t bytes) const {
  struct Old {
    fs::file_time_type written;
    fs::path path;
    std::uint64_t bytes;
  };
  std::vector<Old> all;
  std::uint64_t sum = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code of_file;
    if (!at->is_regular_file(of_file) || at->path().filename() == kSaltFile) continue;
    const auto written = at->last_write_time(of_file);
    if (of_file) continue;
    if (fs::file_time_type::clock::now() - written > std::chrono::hours(hours_)) {
      fs::remove(at->path(), of_file);
    } else if (at->path().extension() == kSuffix) {
      all.push_back({written, at->path(), at->file_size(of_file)});
      sum += all.back().bytes;
    }
  }
  std::sort(all.begin(), all.end(), [](const Old& a, const Old& b) { return a.written < b.written; });
  for (const Old& old : all) {
    if (sum + bytes <= most_bytes_) return;
    sum -= old.bytes;
    fs::remove(old.path, error);
  }
}

NoiseStore::Entries::const_iterator NoiseStore::longest_unused() const {
  return std::min_element(entries_.begin(), entries_.end(),
                          [](const Entry& a, const Entry& b) { return a.used < b.used; });
}

std::optional<std::uint64_t> NoiseStore::unused_since() const {
  const std::scoped_lock lock(mutex_);
  const auto entry = longest_unused();
  return entry == entries_.end() ? std::nullopt : std::optional<std::uint64_t>(entry->used);
}

void NoiseStore::drop(std::uint64_t) {
  const std::scoped_lock lock(mutex_);
  if (const auto entry = longest_unused(); entry != entries_.end()) entries_.erase(entry);
  count();
}

}  // namespace echotrain
