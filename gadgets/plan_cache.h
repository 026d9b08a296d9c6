// NUFFT plans that frames and sessions share.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "gadgets/items.h"
#include "gadgets/numerics/context.h"

namespace echotrain {

/// Plans by trajectory, image and options, for every device of the process, which each have the bound. A plan is made
/// once, however many sessions ask for it at the same time. When the bytes of all plans would pass the bound, those
/// that no session holds are dropped, the longest unused first. Thread-safe.
class PlanCache {
 public:
  explicit PlanCache(std::uint64_t bytes) : most_bytes_(bytes) {}
  /// The process-wide one: ECHOTRAIN_PLAN_CACHE_MIB mebibytes, 2048 by default. 0 keeps nothing.
  static PlanCache& shared();

  struct Request {
    std::shared_ptr<const SamplePositions> positions;
    std::array<double, 3> voxel_ratio{1, 1, 1};  ///< coordinates are multiplied by it, x first
    numerics::Shape image;
    numerics::NufftOptions options;
  };
  struct Result {
    std::shared_ptr<const numerics::NufftPlan> plan;
    bool reused;     ///< it was there
    double made_ms;  ///< how long making it took, if it was not
  };
  /// A plan for `session`'s device. One that does not fit the cache is made in the session's own memory, and not kept.
  /// ResourceError when that is exhausted too.
  Result get(numerics::Context& session, const Request& request);

  std::uint64_t bytes() const;
  std::size_t plans() const;

 private:
  struct Entry {
    numerics::Backend backend;
    int device;
    Request request;
    std::shared_ptr<const numerics::NufftPlan> plan;
  };
  std::shared_ptr<const numerics::NufftPlan> find(const numerics::Context& session, const Request& request);
  bool drop_one();  // false: every plan is in use
  numerics::Context& home(const numerics::Context& session);

  const std::uint64_t most_bytes_;
  std::mutex making_;  // taken before mutex_; the contexts are used under it
  std::map<std::pair<numerics::Backend, int>, std::unique_ptr<numerics::Context>> homes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace echotrain
