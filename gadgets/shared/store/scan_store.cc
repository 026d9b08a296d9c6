#include "gadgets/shared/store/scan_store.h"

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
#include <new>
#include <random>
#include <system_error>

#include "gadgets/shared/store/array_store.h"
#include "gadgets/shared/store/record_text.h"

namespace echotrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSaltFile = "salt";
constexpr std::size_t kSaltBytes = 32;
constexpr std::uint64_t kSeed = 7;
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 30;

std::string random_bytes(std::size_t count) {
  std::random_device device;
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(device()));
  return bytes;
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

fs::path folder_of(const numerics::ResourceOptions& options, const ScanStore::Kind& kind) {
  const bool keeps =
      kind.files && options.scan_store_disk && options.scan_store_bytes > 0 && options.scan_store_hours > 0;
  return keeps && !options.cache_folder.empty() ? options.cache_folder / kind.name : fs::path();
}

}  // namespace

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string end_of_id(const std::string& measurement_id) {
  constexpr std::size_t kShown = 8;
  const std::size_t size = measurement_id.size();
  return size > kShown ? "..." + measurement_id.substr(size - kShown) : measurement_id;
}

ScanStore::ScanStore(const numerics::Resources& resources, const Kind& kind)
    : kind_(kind),
      suffix_(std::string(".") + kind.name),
      most_bytes_(resources.options().scan_store_bytes),
      hours_(resources.options().scan_store_hours),
      folder_(folder_of(resources.options(), kind)),
      budget_(resources.memory()),
      share_(std::make_shared<numerics::MemoryAccount>(budget_)) {
  budget_->offer(*this);
}

ScanStore::~ScanStore() { budget_->withdraw(*this); }

bool ScanStore::too_old(const Kept& kept) const { return unix_seconds() - kept.made_unix_s > hours_ * 3600; }

ScanStore::Digest ScanStore::digest_of(const std::string& measurement_id) {
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

fs::path ScanStore::file(const Digest& digest) const {
  return folder_ / fmt::format("{:02x}{}", fmt::join(digest, ""), suffix_);
}

ScanStore::Kept ScanStore::find(const std::string& measurement_id) {
  if (measurement_id.empty() || hours_ == 0) return {};
  const Digest digest = digest_of(measurement_id);
  {
    const std::scoped_lock lock(mutex_);
    for (Entry& entry : entries_)
      if (entry.digest == digest && !too_old(entry.kept)) {
        entry.used = budget_->now();
        return entry.kept;
      }
  }
  const Kept found = read(digest);
  if (!found.record || too_old(found)) return {};
  keep(digest, found);
  return found;
}

void ScanStore::add(const std::string& measurement_id, Kept kept, const std::string& payload) {
  if (measurement_id.empty() || hours_ == 0) return;
  const Digest digest = digest_of(measurement_id);
  keep(digest, std::move(kept));
  write(digest, payload);
}

void ScanStore::keep(const Digest& digest, Kept kept) {
  if (!budget_->make_room(kept.bytes)) return;
  const std::scoped_lock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.digest == digest || too_old(entry.kept); });
  entries_.push_front({digest, std::move(kept), budget_->now()});
  count();
}

/// Drops what is beyond the bound, and pays for the rest. Called with mutex_ held.
void ScanStore::count() {
  std::uint64_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (bytes + entry->kept.bytes > most_bytes_) {
      entry = entries_.erase(entry);
    } else {
      bytes += entry->kept.bytes;
      ++entry;
    }
  }
  share_.set(bytes);
}

std::vector<std::pair<std::string, ScanStore::Kept>> ScanStore::all() {
  std::vector<std::pair<Digest, Kept>> found;
  {
    const std::scoped_lock lock(mutex_);
    for (const Entry& entry : entries_) found.emplace_back(entry.digest, entry.kept);
  }
  for (const Digest& digest : files()) {
    const auto same = [&](const auto& each) { return each.first == digest; };
    if (std::any_of(found.begin(), found.end(), same)) continue;
    if (Kept kept = read(digest); kept.record) found.emplace_back(digest, std::move(kept));
  }
  std::erase_if(found, [&](const auto& each) { return too_old(each.second); });
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.second.made_unix_s > b.second.made_unix_s; });
  std::vector<std::pair<std::string, Kept>> out;
  for (auto& [digest, kept] : found)
    out.emplace_back(fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + 4, "")), std::move(kept));
  return out;
}

ScanStore::Kept ScanStore::read(const Digest& digest) const {
  if (folder_.empty()) return {};
  const std::string text = contents(file(digest), std::min(most_bytes_, kMostFileBytes));
  Taker from{text};
  const auto magic = from.take<std::array<char, 8>>();
  const auto of = from.take<Digest>();
  const auto checksum = from.take<std::uint64_t>();
  if (!from.good || magic != kind_.magic || of != digest ||
      checksum != digest_bytes(from.left.data(), from.left.size(), kSeed))
    return {};
  return unpacked(from.left);
}

void ScanStore::write(const Digest& digest, const std::string& payload) const {
  if (folder_.empty() || payload.size() > kMostFileBytes) return;
  std::string text(kind_.magic.begin(), kind_.magic.end());
  put(text, digest);
  put(text, digest_bytes(payload.data(), payload.size(), kSeed));
  text += payload;
  if (text.size() > most_bytes_) return;
  trim_stored_files(folder_, suffix_, most_bytes_ - text.size(), std::chrono::hours(hours_));
  fs::path temporary;
  std::error_code error;
  if (!write_beside(file(digest), text, temporary)) return;
  fs::rename(temporary, file(digest), error);
  if (error) fs::remove(temporary, error);
}

/// Of the files that are there, by their names.
std::vector<ScanStore::Digest> ScanStore::files() const {
  std::vector<Digest> out;
  if (folder_.empty()) return out;
  for (const StoredFile& file : stored_files(folder_, suffix_)) {
    const std::string name = file.path.stem().string();
    Digest digest{};
    bool good = name.size() == 2 * digest.size();
    for (std::size_t i = 0; good && i < digest.size(); ++i) {
      const char* begin = name.data() + 2 * i;
      good = std::from_chars(begin, begin + 2, digest[i], 16).ptr == begin + 2;
    }
    if (good) out.push_back(digest);
  }
  return out;
}

ScanStore::Entries::const_iterator ScanStore::longest_unused() const {
  return std::min_element(entries_.begin(), entries_.end(),
                          [](const Entry& a, const Entry& b) { return a.used < b.used; });
}

std::optional<std::uint64_t> ScanStore::unused_since() const {
  const std::scoped_lock lock(mutex_);
  const auto entry = longest_unused();
  return entry == entries_.end() ? std::nullopt : std::optional<std::uint64_t>(entry->used);
}

void ScanStore::drop(std::uint64_t) {
  const std::scoped_lock lock(mutex_);
  if (const auto entry = longest_unused(); entry != entries_.end()) entries_.erase(entry);
  count();
}

}  // namespace echotrain
