#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/inverse/sparse/differences.h"

namespace echotrain::numerics {

/// The extents of a series and the axes that have neighbours.
struct SeriesGrid {
  std::int64_t n[4];     ///< t, z, y, x
  std::int64_t step[4];  ///< from an element of an axis to the next one
  std::int64_t size;
  int axes[4];  ///< the axes, `count` of them
  int count;

  /// The distance from element i of an axis to the next one, or to the one before, in elements of the series; 0 where
  /// there is none.
  ECHOTRAIN_HOST_DEVICE std::int64_t next(int axis, std::int64_t i) const {
    if (i + 1 < n[axis]) return step[axis];
    return axis == 0 ? 0 : -i * step[axis];
  }
  ECHOTRAIN_HOST_DEVICE std::int64_t before(int axis, std::int64_t i) const {
    if (i > 0) return -step[axis];
    return axis == 0 ? 0 : (n[axis] - 1) * step[axis];
  }
  ECHOTRAIN_HOST_DEVICE std::int64_t at(std::int64_t t, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return t * step[0] + z * step[1] + y * step[2] + x;
  }
};

/// Rows are done together, so that what all of them share is found once, and each along all axes before the next one.
/// Lanes have their neighbours along x in a row, apart from the last one of a row, whose neighbour is the first.
struct Differences {
  static constexpr int kLanes[] = {0, 0, 16, 256};
  static constexpr bool kClones = true;
  SeriesGrid g;
  const cfloat* x;
  cfloat* d;

  template <int kRows, int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t t, std::int64_t z, Lanes<kRows> rows, Lanes<kMost> lanes) const {
    const std::int64_t first = g.at(t, z, rows.first, lanes.first), of_t = g.next(0, t), of_z = g.next(1, z);
    const std::int64_t of_x = kMost > 1 ? 1 : g.next(3, lanes.first);
    const bool wraps = kMost > 1 && lanes.first + lanes.count == g.n[3];
    const cfloat* from = x + first;
    cfloat* to = d + first;
    for (int r = 0; r < rows.count; ++r, from += g.n[3], to += g.n[3])
      for (int a = 0; a < g.count; ++a) {
        const int axis = g.axes[a], inside = axis == 3 && wraps ? lanes.count - 1 : lanes.count;
        const cfloat* const next = from + (axis == 0   ? of_t
                                           : axis == 1 ? of_z
                                           : axis == 2 ? g.next(2, rows.first + r)
                                                       : of_x);
        cfloat* const of_axis = to + a * g.size;
        for (int l = 0; l < inside; ++l) store(load(next + l) - load(from + l), of_axis + l);
        if (inside < lanes.count) store(load(from - lanes.first) - load(from + inside), of_axis + inside);
      }
  }
};
ECHOTRAIN_MAP(Differences, 4)

struct AdjointDifferences {
  static constexpr int kLanes[] = {0, 0, 0, 256};
  static constexpr bool kClones = true;
  SeriesGrid g;
  const cfloat* d;
  cfloat* x;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t t, std::int64_t z, std::int64_t y, Lanes<kMost> lanes) const {
    const std::int64_t row = g.at(t, z, y, lanes.first), at[3] = {t, z, y};
    Complex sums[kMost];
    for (int l = 0; l < lanes.count; ++l) sums[l] = {0, 0};
    for (int a = 0; a < g.count; ++a) {
      const int axis = g.axes[a];
      const cfloat* const from = d + a * g.size + row;
      if (axis < 3) {
        const std::int64_t before = g.before(axis, at[axis]), next = g.next(axis, at[axis]);
        // The first and the last frame have a neighbour in time on one side only.
        if (before != 0)
          for (int l = 0; l < lanes.count; ++l) sums[l] = sums[l] + load(from + before + l);
        if (next != 0)
          for (int l = 0; l < lanes.count; ++l) sums[l] = sums[l] - load(from + l);
      } else {
        const int first = lanes.first == 0 ? 1 : 0;
        if (first == 1) sums[0] = sums[0] + (load(from + g.n[3] - 1) - load(from));
        for (int l = first; l < lanes.count; ++l) sums[l] = sums[l] + (load(from + l - 1) - load(from + l));
      }
    }
    for (int l = 0; l < lanes.count; ++l) store(sums[l], x + row + l);
  }
};
ECHOTRAIN_MAP(AdjointDifferences, 4)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <stdexcept>

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
  grid.size = 1;
  for (int a = 3; a >= 0; --a) {
    grid.step[a] = grid.size;
    grid.size *= grid.n[a];
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
  const SeriesGrid g = check(axes, x.shape(), d.shape());
  if (d.size() > 0) map(context, g.n, Differences{g, x.data(), d.data()});
}

void differences_adjoint(Context& context, const DifferenceAxes& axes, DeviceView<const cfloat> d,
                         DeviceView<cfloat> x) {
  const SeriesGrid g = check(axes, x.shape(), d.shape());
  map(context, g.n, AdjointDifferences{g, d.data(), x.data()});
}

}  // namespace echotrain::numerics
#endif
