// The TrajectoryStore keeps trajectories of past scans, and their density weights, for future scans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain {

/// One frame's trajectory as it came, and what was made of it. Immutable.
struct KnownTrajectory {
  std::uint16_t encoding = 0;
  std::int64_t per_readout = 0;        ///< samples of the first readouts, by which all are weighed
  std::int64_t expected_readouts = 0;  ///< of the frame (Frame::expected_readouts)
  std::int64_t components = 0;         ///< of a sample in `raw`
  std::vector<float> raw;              ///< [sample, components], as it came
  std::shared_ptr<const SamplePositions> positions;
  std::int64_t dropped = 0;                           ///< samples that lie beyond k-space's edge
  std::shared_ptr<const numerics::MemoryShare> paid;  ///< of who made it; null: the store pays

  std::uint64_t bytes() const {
    return (raw.size() + positions->weights.size()) * sizeof(float) + positions->coordinates.size() * sizeof(double);
  }
};

/// Trajectories by the client, its scans' header and density compensation. No client finds or replaces what another one
/// left; where room is short, the client that has most of it loses its oldest (evict_to_fair_share). Those that no scan
/// holds are dropped when the budget needs what they take. Thread-safe.
class TrajectoryStore : private numerics::ClientEvictable {
 public:
  explicit TrajectoryStore(std::uint64_t bytes,
                           std::shared_ptr<numerics::MemoryBudget> budget = std::make_shared<numerics::MemoryBudget>())
      : most_bytes_(bytes), budget_(std::move(budget)), share_(std::make_shared<numerics::MemoryAccount>(budget_)) {
    budget_->add_evictable(*this);
  }
  explicit TrajectoryStore(const numerics::Resources& resources)
      : TrajectoryStore(resources.options().trajectory_cache_bytes, resources.memory()) {}
  ~TrajectoryStore() override { budget_->remove_evictable(*this); }

  /// Those that `owner` (ScanEnvironment::owner) stored under `key`, the most recent first; at most kPerKey.
  std::vector<std::shared_ptr<const KnownTrajectory>> find(const std::string& owner, const std::string& key) const;
  /// It is in the part of `client` (ScanEnvironment::client), which several owners may share; empty: the owner's own.
  void add(const std::string& owner, const std::string& key, std::shared_ptr<const KnownTrajectory> known,
           const std::string& client = {});

  static constexpr std::size_t kPerKey = 32;
  static constexpr std::size_t kMostEntries = 4096;

 private:
  struct Entry {
    std::string owner, client, key;
    std::shared_ptr<const KnownTrajectory> known;
    mutable std::uint64_t used;  // when last, by the budget's clock
  };
  using Entries = std::list<Entry>;
  // The allocator adds to each of arrays, shares and nodes.
  static constexpr std::uint64_t kOverheadBytes =
      sizeof(Entry) + sizeof(KnownTrajectory) + sizeof(SamplePositions) + 256;
  static std::uint64_t bytes_of(const Entry& entry) {
    return entry.known->bytes() + entry.owner.size() + entry.client.size() + entry.key.size() + kOverheadBytes;
  }
  static std::uint64_t unpaid_of(const Entry& entry) {
    return bytes_of(entry) - (entry.known->paid ? entry.known->bytes() : 0);
  }
  static bool is_unused(const Entry& entry) { return entry.known.use_count() == 1; }
  template <class Goes>
  void evict_unused(std::uint64_t wanted, const Goes& goes);
  std::optional<std::uint64_t> unused_since() const override;
  void evict(std::uint64_t wanted) override;
  Shares shares() const override;
  void evict_of(const std::string& client, std::uint64_t wanted) override;

  const std::uint64_t most_bytes_;
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  mutable std::mutex mutex_;
  numerics::MemoryShare share_;  // of entries that nobody else pays for
  Entries entries_;              // most recent first
};

}  // namespace echotrain
