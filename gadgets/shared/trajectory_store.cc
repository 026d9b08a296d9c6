#include "gadgets/shared/trajectory_store.h"

#include <utility>

namespace echotrain {

std::vector<std::shared_ptr<const KnownTrajectory>> TrajectoryStore::find(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<const KnownTrajectory>> found;
  for (const Entry& entry : entries_) {
    if (entry.key != key) continue;
    entry.used = budget_->now();
    found.push_back(entry.known);
  }
  return found;
}

void TrajectoryStore::add(const std::string& key, std::shared_ptr<const KnownTrajectory> known) {
  if (!known->paid && !budget_->make_room(known->bytes())) return;
  const std::scoped_lock lock(mutex_);
  entries_.push_front({key, std::move(known), budget_->now()});
  std::uint64_t bytes = 0, unpaid = 0;
  std::size_t of_key = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    of_key += entry->key == key ? 1 : 0;
    const bool too_many = entry->key == key && of_key > kPerKey;
    if (too_many || bytes + bytes_of(*entry) > most_bytes_) {
      entry = entries_.erase(entry);
    } else {
      bytes += bytes_of(*entry);
      unpaid += unpaid_of(*entry);
      ++entry;
    }
  }
  share_.set(unpaid);
}

TrajectoryStore::Entries::const_iterator TrajectoryStore::longest_unused() const {
  auto longest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
    if (entry->known.use_count() == 1 && (longest == entries_.end() || entry->used < longest->used)) longest = entry;
  return longest;
}

std::optional<std::uint64_t> TrajectoryStore::unused_since() const {
  const std::scoped_lock lock(mutex_);
  const auto entry = longest_unused();
  return entry == entries_.end() ? std::nullopt : std::optional<std::uint64_t>(entry->used);
}

void TrajectoryStore::drop(std::uint64_t) {
  const std::scoped_lock lock(mutex_);
  const auto entry = longest_unused();
  if (entry == entries_.end()) return;
  share_.set(share_.bytes() - unpaid_of(*entry));
  entries_.erase(entry);
}

}  // namespace echotrain
