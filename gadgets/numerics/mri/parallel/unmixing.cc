#include "gadgets/numerics/mri/parallel/unmixing.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics {
namespace {

/// exp(2 pi i step r / padded) of each step, for the n voxels r of an axis: [step, n].
HostArray<cfloat> phases_of(Context& context, const std::vector<RowStep>& steps, std::size_t axis, std::int64_t n,
                            std::int64_t padded) {
  HostArray<cfloat> phases = context.allocate_host<cfloat>({static_cast<std::int64_t>(steps.size()), n});
  for (std::size_t s = 0; s < steps.size(); ++s)
    for (std::int64_t i = 0; i < n; ++i) {
      const double turns = static_cast<double>(steps[s][axis] * (i - n / 2)) / static_cast<double>(padded);
      phases.data()[static_cast<std::int64_t>(s) * n + i] = cfloat(std::polar(1.0, 2 * std::numbers::pi * turns));
    }
  return phases;
}

}  // namespace

Array<cfloat> unmixing(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                       DeviceView<const cfloat> maps, const LineGeometry& geometry) {
  const std::int64_t coils = kernels.coils, nz = geometry.image[0], ny = geometry.image[1], nx = geometry.image[2];
  if (!(maps.shape() == Shape{coils, nz, ny, nx}) || hybrid.coils != coils || hybrid.columns != nx)
    throw std::invalid_argument(fmt::format("unmixing: expected maps of {} coils for an image of {}, got {}", coils,
                                            geometry.image.text(), maps.shape().text()));
  // Only kernels with all their sources count; they come first, one for each class.
  std::vector<RowStep> steps;
  for (std::size_t k = 0; k + 1 < static_cast<std::size_t>(kernels.lattice.size()); ++k)
    for (const RowStep& s : kernels.kernels[k].sources) steps.push_back(s);
  auto to = context.allocate<cfloat>(maps.shape());
  const auto along_y = context.place<cfloat>(phases_of(context, steps, 0, ny, geometry.padded[1]));
  const auto along_z = context.place<cfloat>(phases_of(context, steps, 1, nz, geometry.padded[0]));
  const UnmixingWork work{.kernels = hybrid.values.data(),
                          .all_sources = hybrid.sources(),
                          .sources = static_cast<std::int64_t>(steps.size()),
                          .along_y = along_y.data(),
                          .along_z = along_z.data(),
                          .coils = coils,
                          .nz = nz,
                          .ny = ny,
                          .nx = nx,
                          .maps = maps.data(),
                          .to = to.data()};
  ECHOTRAIN_DISPATCH(context, unmixing(context, work));
  return to;
}

}  // namespace echotrain::numerics
