#include <algorithm>

#include "gadgets/numerics/inverse/fit/one_voxel.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGroup = 16;  // voxels, a multiple of every machine's lanes

template <int kBytes>
ECHOTRAIN_INLINE void fit_by(const VoxelFitWork& w, std::int64_t begin, std::int64_t end) {
  using V = Wide<kBytes>;
  voxel_fit::with_form(w, [&](auto form) ECHOTRAIN_INLINE_LAMBDA {
    for (std::int64_t v = begin; v < end; v += V::kCount)
      voxel_fit::fit_lanes<decltype(form), VoxelFitWork::kMost, V>(
          w, v, static_cast<int>(std::min<std::int64_t>(V::kCount, end - v)));
  });
}
ECHOTRAIN_VECTOR_CLONES(void fit_range(const VoxelFitWork& w, std::int64_t begin, std::int64_t end),
                        fit_by<kVectorBytes>(w, begin, end))

}  // namespace

void fit_voxels(Context& context, const VoxelFitWork& work) {
  const std::int64_t groups = (work.voxels + kGroup - 1) / kGroup;
  context.threads().parallel_for(groups, 4, [&work](std::int64_t begin, std::int64_t end) {
    fit_range(work, begin * kGroup, std::min(end * kGroup, work.voxels));
  });
}

}  // namespace echotrain::numerics::cpu
