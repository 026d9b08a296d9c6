#include "gadgets/shared/store/scan_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <system_error>

#include "gadgets/shared/store/array_store.h"
#include "gadgets/shared/store/fair_share_eviction.h"
#include "gadgets/shared/store/private_files.h"
#include "gadgets/shared/store/record_codec.h"

namespace echotrain {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSeed = 7;
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 30;
constexpr std::size_t kHeadBytes = 8 + 16 + 8 + 16 + 16 + 8;
constexpr std::chrono::minutes kLook{1};

/// The disk space of a file, in blocks; 0 if there is none.
std::uint64_t bytes_on_disk(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  constexpr std::uint64_t kBlock = 512;  // the block of stat(2)
  return std::max(static_cast<std::uint64_t>(status.st_size), static_cast<std::uint64_t>(status.st_blocks) * kBlock);
}

/// Reads the digest from a file's name, without its ending.
std::optional<std::array<unsigned char, 16>> digest_in(const std::string& name) {
  std::array<unsigned char, 16> digest{};
  bool good = name.size() == 2 * digest.size();
  for (std::size_t i = 0; good && i < digest.size(); ++i) {
    const char* begin = name.data() + 2 * i;
    good = std::from_chars(begin, begin + 2, digest[i], 16).ptr == begin + 2;
  }
  return good ? std::optional(digest) : std::nullopt;
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
  budget_->add_evictable(*this);
}

ScanStore::~ScanStore() { budget_->remove_evictable(*this); }

bool ScanStore::too_old(std::int64_t made_unix_s) const { return unix_seconds() - made_unix_s > hours_ * 3600; }

ScanStore::Digest ScanStore::digest_of(char what, std::initializer_list<std::string_view> texts) {
  std::string salt;
  {
    const std::scoped_lock lock(mutex_);
    if (salt_.empty()) salt_ = salt_of(folder_);
    salt = salt_;
  }
  return salted_digest(salt, what, texts);
}

ScanStore::Head ScanStore::head_of(const RecordKey& key, std::int64_t made_unix_s) {
  return {digest_of('r', {key.owner, key.device, key.measurement_id}),
          digest_of('o', {key.client.empty() ? key.owner : key.client}),
          digest_of('s', {key.owner, key.measurement_id}), made_unix_s};
}

fs::path ScanStore::file(const Digest& digest) const {
  return folder_ / fmt::format("{:02x}{}", fmt::join(digest, ""), suffix_);
}

ScanStore::Kept ScanStore::find(const RecordKey& key) {
  if (key.measurement_id.empty() || hours_ == 0) return {};
  return find(digest_of('r', {key.owner, key.device, key.measurement_id}));
}

ScanStore::Kept ScanStore::find_of_any_device(const std::string& owner, const std::string& measurement_id) {
  if (measurement_id.empty() || hours_ == 0) return {};
  look_at_folder(true);
  const Digest scan = digest_of('s', {owner, measurement_id});
  std::optional<Digest> one;
  {
    const std::scoped_lock lock(mutex_);
    for (const Entry& entry : entries_) {
      if (entry.head.scan != scan || too_old(entry.head.made_unix_s)) continue;
      if (one) return {};
      one = entry.head.digest;
    }
  }
  return one ? find(*one) : Kept{};
}

ScanStore::Kept ScanStore::find(const Digest& digest) {
  Kept found;
  bool has_file = false;
  {
    const std::scoped_lock lock(mutex_);
    for (Entry& entry : entries_)
      if (entry.head.digest == digest && entry.kept.record && !too_old(entry.head.made_unix_s)) {
        entry.used = budget_->now();
        found = entry.kept;
        has_file = entry.disk > 0;
      }
  }
  if (!found.record) {
    auto [head, kept] = read(digest);  // another process may have written it
    if (!kept.record || too_old(head.made_unix_s)) return {};
    found = kept;
    has_file = true;
    keep(head, std::move(kept), {});
  }
  std::error_code error;
  if (has_file) fs::last_write_time(file(digest), fs::file_time_type::clock::now(), error);  // marks it as used
  return found;
}

ScanStore::Added ScanStore::add(const RecordKey& key, Kept kept, const std::string& payload) {
  if (key.measurement_id.empty() || hours_ == 0) return Added::no;
  look_at_folder();
  const Head head = head_of(key, kept.made_unix_s);
  const fs::path written = write(head, payload);
  return keep(head, std::move(kept), written);
}

/// Puts a record into the index, and its new file in place; without a file, it may be there already.
ScanStore::Added ScanStore::keep(const Head& head, Kept kept, const fs::path& written) {
  if (!budget_->make_room(kept.bytes)) kept.record = nullptr;
  const std::scoped_lock lock(mutex_);
  std::error_code error;
  if (!written.empty()) fs::rename(written, file(head.digest), error);
  if (error) fs::remove(written, error);
  const auto same = [&](const Entry& entry) { return entry.head.digest == head.digest; };
  const bool known = std::erase_if(entries_, same) > 0;
  entries_.push_back({head, std::move(kept), folder_.empty() ? 0 : bytes_on_disk(file(head.digest)), budget_->now()});
  trim();
  if (std::none_of(entries_.begin(), entries_.end(), same)) return Added::no;
  return known ? Added::replaced : Added::fresh;
}

void ScanStore::forget_file(Entry& entry) {
  std::error_code error;
  fs::remove(file(entry.head.digest), error);
  entry.disk = 0;
}

void ScanStore::forget(Entry& entry) {
  forget_memory(entry);
  if (entry.disk > 0) forget_file(entry);
}

/// Forgets records that are too old or beyond the bounds. Requires mutex_; so do the functions below.
void ScanStore::trim() {
  for (Entry& entry : entries_)
    if (too_old(entry.head.made_unix_s)) forget(entry);
  clean();
  trim(
      most_bytes_, [](const Entry& entry) { return entry.memory(); }, &ScanStore::forget_memory);
  trim(
      most_bytes_, [](const Entry& entry) { return entry.disk; }, &ScanStore::forget_file);
  clean();
  trim(
      kMostEntries, [](const Entry&) { return std::uint64_t{1}; }, &ScanStore::forget);
  clean();
}

/// Forgets records until there is at most `most`, each time one of the client that has most.
void ScanStore::trim(std::uint64_t most, std::uint64_t (*amount)(const Entry&), void (ScanStore::*give_up)(Entry&)) {
  std::uint64_t sum = 0;
  for (const Entry& entry : entries_) sum += amount(entry);
  if (sum <= most) return;
  std::map<Digest, std::vector<Entry*>> owned;
  for (Entry& entry : entries_)
    if (amount(entry) > 0) owned[entry.head.client].push_back(&entry);
  for (auto& [owner, entries] : owned)
    std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) { return a->used > b->used; });
  evict_to_fair_share(
      owned, most, [&](const Entry* entry) { return amount(*entry); },
      [&](Entry* entry) {
        (this->*give_up)(*entry);
        return true;
      });
}

/// Removes entries from the index that are neither in memory nor on the disk, and pays for the others.
void ScanStore::clean() {
  std::erase_if(entries_, [](const Entry& entry) { return !entry.kept.record && entry.disk == 0; });
  std::uint64_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.memory();
  share_.set(bytes);
}

/// Updates the index from the folder, if nobody has for a minute, or with `if_changed` if files have come or gone
/// since: other programs may have changed it.
void ScanStore::look_at_folder(bool if_changed) {
  if (folder_.empty()) return;
  std::unique_lock looking(look_mutex_, std::defer_lock);
  if (if_changed)
    looking.lock();
  else if (!looking.try_lock())
    return;  // another thread looks
  const auto now = std::chrono::steady_clock::now();
  std::error_code error;
  const fs::file_time_type changed = fs::last_write_time(folder_, error);
  if (looked_ && now - *looked_ < kLook && !(if_changed && changed != changed_)) return;
  looked_ = now;
  // A change within a tick of the file system's clock does not change the time.
  constexpr auto kTick = std::chrono::milliseconds(20);
  changed_ = fs::file_time_type::clock::now() - changed > kTick ? changed : fs::file_time_type::min();
  const std::uint64_t since = budget_->now();
  trim_stored_files(folder_, kUnfinishedFile, std::numeric_limits<std::uint64_t>::max(), std::chrono::hours(1));
  std::set<Digest> known, there;
  {
    const std::scoped_lock lock(mutex_);
    for (const Entry& entry : entries_) known.insert(entry.head.digest);
  }
  std::vector<Entry> fresh;
  for (const StoredFile& stored : stored_files(folder_, suffix_)) {
    const std::optional<Digest> digest = digest_in(stored.path.stem().string());
    if (!digest) continue;
    there.insert(*digest);
    if (known.contains(*digest)) continue;
    std::string begin(kHeadBytes, '\0');
    std::ifstream(stored.path, std::ios::binary).read(begin.data(), kHeadBytes);
    const auto age =
        std::chrono::duration_cast<std::chrono::seconds>(fs::file_time_type::clock::now() - stored.written);
    const Head former{*digest, {}, {}, unix_seconds() - age.count()};
    fresh.push_back({read_head(begin).value_or(former), {}, bytes_on_disk(stored.path), budget_->now()});
    fresh.back().head.digest = *digest;
  }
  const std::scoped_lock lock(mutex_);
  for (Entry& entry : entries_)
    if (entry.used < since && !there.contains(entry.head.digest)) entry.disk = 0;
  for (Entry& each : fresh)
    if (std::none_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.head.digest == each.head.digest; }))
      entries_.push_back(std::move(each));
  trim();
}

std::size_t ScanStore::former_files() {
  look_at_folder();
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(),
                                                [](const Entry& entry) { return entry.head.client == Digest{}; }));
}

std::vector<std::pair<std::string, ScanStore::Kept>> ScanStore::all() {
  look_at_folder(true);
  std::vector<std::pair<Digest, Kept>> found;
  {
    const std::scoped_lock lock(mutex_);
    for (const Entry& entry : entries_)
      if (!too_old(entry.head.made_unix_s)) found.emplace_back(entry.head.digest, entry.kept);
  }
  for (auto& [digest, kept] : found)
    if (!kept.record) kept = read(digest).second;
  std::erase_if(found, [&](const auto& each) { return !each.second.record || too_old(each.second.made_unix_s); });
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.second.made_unix_s > b.second.made_unix_s; });
  std::vector<std::pair<std::string, Kept>> out;
  for (auto& [digest, kept] : found)
    out.emplace_back(fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + 4, "")), std::move(kept));
  return out;
}

/// A file: magic, digest, checksum of all that follows, the rest of the head, the payload.
std::optional<ScanStore::Head> ScanStore::read_head(std::string_view text) const {
  RecordReader from{text};
  const auto magic = from.take<std::array<char, 8>>();
  Head head{};
  head.digest = from.take<Digest>();
  from.take<std::uint64_t>();
  head.client = from.take<Digest>();
  head.scan = from.take<Digest>();
  head.made_unix_s = from.take<std::int64_t>();
  return from.good && magic == kind_.magic ? std::optional<Head>(head) : std::nullopt;
}

std::pair<ScanStore::Head, ScanStore::Kept> ScanStore::read(const Digest& digest) const {
  if (folder_.empty()) return {};
  const std::string text = contents(file(digest), std::min(most_bytes_, kMostFileBytes));
  const std::optional<Head> head = read_head(text);
  if (!head || head->digest != digest) return {};
  constexpr std::size_t kBefore = sizeof kind_.magic + sizeof(Digest);
  RecordReader from{std::string_view(text).substr(kBefore)};
  if (from.take<std::uint64_t>() != digest_bytes(from.left.data(), from.left.size(), kSeed)) return {};
  Kept kept = unpacked(std::string_view(text).substr(kHeadBytes));
  if (kept.made_unix_s != head->made_unix_s) kept.record = nullptr;
  return {*head, std::move(kept)};
}

/// Writes a record beside its place; returns an empty path where that is not possible.
fs::path ScanStore::write(const Head& head, const std::string& payload) const {
  if (folder_.empty() || payload.size() > kMostFileBytes) return {};
  std::string rest;
  put(rest, head.client);
  put(rest, head.scan);
  put(rest, head.made_unix_s);
  rest += payload;
  std::string text(kind_.magic.begin(), kind_.magic.end());
  put(text, head.digest);
  put(text, digest_bytes(rest.data(), rest.size(), kSeed));
  text += rest;
  fs::path temporary;
  return text.size() <= most_bytes_ && write_beside(file(head.digest), text, temporary) ? temporary : fs::path();
}

/// Records without a file stay, however much memory others need.
std::optional<std::uint64_t> ScanStore::unused_since() const {
  const std::scoped_lock lock(mutex_);
  std::optional<std::uint64_t> since;
  for (const Entry& entry : entries_)
    if (entry.can_drop()) since = std::min(since.value_or(entry.used), entry.used);
  return since;
}

void ScanStore::evict(std::uint64_t wanted) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t all = 0, last = std::numeric_limits<std::uint64_t>::max();
  for (const Entry& entry : entries_) all += entry.can_drop() ? entry.memory() : 0;
  if (wanted = worth_a_walk(wanted, all); wanted < all) {  // else it needs no memory
    UsesAndBytes unused;
    for (const Entry& entry : entries_)
      if (entry.can_drop()) unused.emplace_back(entry.used, entry.memory());
    last = last_to_go(std::move(unused), wanted);
  }
  for (Entry& entry : entries_)
    if (entry.can_drop() && entry.used <= last) forget_memory(entry);
  clean();
}

}  // namespace echotrain
