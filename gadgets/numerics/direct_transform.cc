#include "gadgets/numerics/direct_transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/direct_transform_ops.h"
#include "gadgets/numerics/dispatch.h"

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

void check_samples(View<const double> coordinates, View<const cfloat> samples, int dims, std::int64_t coils) {
  require(coordinates.shape().rank() == 2 && coordinates.shape()[1] == dims,
          fmt::format("expected coordinates of shape [sample, {}], got {}", dims, coordinates.shape().text()));
  require(
      samples.shape().rank() == 2 && samples.shape()[0] == coordinates.shape()[0] && samples.shape()[1] == coils,
      fmt::format("expected samples of shape [{}, {}], got {}", coordinates.shape()[0], coils, samples.shape().text()));
}

/// What samples are multiplied by, and positions that are numbers. A sample without a position has factor 0.
struct Prepared {
  std::vector<double> coordinates;
  std::vector<cfloat> factors;
};
Prepared prepare(View<const double> coordinates, View<const float> weights, int dims, VoxelBasis basis,
                 double shift_x) {
  Prepared out;
  const std::int64_t n = coordinates.shape()[0];
  out.coordinates.assign(coordinates.data(), coordinates.data() + n * dims);
  out.factors.resize(static_cast<std::size_t>(n));
  for (std::int64_t s = 0; s < n; ++s) {
    double* k = out.coordinates.data() + s * dims;
    if (!std::all_of(k, k + dims, [](double v) { return std::isfinite(v); })) {
      std::fill_n(k, dims, 0.0);
      continue;
    }
    const double turns = k[0] * shift_x, angle = 2 * std::numbers::pi * (turns - std::round(turns));
    const double weight = weights.size() == 0 ? 1.0 : weights[s];
    out.factors[static_cast<std::size_t>(s)] =
        cfloat(weight * basis_transform(basis, k, dims) * std::polar(1.0, angle));
  }
  return out;
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
  // Less than a group of samples that wait for more.
  std::vector<double> waiting_at;
  Array<cfloat> waiting;
  std::int64_t waiting_count = 0;

  void add_groups(Context& context, const double* coordinates, const cfloat* values, std::int64_t n) {
    if (n > 0) ECHOTRAIN_DISPATCH(context, direct_add(context, grid, coordinates, values, n, sums.data()));
  }
};

DirectAdjoint::DirectAdjoint(Context& context, const Shape& image, std::int64_t coils, VoxelBasis basis)
    : impl_(std::make_unique<Impl>()) {
  impl_->grid = make_grid(image, coils);
  impl_->image = image;
  impl_->basis = basis;
  impl_->sums = context.zeros<float>({ECHOTRAIN_DISPATCH(context, direct_sums(impl_->grid))});
  impl_->waiting = context.allocate<cfloat>({kDirectGroup, coils});
}
DirectAdjoint::~DirectAdjoint() = default;
DirectAdjoint::DirectAdjoint(DirectAdjoint&&) noexcept = default;
DirectAdjoint& DirectAdjoint::operator=(DirectAdjoint&&) noexcept = default;
std::int64_t DirectAdjoint::samples() const { return impl_->samples; }

void DirectAdjoint::add(Context& context, View<const double> coordinates, View<const cfloat> samples,
                        View<const float> weights) {
  Impl& impl = *impl_;
  const int dims = impl.grid.dims;
  const std::int64_t coils = impl.grid.coils, n = coordinates.shape().rank() == 2 ? coordinates.shape()[0] : 0;
  check_samples(coordinates, samples, dims, coils);
  require(weights.size() == 0 || weights.size() == n, fmt::format("{} weights for {} samples", weights.size(), n));
  if (n == 0) return;
  // Voxels along x are worked on half a pixel higher where their number is even.
  const Prepared prepared = prepare(coordinates, weights, dims, impl.basis, impl.grid.nx % 2 == 0 ? -0.5 : 0.0);
  Array<cfloat> values = context.allocate<cfloat>({impl.waiting_count + n, coils});
  const View<cfloat> all = values.view();
  const auto rows = [&](std::int64_t begin, std::int64_t end) {
    return View<cfloat>(all.data() + begin * coils, {end - begin, coils});
  };
  const std::int64_t before = impl.waiting_count, total = before + n;
  if (before > 0) context.copy<cfloat>({impl.waiting.data(), {before, coils}}, rows(0, before));
  context.copy<cfloat>(samples, rows(before, total));
  ECHOTRAIN_DISPATCH(context, scale_samples(context, prepared.factors.data(), n, coils, rows(before, total).data()));
  impl.waiting_at.insert(impl.waiting_at.end(), prepared.coordinates.begin(), prepared.coordinates.end());
  const std::int64_t whole = total / kDirectGroup * kDirectGroup;
  impl.add_groups(context, impl.waiting_at.data(), all.data(), whole);
  if (total > whole)
    context.copy<cfloat>(rows(whole, total), View<cfloat>(impl.waiting.data(), {total - whole, coils}));
  impl.waiting_at.erase(impl.waiting_at.begin(), impl.waiting_at.begin() + static_cast<std::ptrdiff_t>(whole * dims));
  impl.waiting_count = total - whole;
  impl.samples += n;
}

void DirectAdjoint::get(Context& context, View<cfloat> image) {
  Impl& impl = *impl_;
  Shape shape{impl.grid.coils};
  for (const auto e : impl.image) shape.push_back(e);
  require(image.shape() == shape, image.shape().text() + " is not " + shape.text());
  Array<float> sums = impl.sums;
  if (impl.waiting_count > 0) {  // the sums stay without them, so that more may follow
    sums = context.allocate<float>(impl.sums.shape());
    context.copy<float>(impl.sums.cview(), sums.view());
    ECHOTRAIN_DISPATCH(context, direct_add(context, impl.grid, impl.waiting_at.data(), impl.waiting.data(),
                                           impl.waiting_count, sums.data()));
  }
  ECHOTRAIN_DISPATCH(context, direct_get(context, impl.grid, sums.data(), image.data()));
}

void direct_adjoint_at(Context& context, View<const double> coordinates, View<const cfloat> samples,
                       View<const double> voxels, VoxelBasis basis, View<cfloat> out) {
  require(voxels.shape().rank() == 2 && voxels.shape()[1] >= 1 && voxels.shape()[1] <= 3,
          "expected voxels of shape [voxel, 1..3], got " + voxels.shape().text());
  const auto dims = static_cast<int>(voxels.shape()[1]);
  const std::int64_t coils = samples.shape().rank() == 2 ? samples.shape()[1] : 0, n = coordinates.shape()[0];
  check_samples(coordinates, samples, dims, coils);
  require(out.shape() == Shape({coils, voxels.shape()[0]}),
          fmt::format("{} is not [{}, {}]", out.shape().text(), coils, voxels.shape()[0]));
  if (out.size() == 0) return;
  const Prepared prepared = prepare(coordinates, {}, dims, basis, 0);
  Array<cfloat> values = context.allocate<cfloat>({n, coils});
  context.copy<cfloat>(samples, values.view());
  if (n > 0) ECHOTRAIN_DISPATCH(context, scale_samples(context, prepared.factors.data(), n, coils, values.data()));
  ECHOTRAIN_DISPATCH(context, direct_at(context, dims, prepared.coordinates.data(), values.data(), n, coils,
                                        voxels.data(), voxels.shape()[0], out.data()));
}

void point_spread(Context& context, View<const double> coordinates, View<const float> weights, const Shape& image,
                  VoxelBasis basis, View<cfloat> q) {
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
  Prepared prepared = prepare(coordinates, weights, grid.dims, basis, -0.5);
  for (std::int64_t s = 0; s < n; ++s)  // the basis counts twice
    prepared.factors[static_cast<std::size_t>(s)] *=
        static_cast<float>(basis_transform(basis, prepared.coordinates.data() + s * grid.dims, grid.dims));
  Array<float> sums = context.zeros<float>({ECHOTRAIN_DISPATCH(context, direct_sums(grid))});
  const Array<cfloat> samples = context.upload<cfloat>({prepared.factors.data(), {n, 1}});
  if (n > 0)
    ECHOTRAIN_DISPATCH(context, direct_add(context, grid, prepared.coordinates.data(), samples.data(), n, sums.data()));
  Array<cfloat> half = context.allocate<cfloat>(doubled);
  ECHOTRAIN_DISPATCH(context, direct_get(context, grid, sums.data(), half.data()));
  ECHOTRAIN_DISPATCH(context, fill_hermitian(context, grid, half.data(), q.data()));
}

}  // namespace echotrain::numerics
