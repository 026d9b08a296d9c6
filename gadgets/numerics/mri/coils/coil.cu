#include <cmath>

#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/coils/coil.h"

namespace echotrain::numerics {

struct RootSumOfSquares {
  static constexpr int kLanes[] = {256};
  static constexpr bool kClones = true;
  const cfloat* from;
  std::int64_t coils, voxels;
  cfloat* to;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(Lanes<kMost> v) const {
    float sums[kMost];
    for (int l = 0; l < v.count; ++l) sums[l] = 0;
    for (std::int64_t c = 0; c < coils; ++c)
      for (int l = 0; l < v.count; ++l) sums[l] += power(load(from + c * voxels + v.first + l));
    for (int l = 0; l < v.count; ++l) store({sqrtf(sums[l]), 0}, to + v.first + l);
  }
};
ECHOTRAIN_MAP(RootSumOfSquares, 1)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/coils/coil_ops.h"

namespace echotrain::numerics {

void root_sum_of_squares(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  const Shape &f = from.shape(), &t = to.shape();
  bool good = f.rank() >= 1 && f.rank() == t.rank() && t[0] == 1;
  for (std::size_t a = 1; good && a < f.rank(); ++a) good = f[a] == t[a];
  if (!good)
    throw std::invalid_argument(
        fmt::format("root_sum_of_squares: expected [coil, ...] and [1, ...], got {} and {}", f.text(), t.text()));
  constexpr std::int64_t kGrain = 4 * 1024;
  map(context, {to.size()}, RootSumOfSquares{from.data(), f[0], to.size(), to.data()}, kGrain);
}

namespace {

void check_coils(const Shape& m, const Shape& d) {
  if (m.rank() != 2 || m[0] != m[1] || d.rank() != 3 || d[1] != m[0])
    throw std::invalid_argument(fmt::format(
        "apply_coil_matrix: expected [coil, coil] and [readout, coil, sample], got {} and {}", m.text(), d.text()));
}

}  // namespace

void apply_coil_matrix(Context& context, DeviceView<const cfloat> matrix, DeviceView<cfloat> data) {
  check_coils(matrix.shape(), data.shape());
  if (data.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, apply_coil_matrix(context, matrix, data));
}

void apply_coil_matrix(Context& context, HostView<const cfloat> matrix, HostView<cfloat> data) {
  check_coils(matrix.shape(), data.shape());
  if (data.size() == 0) return;
  cpu::apply_coil_matrix(context, DeviceView<const cfloat>(matrix.data(), matrix.shape()),
                         DeviceView<cfloat>(data.data(), data.shape()));
}

}  // namespace echotrain::numerics
#endif
