#include "gadgets/numerics/transforms/exact/direct_transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/transforms/exact/direct_transform_ops.h"

namespace echotrain::numerics {
namespace {

void require(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("direct transform: " + problem);
}

DirectGrid make_grid(const Shape& image, std::int64_t coils) {
  require(image.rank() == 2 || image.rank() == 3, "an image has two or three axes, not " + image.text());
  constexpr std::int64_t kLongest = 4096;
  for (const auto e : image) require(e >= 1 && e <= kLongest, "no image can be " + image.text());
  require(coils >= 1, "there must be a coil");
  DirectGrid grid;
  grid.dims = static_cast<int>(image.rank());
  grid.nx = image[image.rank() - 1];
  grid.ny = image[image.rank() - 2];
  grid.nz = image.rank() == 3 ? image[0] : 1;
  grid.coils = coils;
  return grid;
}

/// Parts begin at a whole plane or group of lines, because sums are made for whole groups.
void choose_columns(DirectGrid& grid, ImagePart part) {
  constexpr std::int64_t kLines = 8;
  const std::int64_t columns = grid.ny * grid.nz, unit = grid.dims == 3 ? grid.ny : kLines,
                     units = (columns + unit - 1) / unit;
  require(part.index >= 0 && part.index < part.count && part.count <= units,
          fmt::format("there is no part {} of {} of {} planes or groups of lines", part.index, part.count, units));
  grid.first_column = units * part.index / part.count * unit;
  grid.last_column = std::min(columns, units * (part.index + 1) / part.count * unit);
}

void check_samples(HostView<const double> coordinates, DeviceView<const cfloat> samples, int dims, std::int64_t coils) {
  require(coordinates.shape().rank() == 2 && coordinates.shape()[1] == dims,
          fmt::format("expected coordinates of shape [sample, {}], got {}", dims, coordinates.shape().text()));
  require(
      samples.shape().rank() == 2 && samples.shape()[0] == coordinates.shape()[0] && samples.shape()[1] == coils,
      fmt::format("expected samples of shape [{}, {}], got {}", coordinates.shape()[0], coils, samples.shape().text()));
}

/// Voxels whose sums are also made in float64, to measure the error of the fast precision.
constexpr std::int64_t kCheckedVoxels = 128;

/// Samples that are copied at a time, so that work on them starts before all are there.
constexpr std::int64_t kPart = 1 << 16;

/// A copy of samples and their coordinates, on the context's device, that may be changed.
struct Prepared {
  Array<double> coordinates;  // [n, dims]
  Array<cfloat> samples;      // [n, coil]
  DeviceView<double> coordinates_of(std::int64_t begin, std::int64_t end) {
    const std::int64_t dims = coordinates.shape()[1];
    return coordinates.view().part(begin * dims, {end - begin, dims});
  }
  DeviceView<cfloat> samples_of(std::int64_t begin, std::int64_t end) {
    const std::int64_t coils = samples.shape()[1];
    return samples.view().part(begin * coils, {end - begin, coils});
  }
};

void weigh(Context& context, const SampleFactors& factors, HostView<const float> weights,
           DeviceView<double> coordinates, DeviceView<cfloat> samples) {
  if (samples.size() == 0) return;
  const Array<float> placed = weights.size() == 0 ? Array<float>() : context.upload<float>(weights);
  ECHOTRAIN_DISPATCH(context,
                     weigh_samples(context, factors, weights.size() == 0 ? nullptr : placed.data(), samples.shape()[0],
                                   samples.shape()[1], coordinates.data(), samples.data()));
}

}  // namespace

double basis_transform(VoxelBasis basis, const double* k, int dims) {
  double product = 1;
  if (basis == VoxelBasis::box)
    for (int a = 0; a < dims; ++a)
      if (k[a] != 0) product *= std::sin(std::numbers::pi * k[a]) / (std::numbers::pi * k[a]);
  return product;
}

struct DirectAdjoint::Impl {
  DirectGrid grid;
  Shape image;
  VoxelBasis basis = VoxelBasis::delta;
  Array<float> sums;
  std::int64_t samples = 0;
  // Samples that wait until a whole group is there.
  Prepared waiting;
  std::int64_t waiting_count = 0;
  // The numbers in the image, positions and sums of some voxels; empty where the precision loses nothing.
  Array<std::int64_t> checked;
  Array<double> checked_at;
  Array<cdouble> checked_sums;

  void add_groups(Context& context, Prepared& all, std::int64_t n) {
    if (n > 0)
      ECHOTRAIN_DISPATCH(context,
                         direct_add(context, grid, all.coordinates.data(), all.samples.data(), n, sums.data()));
  }

  void add_part(Context& context, HostView<const double> coordinates, DeviceView<const cfloat> samples_of_part,
                HostView<const float> weights) {
    const std::int64_t n = coordinates.shape()[0], coils = grid.coils;
    const int dims = grid.dims;
    const std::int64_t before = waiting_count, total = before + n;
    Prepared all{context.allocate<double>({total, dims}), context.allocate<cfloat>({total, coils})};
    const auto move = [&](Prepared& from, std::int64_t at, Prepared& to, std::int64_t rows) {
      if (rows == 0) return;
      context.copy<double>(from.coordinates_of(at, at + rows), to.coordinates_of(0, rows));
      context.copy<cfloat>(from.samples_of(at, at + rows), to.samples_of(0, rows));
    };
    move(waiting, 0, all, before);
    context.copy<double>(coordinates, all.coordinates_of(before, total));
    context.copy<cfloat>(samples_of_part, all.samples_of(before, total));
    weigh(context, {dims, basis, 1, grid.shift()}, weights, all.coordinates_of(before, total),
          all.samples_of(before, total));
    if (checked.size() > 0)
      ECHOTRAIN_DISPATCH(context, direct_at(context, dims, all.coordinates_of(before, total).data(),
                                            all.samples_of(before, total).data(), n, coils, checked_at.data(),
                                            kCheckedVoxels, checked_sums.data()));
    const std::int64_t whole = total / kDirectGroup * kDirectGroup;
    add_groups(context, all, whole);
    waiting_count = total - whole;
    move(all, whole, waiting, total - whole);
  }

  void choose_voxels(Context& context) {
    std::minstd_rand random(1);
    std::vector<std::int64_t> chosen;
    std::vector<double> positions;
    const std::int64_t extents[3] = {grid.nx, grid.ny, grid.nz};
    for (std::int64_t i = 0; i < kCheckedVoxels; ++i) {
      std::int64_t v = static_cast<std::int64_t>(random()) % image.size();
      chosen.push_back(v);
      for (int a = 0; a < grid.dims; v /= extents[a++])
        positions.push_back(static_cast<double>(v % extents[a] - extents[a] / 2) - (a == 0 ? grid.shift() : 0.0));
    }
    checked = context.upload<std::int64_t>({chosen.data(), {kCheckedVoxels}});
    checked_at = context.upload<double>({positions.data(), {kCheckedVoxels, grid.dims}});
    checked_sums = context.zeros<cdouble>({grid.coils, kCheckedVoxels});
  }
};

DirectAdjoint::DirectAdjoint(Context& context, const Shape& image, std::int64_t coils, VoxelBasis basis,
                             Precision precision, ImagePart part)
    : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  impl.grid = make_grid(image, coils);
  impl.grid.precision = precision;
  choose_columns(impl.grid, part);
  impl.image = image;
  impl.basis = basis;
  impl.sums = context.zeros<float>({ECHOTRAIN_DISPATCH(context, direct_sums(context, impl.grid))});
  impl.waiting = {context.allocate<double>({kDirectGroup, impl.grid.dims}),
                  context.allocate<cfloat>({kDirectGroup, coils})};
  if (precision == Precision::fast && context.cuda() && part.count == 1) impl.choose_voxels(context);
}
DirectAdjoint::~DirectAdjoint() = default;
DirectAdjoint::DirectAdjoint(DirectAdjoint&&) noexcept = default;
DirectAdjoint& DirectAdjoint::operator=(DirectAdjoint&&) noexcept = default;
std::int64_t DirectAdjoint::samples() const { return impl_->samples; }
std::int64_t DirectAdjoint::first_voxel() const { return impl_->grid.first_column * impl_->grid.nx; }
std::int64_t DirectAdjoint::voxels() const { return impl_->grid.columns() * impl_->grid.nx; }

void DirectAdjoint::add(Context& context, HostView<const double> coordinates, DeviceView<const cfloat> samples,
                        HostView<const float> weights) {
  Impl& impl = *impl_;
  const int dims = impl.grid.dims;
  const std::int64_t coils = impl.grid.coils, n = coordinates.shape().rank() == 2 ? coordinates.shape()[0] : 0;
  check_samples(coordinates, samples, dims, coils);
  require(weights.size() == 0 || weights.size() == n, fmt::format("{} weights for {} samples", weights.size(), n));
  if (n == 0) return;
  for (std::int64_t at = 0; at < n; at += kPart) {
    const std::int64_t rows = std::min(kPart, n - at);
    impl.add_part(context, coordinates.part(at * dims, {rows, dims}), samples.part(at * coils, {rows, coils}),
                  weights.size() == 0 ? weights : weights.part(at, {rows}));
  }
  impl.samples += n;
}

void DirectAdjoint::get(Context& context, DeviceView<cfloat> image) {
  Impl& impl = *impl_;
  Shape shape{impl.grid.coils};
  for (const auto e : impl.image) shape.push_back(e);
  require(image.shape() == shape, image.shape().text() + " is not " + shape.text());
  Array<float> sums = impl.sums;
  if (impl.waiting_count > 0) {  // the sums are copied first, so that more samples may follow
    sums = context.allocate<float>(impl.sums.shape());
    context.copy<float>(impl.sums.cview(), sums.view());
    ECHOTRAIN_DISPATCH(context, direct_add(context, impl.grid, impl.waiting.coordinates.data(),
                                           impl.waiting.samples.data(), impl.waiting_count, sums.data()));
  }
  ECHOTRAIN_DISPATCH(context, direct_get(context, impl.grid, sums.data(), image.data()));
}

std::optional<double> DirectAdjoint::sampled_error(Context& context, DeviceView<const cfloat> image) const {
  const Impl& impl = *impl_;
  const std::int64_t coils = impl.grid.coils;
  require(image.size() == coils * impl.image.size(), image.shape().text() + " is not the image");
  if (impl.checked.size() == 0) return std::nullopt;
  Array<cfloat> picked = context.allocate<cfloat>({coils, kCheckedVoxels});
  ECHOTRAIN_DISPATCH(context, pick_voxels(context, image.data(), impl.image.size(), coils, impl.checked.data(),
                                          kCheckedVoxels, picked.data()));
  const HostArray<cfloat> got = context.download<cfloat>(picked.cview());
  const HostArray<cdouble> truth = context.download<cdouble>(impl.checked_sums.cview());
  const std::vector<cdouble> values(got.data(), got.data() + got.size());
  const Comparison found =
      on_host::compare(context.threads(), HostView<const cdouble>(values.data(), truth.shape()), truth.cview());
  return found.reference_power == 0 ? 0.0 : found.nrmse();
}

void direct_adjoint_at(Context& context, HostView<const double> coordinates, DeviceView<const cfloat> samples,
                       HostView<const double> voxels, VoxelBasis basis, DeviceView<cfloat> out) {
  require(voxels.shape().rank() == 2 && voxels.shape()[1] >= 1 && voxels.shape()[1] <= 3,
          "expected voxels of shape [voxel, 1..3], got " + voxels.shape().text());
  const auto dims = static_cast<int>(voxels.shape()[1]);
  const std::int64_t coils = samples.shape().rank() == 2 ? samples.shape()[1] : 0, n = coordinates.shape()[0];
  check_samples(coordinates, samples, dims, coils);
  require(out.shape() == Shape({coils, voxels.shape()[0]}),
          fmt::format("{} is not [{}, {}]", out.shape().text(), coils, voxels.shape()[0]));
  if (out.size() == 0) return;
  const std::int64_t count = voxels.shape()[0];
  Prepared all{context.upload<double>(coordinates), context.allocate<cfloat>({n, coils})};
  context.copy<cfloat>(samples, all.samples.view());
  weigh(context, {dims, basis, 1, 0.0}, {}, all.coordinates.view(), all.samples.view());
  const Array<double> at = context.upload<double>(voxels);
  Array<cdouble> sums = context.zeros<cdouble>({coils, count});
  ECHOTRAIN_DISPATCH(context, direct_at(context, dims, all.coordinates.data(), all.samples.data(), n, coils, at.data(),
                                        count, sums.data()));
  ECHOTRAIN_DISPATCH(context, round_sums(context, sums.data(), sums.size(), out.data()));
}

void point_spread(Context& context, HostView<const double> coordinates, HostView<const float> weights,
                  const Shape& image, VoxelBasis basis, DeviceView<cfloat> q, Precision precision) {
  Shape doubled;
  for (const auto e : image) doubled.push_back(2 * e);
  DirectGrid grid = make_grid(doubled, 1);
  require(q.shape() == doubled, q.shape().text() + " is not " + doubled.text());
  const std::int64_t n = coordinates.shape().rank() == 2 ? coordinates.shape()[0] : 0;
  require(coordinates.shape().rank() == 2 && coordinates.shape()[1] == grid.dims,
          fmt::format("expected coordinates of shape [sample, {}], got {}", grid.dims, coordinates.shape().text()));
  require(weights.size() == 0 || weights.size() == n, fmt::format("{} weights for {} samples", weights.size(), n));
  // Columns of lag (z, y) >= (0, 0), or y >= 0 in a plane; the rest is their mirror image.
  grid.first_column = grid.dims == 3 ? grid.nz / 2 * grid.ny : grid.ny / 2;
  grid.precision = precision;
  const std::vector<cfloat> ones(static_cast<std::size_t>(n), cfloat(1));
  Prepared all{context.upload<double>(coordinates), context.upload<cfloat>({ones.data(), {n, 1}})};
  weigh(context, {grid.dims, basis, 2, grid.shift()}, weights, all.coordinates.view(), all.samples.view());
  Array<float> sums = context.zeros<float>({ECHOTRAIN_DISPATCH(context, direct_sums(context, grid))});
  if (n > 0)
    ECHOTRAIN_DISPATCH(context, direct_add(context, grid, all.coordinates.data(), all.samples.data(), n, sums.data()));
  Array<cfloat> half = context.allocate<cfloat>(doubled);
  ECHOTRAIN_DISPATCH(context, direct_get(context, grid, sums.data(), half.data()));
  ECHOTRAIN_DISPATCH(context, fill_hermitian(context, grid, half.data() + grid.first_column * grid.nx, q.data()));
}

}  // namespace echotrain::numerics
