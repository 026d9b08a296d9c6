#include "gadgets/shared/trajectory_store.h"

#include <utility>

namespace echotrain {

std::vector<std::shared_ptr<const KnownTrajectory>> TrajectoryStore::find(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<const KnownTrajectory>> found;
  for (const Entry& entry : entries_)
    if (entry.key == key) found.push_back(entry.known);
  return found;
}

void TrajectoryStore::add(const std::string& key, std::shared_ptr<const KnownTrajectory> known) {
  const std::scoped_lock lock(mutex_);
  entries_.push_front({key, std::move(known)});
  std::uint64_t bytes = 0;
  std::size_t of_key = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    of_key += entry->key == key ? 1 : 0;
    const bool too_many = entry->key == key && of_key > kPerKey;
    if (too_many || bytes + bytes_of(*entry) > most_bytes_) {
      entry = entries_.erase(entry);
    } else {
      bytes += bytes_of(*entry);
      ++entry;
    }
  }
}

}  // namespace echotrain
