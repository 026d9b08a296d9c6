// PlanCache keeps NUFFT plans that frames and sessions share.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/shared/cache/device_cache.h"

namespace echotrain {

/// True if positions are equal bit by bit: another trajectory could have the same digest.
bool same_positions(const SamplePositions& a, const SamplePositions& b);
/// The coordinates of the samples first .. first + count - 1 in cycles per image pixel: each component times
/// `voxel_ratio`, x first.
std::vector<double> image_coordinates(numerics::ThreadPool& threads, const SamplePositions& positions,
                                      const std::array<double, 3>& voxel_ratio, std::int64_t first, std::int64_t count);

/// Host memory, beside arrays, that it takes to make a plan of these positions [bytes].
std::uint64_t work_bytes(const SamplePositions& positions);

struct NufftPlanRequest {
  using Made = numerics::NufftPlan;
  std::shared_ptr<const SamplePositions> positions;
  std::array<double, 3> voxel_ratio{1, 1, 1};  ///< coordinates are multiplied by it, x first
  numerics::Shape image;
  numerics::NufftOptions options;

  bool same(const NufftPlanRequest& other) const;
  std::uint64_t bytes() const { return positions->bytes(); }
  std::shared_ptr<const Made> make(numerics::Context& context) const;
  /// A plan for accumulate() only, to be used only by `context`, which made `one` for the same image and options.
  std::shared_ptr<const Made> make_like(numerics::Context& context, const Made& one) const;
};

class PlanCache : public DeviceCache<NufftPlanRequest> {
 public:
  using Request = NufftPlanRequest;
  using DeviceCache::DeviceCache;
  explicit PlanCache(const numerics::Resources& resources)
      : DeviceCache(resources.options().plan_cache_bytes, resources.memory()) {}
};

}  // namespace echotrain
