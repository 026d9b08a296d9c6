#include "gadgets/numerics/coils/espirit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "gadgets/numerics/coils/coil_maps_ops.h"
#include "gadgets/numerics/coils/hermitian_eigen.h"
#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/fft/fft.h"

namespace echotrain::numerics {
namespace {

// Bytes of matrices, of whole planes of voxels, that are worked on at a time.
constexpr std::int64_t kChunkBytes = 64ll << 20;

/// The middle of k-space in float64, and the kernels' extents.
struct Calibration {
  std::int64_t coils = 0;
  Extents extents{}, kernel{};
  std::vector<cdouble> data;  // [coil, z, y, x]

  std::int64_t kernel_size() const { return volume(kernel); }
  std::int64_t columns() const { return coils * kernel_size(); }
  std::int64_t patches(std::size_t axis) const { return extents[axis] - kernel[axis] + 1; }
  cdouble at(std::int64_t coil, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return data[static_cast<std::size_t>(((coil * extents[0] + z) * extents[1] + y) * extents[2] + x)];
  }
};

bool finite(const cfloat& v) { return std::isfinite(v.real()) && std::isfinite(v.imag()); }

/// Bytes of the host's memory that maps of this calibration take.
std::uint64_t work_bytes(const Calibration& c) {
  double offsets = 1;
  for (const std::int64_t extent : c.kernel) offsets *= static_cast<double>(2 * extent - 1);
  const auto columns = static_cast<double>(c.columns());
  const double numbers = static_cast<double>(c.coils * volume(c.extents)) + 3 * columns * columns +
                         static_cast<double>(triangle_size(c.coils)) * offsets;
  return static_cast<std::uint64_t>(numbers * sizeof(cdouble));
}

/// Scaled to a largest value of 1. `work` pays for all that follows.
Calibration cut_calibration(Context& context, DeviceView<const cfloat> kspace, const EspiritOptions& options,
                            MemoryShare& work) {
  const Extents n = last_axes(kspace.shape(), 3);
  Calibration c;
  c.coils = kspace.shape()[0];
  const std::int64_t kernel = options.kernel > 0 ? options.kernel : n[0] > 1 ? 4 : 6;
  for (std::size_t a = 0; a < 3; ++a) {
    c.extents[a] = std::min(n[a], options.calibration);
    c.kernel[a] = n[a] == 1 ? 1 : kernel;
    if (c.kernel[a] > c.extents[a])
      throw std::invalid_argument(fmt::format("espirit_maps: kernels of {} do not fit in a calibration region of {}",
                                              c.kernel[a], c.extents[a]));
  }
  work.grow_to(work_bytes(c));
  const HostArray<cfloat> host = context.download<cfloat>(kspace);
  c.data.reserve(static_cast<std::size_t>(c.coils * volume(c.extents)));
  const auto first = [&](std::size_t a) { return n[a] / 2 - c.extents[a] / 2; };
  double most = 0;
  for (std::int64_t coil = 0; coil < c.coils; ++coil) {
    context.check_stop();
    for (std::int64_t z = first(0); z < first(0) + c.extents[0]; ++z)
      for (std::int64_t y = first(1); y < first(1) + c.extents[1]; ++y)
        for (std::int64_t x = first(2); x < first(2) + c.extents[2]; ++x) {
          const cfloat v = host.data()[((coil * n[0] + z) * n[1] + y) * n[2] + x];
          c.data.push_back(finite(v) ? cdouble(v) : cdouble(0));
          most = std::max(most, std::abs(c.data.back()));
        }
  }
  for (cdouble& v : c.data) v /= most > 0 ? most : 1;
  return c;
}

/// The sum of p p^H over all patches p. Its eigenvectors are the right singular vectors of the calibration matrix.
Eigen::MatrixXcd gram_matrix(ThreadPool& threads, const Calibration& c) {
  constexpr std::int64_t kPatchesAtOnce = 512, kColumnsAtOnce = 64;
  Eigen::MatrixXcd gram = Eigen::MatrixXcd::Zero(c.columns(), c.columns());
  const std::int64_t patches = c.patches(0) * c.patches(1) * c.patches(2);
  Eigen::MatrixXcd some(c.columns(), std::min(patches, kPatchesAtOnce));
  for (std::int64_t begin = 0; begin < patches; begin += kPatchesAtOnce) {
    const std::int64_t n = std::min(kPatchesAtOnce, patches - begin);
    for (std::int64_t p = 0; p < n; ++p) {
      const std::int64_t x0 = (begin + p) % c.patches(2), y0 = (begin + p) / c.patches(2) % c.patches(1),
                         z0 = (begin + p) / c.patches(2) / c.patches(1);
      std::int64_t row = 0;
      for (std::int64_t coil = 0; coil < c.coils; ++coil)
        for (std::int64_t z = 0; z < c.kernel[0]; ++z)
          for (std::int64_t y = 0; y < c.kernel[1]; ++y)
            for (std::int64_t x = 0; x < c.kernel[2]; ++x) some(row++, p) = c.at(coil, z0 + z, y0 + y, x0 + x);
    }
    // The lower triangle is enough. Parts have a fixed width, so that sums are the same for any number of threads.
    const std::int64_t parts = (c.columns() + kColumnsAtOnce - 1) / kColumnsAtOnce;
    threads.parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        const std::int64_t at = part * kColumnsAtOnce, width = std::min(kColumnsAtOnce, c.columns() - at);
        gram.block(at, at, c.columns() - at, width).noalias() +=
            some.block(at, 0, c.columns() - at, n) * some.block(at, 0, width, n).adjoint();
      }
    });
  }
  return gram;
}

/// For all pairs (a, b), b <= a, of coils and all offsets d of two elements of a kernel: sum over q of P[(a, q + d),
/// (b, q)] / |kernel|, where P projects patches onto the space that the calibration data span. With it, the operator
/// that projects every patch of a k-space and averages the results is a convolution across coils, hence a matrix in
/// each voxel (Uecker et al., eq. 13-17). [pair, 2 kz - 1, 2 ky - 1, 2 kx - 1], 0 offset in the middle.
std::vector<cdouble> convolution_kernels(ThreadPool& threads, const Calibration& c, double threshold) {
  const HermitianEigen eigen = hermitian_eigen(threads, gram_matrix(threads, c));
  const Eigen::VectorXd& values = eigen.values;
  const double least = threshold * threshold * values[values.size() - 1];
  std::int64_t kept = 0;
  while (kept < values.size() && values[values.size() - 1 - kept] > 0 && values[values.size() - 1 - kept] >= least)
    ++kept;
  const Extents span{2 * c.kernel[0] - 1, 2 * c.kernel[1] - 1, 2 * c.kernel[2] - 1};
  std::vector<cdouble> kernels(static_cast<std::size_t>(triangle_size(c.coils) * volume(span)));
  if (kept == 0) return kernels;
  const auto basis = eigen.vectors.rightCols(kept);
  const std::int64_t size = c.kernel_size();
  threads.parallel_for(c.coils, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t a = begin; a < end; ++a)
      for (std::int64_t b = 0; b <= a; ++b) {
        threads.check_stop();
        const Eigen::MatrixXcd projection =
            basis.middleRows(a * size, size) * basis.middleRows(b * size, size).adjoint();
        cdouble* to = kernels.data() + triangle_index(a, b) * volume(span);
        for (std::int64_t i = 0; i < size; ++i)
          for (std::int64_t j = 0; j < size; ++j) {
            const auto offset = [&](std::int64_t of, std::int64_t below) {
              return i / below % of - j / below % of + of - 1;
            };
            const std::int64_t z = offset(c.kernel[0], c.kernel[1] * c.kernel[2]), y = offset(c.kernel[1], c.kernel[2]),
                               x = offset(c.kernel[2], 1);
            to[(z * span[1] + y) * span[2] + x] += projection(i, j) / static_cast<double>(size);
          }
      }
  });
  return kernels;
}

/// The principal component of the calibration data across coils.
std::vector<cfloat> virtual_coil(const ThreadPool& threads, const Calibration& c) {
  const std::int64_t samples = volume(c.extents);
  std::vector<cdouble> covariance(static_cast<std::size_t>(triangle_size(c.coils)));
  for (std::int64_t a = 0; a < c.coils; ++a)
    for (std::int64_t b = 0; b <= a; ++b) {
      threads.check_stop();
      for (std::int64_t s = 0; s < samples; ++s)
        covariance[static_cast<std::size_t>(triangle_index(a, b))] +=
            c.data[static_cast<std::size_t>(a * samples + s)] *
            std::conj(c.data[static_cast<std::size_t>(b * samples + s)]);
    }
  std::vector<cfloat> vector(static_cast<std::size_t>(c.coils));
  principal_component(covariance.data(), c.coils, vector.data());
  return vector;
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

}  // namespace

void espirit_maps(Context& context, DeviceView<const cfloat> kspace, const EspiritOptions& options,
                  DeviceView<cfloat> maps) {
  check(kspace.shape(), maps.shape(), options);
  if (maps.size() == 0) return;
  MemoryShare work_memory(context.account());
  const Calibration calibration = cut_calibration(context, kspace, options, work_memory);
  const std::vector<cdouble> kernels = convolution_kernels(context.threads(), calibration, options.threshold);
  const std::int64_t coils = calibration.coils, pairs = triangle_size(coils);
  std::vector<cfloat> start;
  for (std::int64_t c = 0; c < coils; ++c)
    start.push_back(cfloat(std::polar(1.0, 2 * std::numbers::pi * start_turns(c))));
  const std::vector<cfloat> coil = virtual_coil(context.threads(), calibration);
  const Array<cfloat> start_there = context.upload<cfloat>({start.data(), {coils}}),
                      coil_there = context.upload<cfloat>({coil.data(), {coils}});

  // Planes of voxels are transformed along x and y by FFT, and along the kernels' few z offsets by a plain sum.
  const Extents n = last_axes(maps.shape(), 3);
  const Extents span{2 * calibration.kernel[0] - 1, 2 * calibration.kernel[1] - 1, 2 * calibration.kernel[2] - 1};
  const std::int64_t plane = n[1] * n[2], flat = span[1] * span[2];
  const std::int64_t at_once =
      std::clamp<std::int64_t>(kChunkBytes / (pairs * plane * std::int64_t{sizeof(cfloat)}), 1, n[0]);
  for (std::int64_t first = 0; first < n[0]; first += at_once) {
    const std::int64_t planes = std::min(at_once, n[0] - first);
    std::vector<cfloat> flat_kernels(static_cast<std::size_t>(pairs * planes * flat));
    for (std::int64_t z = 0; z < planes; ++z) {
      context.check_stop();
      for (std::int64_t p = 0; p < pairs; ++p)
        for (std::int64_t i = 0; i < flat; ++i) {
          cdouble sum = 0;
          for (std::int64_t d = 0; d < span[0]; ++d)
            sum +=
                kernels[static_cast<std::size_t>((p * span[0] + d) * flat + i)] *
                std::polar(1.0, 2 * std::numbers::pi * static_cast<double>((d - span[0] / 2) * (first + z - n[0] / 2)) /
                                    static_cast<double>(n[0]));
          flat_kernels[static_cast<std::size_t>((p * planes + z) * flat + i)] = cfloat(sum);
        }
    }
    const Array<cfloat> there = context.upload<cfloat>({flat_kernels.data(), {pairs, planes, span[1], span[2]}});
    Array<cfloat> matrices = context.allocate<cfloat>({pairs, planes, n[1], n[2]});
    centered_fft(context, there.view(), matrices.view(), {n[1], n[2]}, 2, Direction::inverse, 1.0f);
    EigenMaps work{.matrices = matrices.data(),
                   .coils = coils,
                   .voxels = planes * plane,
                   .start = start_there.data(),
                   .reference = coil_there.data(),
                   .crop = static_cast<float>(options.crop),
                   .maps = maps.data() + first * plane,
                   .stride = n[0] * plane};
    if (options.sets == 2) {
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
      ECHOTRAIN_DISPATCH(context, deflate(context, step));
      work.crop = step.crop;
      work.maps = step.maps + coils * step.stride;
      work.stride = step.stride;
    }
    ECHOTRAIN_DISPATCH(context, eigen_maps(context, work));
  }
}

}  // namespace echotrain::numerics
