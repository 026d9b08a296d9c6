// Trajectories of past scans and their density weights, for future scans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain {

/// One frame's trajectory as it came, and what was made of it. Immutable.
struct KnownTrajectory {
  std::uint16_t encoding = 0;
  std::int64_t per_readout = 0;  ///< samples
  std::int64_t components = 0;   ///< of a sample in `raw`
  std::vector<float> raw;        ///< [sample, components], as it came
  std::shared_ptr<const SamplePositions> positions;
  std::int64_t dropped = 0;  ///< samples that lie beyond k-space's edge

  std::uint64_t bytes() const {
    return (raw.size() + positions->weights.size()) * sizeof(float) + positions->coordinates.size() * sizeof(double);
  }
};

/// Trajectories by the scans' header and density compensation. Thread-safe.
class TrajectoryStore {
 public:
  explicit TrajectoryStore(std::uint64_t bytes) : most_bytes_(bytes) {}
  explicit TrajectoryStore(const numerics::Resources& resources)
      : TrajectoryStore(resources.options().trajectory_cache_bytes) {}

  /// Those stored under `key`, the most recent first; at most kPerKey.
  std::vector<std::shared_ptr<const KnownTrajectory>> find(const std::string& key) const;
  void add(const std::string& key, std::shared_ptr<const KnownTrajectory> known);

  static constexpr std::size_t kPerKey = 32;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const KnownTrajectory> known;
  };
  static std::uint64_t bytes_of(const Entry& entry) { return entry.known->bytes() + entry.key.size() + sizeof(Entry); }
  const std::uint64_t most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recent first
};

}  // namespace echotrain
