#include "gadgets/numerics/mri/espirit/espirit.h"

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <numbers>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/coils/coil_maps_ops.h"
#include "gadgets/numerics/mri/espirit/espirit_ops.h"
#include "gadgets/numerics/mri/espirit/espirit_sets.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain::numerics {
namespace {

// Bytes of matrices, for whole planes of voxels, that are worked on at a time.
constexpr std::int64_t kChunkBytes = 64ll << 20;

EspiritCalibration calibration_of(DeviceView<const cfloat> kspace, const EspiritOptions& options) {
  const Extents n = last_axes(kspace.shape(), 3);
  EspiritCalibration c{.kspace = kspace, .coils = kspace.shape()[0], .threshold = options.threshold};
  const std::int64_t kernel = options.kernel > 0 ? options.kernel : n[0] > 1 ? 4 : 6;
  for (std::size_t a = 0; a < 3; ++a) {
    c.extents[a] = std::min(n[a], options.calibration);
    c.first[a] = n[a] / 2 - c.extents[a] / 2;
    c.kernel[a] = n[a] == 1 ? 1 : kernel;
    if (c.kernel[a] > c.extents[a])
      throw std::invalid_argument(fmt::format("espirit_maps: kernels of {} do not fit in a calibration region of {}",
                                              c.kernel[a], c.extents[a]));
  }
  return c;
}

void check(const Shape& kspace, const Shape& maps, const EspiritOptions& options) {
  const auto require = [](bool good, const std::string& problem) {
    if (!good) throw std::invalid_argument("espirit_maps: " + problem);
  };
  require(options.sets == 1 || options.sets == 2, "expected one or two sets of maps");
  require(kspace.rank() == 4 && maps.rank() == 4 && options.sets * kspace[0] == maps[0] && kspace[0] > 0,
          fmt::format("expected k-space and {} set(s) of maps [coil, z, y, x] of equal coils, got {} and {}",
                      options.sets, kspace.text(), maps.text()));
  for (std::size_t a = 1; a < 4; ++a)
    require(kspace[a] > 0 && (kspace[a] > 1 || maps[a] == 1),
            fmt::format("k-space {} does not resolve maps {}", kspace.text(), maps.text()));
  require(options.kernel == 0 || (options.kernel >= 2 && options.kernel <= 16), "expected kernels of 2..16");
  require(options.calibration >= 2 && options.calibration <= 256, "expected a calibration region of 2..256");
  require(options.threshold >= 0 && options.threshold < 1, "expected a threshold of 0..1");
  require(options.crop >= 0 && options.crop <= 1, "expected a crop of 0..1");
}

/// Makes maps [set * coil, z, y, x] of kernels.
void make_maps(Context& context, const EspiritCalibration& calibration, const EspiritKernels& made, double crop,
               DeviceView<cfloat> maps) {
  const std::int64_t coils = calibration.coils, pairs = triangle_size(coils);
  HostArray<cfloat> start = context.allocate_host<cfloat>({coils});
  for (std::int64_t c = 0; c < coils; ++c)
    start.data()[c] = cfloat(std::polar(1.0, 2 * std::numbers::pi * start_turns(c)));
  const Array<cfloat> start_there = context.place<cfloat>(start);

  // Planes of voxels are transformed along x and y by FFT, and along the kernels' few z offsets by a plain sum.
  const Extents n = last_axes(maps.shape(), 3);
  const Extents span = calibration.span();
  const std::int64_t plane = n[1] * n[2];
  const std::int64_t at_once =
      std::clamp<std::int64_t>(kChunkBytes / (pairs * plane * std::int64_t{sizeof(cfloat)}), 1, n[0]);
  for (std::int64_t first = 0; first < n[0]; first += at_once) {
    const std::int64_t planes = std::min(at_once, n[0] - first);
    Array<cfloat> there = made.kernels;
    if (span[0] > 1) {
      there = context.allocate<cfloat>({pairs, planes, span[1], span[2]});
      ECHOTRAIN_DISPATCH(context, kernels_of_planes(context, made.kernels.view(), first, n[0], there.view()));
    }
    Array<cfloat> matrices = context.allocate<cfloat>({pairs, planes, n[1], n[2]});
    centered_fft(context, there.cview(), matrices.view(), {n[1], n[2]}, 2, Direction::inverse, 1.0f);
    EigenMaps work{.matrices = matrices.data(),
                   .coils = coils,
                   .voxels = planes * plane,
                   .start = start_there.data(),
                   .reference = made.coil.data(),
                   .crop = static_cast<float>(crop),
                   .maps = maps.data() + first * plane,
                   .stride = n[0] * plane};
    if (maps.shape()[0] > coils) {
      Array<cfloat> vectors = context.allocate<cfloat>({coils, work.voxels});
      const Deflation step{.matrices = matrices.data(),
                           .coils = coils,
                           .voxels = work.voxels,
                           .vectors = vectors.data(),
                           .crop = work.crop,
                           .maps = work.maps,
                           .stride = work.stride};
      work.crop = 0;
      work.maps = vectors.data();
      work.stride = work.voxels;
      ECHOTRAIN_DISPATCH(context, eigen_maps(context, work));
      deflate(context, step);
      work.crop = step.crop;
      work.maps = step.maps + coils * step.stride;
      work.stride = step.stride;
    }
    ECHOTRAIN_DISPATCH(context, eigen_maps(context, work));
  }
}

/// Decides on the number of sets by maps on a small grid, which the calibration's images just fill.
std::int64_t sets_needed(Context& context, const EspiritCalibration& calibration, const EspiritKernels& made,
                         double crop) {
  const Extents span = calibration.span();
  Shape grid{2 * calibration.coils};
  for (std::size_t a = 0; a < 3; ++a) grid.push_back(std::max(calibration.extents[a], span[a]));
  Array<cfloat> maps = context.allocate<cfloat>(grid);
  make_maps(context, calibration, made, std::max(crop, kSurePattern), maps.view());
  return needs_second_set(context, calibration, maps.cview()) ? 2 : 1;
}

}  // namespace

void espirit_maps(Context& context, DeviceView<const cfloat> kspace, const EspiritOptions& options,
                  DeviceView<cfloat> maps) {
  check(kspace.shape(), maps.shape(), options);
  if (maps.size() == 0) return;
  const EspiritCalibration calibration = calibration_of(kspace, options);
  const EspiritKernels made = ECHOTRAIN_DISPATCH(context, espirit_kernels(context, calibration));
  make_maps(context, calibration, made, options.crop, maps);
}

Array<cfloat> espirit_maps(Context& context, DeviceView<const cfloat> kspace, const EspiritOptions& options,
                           const Shape& image) {
  const bool chooses = options.sets == kSetsAsNeeded;
  EspiritOptions checked = options;
  if (chooses) checked.sets = 1;
  const std::int64_t coils = kspace.shape().rank() > 0 ? kspace.shape()[0] : 0;
  const auto of_sets = [&](std::int64_t sets) {
    Shape shape{sets * coils};
    for (const auto extent : image) shape.push_back(extent);
    return shape;
  };
  check(kspace.shape(), of_sets(checked.sets), checked);
  if (image.size() == 0) return context.allocate<cfloat>(of_sets(checked.sets));
  const EspiritCalibration calibration = calibration_of(kspace, options);
  const EspiritKernels made = ECHOTRAIN_DISPATCH(context, espirit_kernels(context, calibration));
  Array<cfloat> maps =
      context.allocate<cfloat>(of_sets(chooses ? sets_needed(context, calibration, made, options.crop) : options.sets));
  make_maps(context, calibration, made, options.crop, maps.view());
  return maps;
}

}  // namespace echotrain::numerics
