#include "gadgets/shared/trajectory_store.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gadgets/shared/store/equal_parts.h"

namespace echotrain {

std::vector<std::shared_ptr<const KnownTrajectory>> TrajectoryStore::find(const std::string& owner,
                                                                          const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<const KnownTrajectory>> found;
  for (const Entry& entry : entries_) {
    if (entry.owner != owner || entry.key != key) continue;
    entry.used = budget_->now();
    found.push_back(entry.known);
  }
  return found;
}

void TrajectoryStore::add(const std::string& owner, const std::string& key,
                          std::shared_ptr<const KnownTrajectory> known, const std::string& client) {
  if (!known->paid && !budget_->make_room(known->bytes())) return;
  const std::scoped_lock lock(mutex_);
  Entry added{owner, client.empty() ? owner : client, key, std::move(known), budget_->now()};
  if (bytes_of(added) > most_bytes_) return;
  entries_.push_front(std::move(added));
  std::map<std::string, std::vector<Entries::iterator>> owned;
  std::size_t of_key = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    of_key += entry->owner == owner && entry->key == key ? 1 : 0;
    if (entry->owner == owner && entry->key == key && of_key > kPerKey) {
      entry = entries_.erase(entry);
    } else {
      owned[entry->client].push_back(entry);
      ++entry;
    }
  }
  const auto erase = [this](Entries::iterator entry) {
    entries_.erase(entry);
    return true;
  };
  keep_equal_parts(
      owned, most_bytes_, [](Entries::iterator entry) { return bytes_of(*entry); }, erase);
  keep_equal_parts(
      owned, kMostEntries, [](Entries::iterator) { return std::uint64_t{1}; }, erase);
  std::uint64_t unpaid = 0;
  for (const Entry& entry : entries_) unpaid += unpaid_of(entry);
  share_.set(unpaid);
}

namespace {
constexpr auto kAny = [](const auto& /*entry*/) { return true; };
}  // namespace

template <class Wanted>
TrajectoryStore::Entries::const_iterator TrajectoryStore::longest_unused(const Wanted& wanted) const {
  auto longest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
    if (entry->known.use_count() == 1 && wanted(*entry) && (longest == entries_.end() || entry->used < longest->used))
      longest = entry;
  return longest;
}

std::optional<std::uint64_t> TrajectoryStore::unused_since() const {
  const std::scoped_lock lock(mutex_);
  const auto entry = longest_unused(kAny);
  return entry == entries_.end() ? std::nullopt : std::optional<std::uint64_t>(entry->used);
}

TrajectoryStore::Shares TrajectoryStore::shares() const {
  const std::scoped_lock lock(mutex_);
  Shares shares;
  for (const Entry& entry : entries_) {
    Share& share = shares[entry.client];
    share.bytes += bytes_of(entry);
    if (entry.known.use_count() == 1)
      share.unused_since = std::min(share.unused_since.value_or(entry.used), entry.used);
  }
  return shares;
}

template <class Wanted>
void TrajectoryStore::drop_one(const Wanted& wanted) {
  const std::scoped_lock lock(mutex_);
  const auto entry = longest_unused(wanted);
  if (entry == entries_.end()) return;
  share_.set(share_.bytes() - unpaid_of(*entry));
  entries_.erase(entry);
}

void TrajectoryStore::drop(std::uint64_t) { drop_one(kAny); }

void TrajectoryStore::drop_of(const std::string& client, std::uint64_t) {
  drop_one([&](const Entry& entry) { return entry.client == client; });
}

}  // namespace echotrain
