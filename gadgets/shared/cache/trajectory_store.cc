#include "gadgets/shared/cache/trajectory_store.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "gadgets/shared/store/fair_share_eviction.h"

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
  evict_to_fair_share(
      owned, most_bytes_, [](Entries::iterator entry) { return bytes_of(*entry); }, erase);
  evict_to_fair_share(
      owned, kMostEntries, [](Entries::iterator) { return std::uint64_t{1}; }, erase);
  std::uint64_t unpaid = 0;
  for (const Entry& entry : entries_) unpaid += unpaid_of(entry);
  share_.set(unpaid);
}

std::optional<std::uint64_t> TrajectoryStore::unused_since() const {
  const std::scoped_lock lock(mutex_);
  std::optional<std::uint64_t> since;
  for (const Entry& entry : entries_)
    if (is_unused(entry)) since = std::min(since.value_or(entry.used), entry.used);
  return since;
}

TrajectoryStore::Shares TrajectoryStore::shares() const {
  const std::scoped_lock lock(mutex_);
  Shares shares;
  for (const Entry& entry : entries_) {
    Share& share = shares[entry.client];
    share.bytes += bytes_of(entry);
    if (is_unused(entry)) share.unused_since = std::min(share.unused_since.value_or(entry.used), entry.used);
  }
  return shares;
}

/// Drops entries that no scan holds and for which `goes` is true, what was unused for longest first, until they have
/// `wanted` bytes. Needs no memory where all go.
template <class Goes>
void TrajectoryStore::evict_unused(std::uint64_t wanted, const Goes& goes) {
  Entries gone;  // thousands take milliseconds: freed without the lock
  const std::scoped_lock lock(mutex_);
  const auto can_go = [&](const Entry& entry) { return is_unused(entry) && goes(entry); };
  std::uint64_t all = 0, last = std::numeric_limits<std::uint64_t>::max();
  for (const Entry& entry : entries_) all += can_go(entry) ? bytes_of(entry) : 0;
  if (wanted = worth_a_walk(wanted, all); wanted < all) {
    UsesAndBytes unused;
    for (const Entry& entry : entries_)
      if (can_go(entry)) unused.emplace_back(entry.used, bytes_of(entry));
    last = last_to_go(std::move(unused), wanted);
  }
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto entry = next++;
    if (!can_go(*entry) || entry->used > last) continue;
    share_.set(share_.bytes() - unpaid_of(*entry));
    gone.splice(gone.begin(), entries_, entry);
  }
}

void TrajectoryStore::evict(std::uint64_t wanted) {
  evict_unused(wanted, [](const Entry&) { return true; });
}

void TrajectoryStore::evict_of(const std::string& client, std::uint64_t wanted) {
  evict_unused(wanted, [&](const Entry& entry) { return entry.client == client; });
}

}  // namespace echotrain
