#include "gadgets/numerics/inverse/sparse/differences.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/inverse/sparse/differences_ops.h"

namespace echotrain::numerics {
namespace {

SeriesGrid grid_of(const DifferenceAxes& axes, const Shape& series) {
  if (series.rank() != 4)
    throw std::invalid_argument("differences: expected a series [frame, z, y, x], got " + series.text());
  SeriesGrid grid{};
  for (int a = 0; a < 4; ++a) {
    grid.n[a] = series[static_cast<std::size_t>(a)];
    if (axes.along[static_cast<std::size_t>(a)] && grid.n[a] > 1) grid.axes[grid.count++] = a;
  }
  return grid;
}

SeriesGrid check(const DifferenceAxes& axes, const Shape& x, const Shape& d) {
  const SeriesGrid grid = grid_of(axes, x);
  if (!(d == Shape{grid.count, x[0], x[1], x[2], x[3]}))
    throw std::invalid_argument(fmt::format("differences: {} of {} are not {}", grid.count, x.text(), d.text()));
  return grid;
}

}  // namespace

std::int64_t count(const DifferenceAxes& axes, const Shape& series) { return grid_of(axes, series).count; }

void differences(Context& context, const DifferenceAxes& axes, DeviceView<const cfloat> x, DeviceView<cfloat> d) {
  const SeriesGrid grid = check(axes, x.shape(), d.shape());
  if (d.size() > 0) ECHOTRAIN_DISPATCH(context, differences(context, grid, x.data(), d.data()));
}

void differences_adjoint(Context& context, const DifferenceAxes& axes, DeviceView<const cfloat> d,
                         DeviceView<cfloat> x) {
  const SeriesGrid grid = check(axes, x.shape(), d.shape());
  if (x.size() > 0) ECHOTRAIN_DISPATCH(context, differences_adjoint(context, grid, d.data(), x.data()));
}

}  // namespace echotrain::numerics
