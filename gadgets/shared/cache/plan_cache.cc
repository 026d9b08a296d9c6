#include "gadgets/shared/cache/plan_cache.h"

#include <cstring>

namespace echotrain {

bool same_positions(const SamplePositions& a, const SamplePositions& b) {
  return &a == &b ||
         (a.digest == b.digest && a.dims == b.dims && a.coordinates.size() == b.coordinates.size() &&
          std::memcmp(a.coordinates.data(), b.coordinates.data(), a.coordinates.size() * sizeof(double)) == 0);
}

std::vector<double> image_coordinates(numerics::ThreadPool& threads, const SamplePositions& positions,
                                      const std::array<double, 3>& voxel_ratio, std::int64_t first,
                                      std::int64_t count) {
  constexpr std::int64_t kGrain = 1 << 14;  // samples
  const int dims = positions.dims;
  const double* from = positions.coordinates.data() + first * dims;
  std::vector<double> coordinates(static_cast<std::size_t>(count * dims));
  threads.parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s)
      for (int a = 0; a < dims; ++a)
        coordinates[static_cast<std::size_t>(s * dims + a)] =
            from[s * dims + a] * voxel_ratio[static_cast<std::size_t>(a)];
  });
  return coordinates;
}

std::uint64_t work_bytes(const SamplePositions& positions) {
  constexpr std::uint64_t kLists = 48;  // of a sample, on average, before they are where the plan keeps them
  return positions.coordinates.size() * sizeof(double) + static_cast<std::uint64_t>(positions.count()) * kLists;
}

bool NufftPlanRequest::same(const NufftPlanRequest& other) const {
  return options == other.options && image == other.image && voxel_ratio == other.voxel_ratio &&
         same_positions(*positions, *other.positions);
}

std::shared_ptr<const numerics::NufftPlan> NufftPlanRequest::make(numerics::Context& context) const {
  numerics::MemoryShare(context.account()).grow_to(work_bytes(*positions));  // makes room for it
  const std::vector<double> coordinates =
      image_coordinates(context.threads(), *positions, voxel_ratio, 0, positions->count());
  return numerics::NufftPlan::make(context, {coordinates.data(), {positions->count(), positions->dims}}, image,
                                   options);
}

std::shared_ptr<const numerics::NufftPlan> NufftPlanRequest::make_like(numerics::Context& context,
                                                                       const numerics::NufftPlan& one) const {
  const std::vector<double> coordinates =
      image_coordinates(context.threads(), *positions, voxel_ratio, 0, positions->count());
  return one.with_samples(context, {coordinates.data(), {positions->count(), positions->dims}});
}

}  // namespace echotrain
