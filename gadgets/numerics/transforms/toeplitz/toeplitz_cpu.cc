#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <new>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/reduce/reductions_cpu.h"
#include "gadgets/numerics/core/thread_scratch.h"
#include "gadgets/numerics/transforms/toeplitz/lanes_fft_cpu.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece
/// Bytes of items worked on together: enough for many threads, and one item at least.
constexpr std::int64_t kWorkBytes = 16ll << 20;
/// Points added between planes, because columns through planes a power of two apart share cache sets.
constexpr std::int64_t kPlaneGap = 5;

std::int64_t up_to_multiple(std::int64_t n, std::int64_t of) { return (n + of - 1) / of * of; }

struct PlaneScratch;  // room for some planes: a few megabytes

float* scratch(std::int64_t floats) { return thread_scratch<PlaneScratch>(static_cast<std::size_t>(floats)); }

/// The three axes, and the layout of an item in the working array. Points are of kLanes x frequencies, `across` of
/// them; before the last axis (z, or y in 2D) is transformed: [z, across, y frequency] in 3D, [across, y] in 2D.
struct Layout {
  std::array<LanesAxis, 3> axis;
  std::int64_t across, rows;     ///< rows: number of y, a multiple of kLanes
  std::int64_t columns, stride;  ///< the last axis: columns along it, points between its elements
  std::int64_t item;             ///< points
  std::int64_t group_floats;     ///< working space of rows_forward() and rows_inverse()

  Layout(const Extents& n, int dims) : axis{LanesAxis(n[0]), LanesAxis(n[1]), LanesAxis(n[2])} {
    across = up_to_multiple(axis[2].padded(), kLanes) / kLanes;
    rows = up_to_multiple(n[1], kLanes);
    if (dims == 3) {
      columns = across * axis[1].padded();
      stride = columns + kPlaneGap;
      item = n[0] * stride;
    } else {
      columns = across;
      stride = 1;
      item = across * rows;
    }
    group_floats = kLanes * row_floats() + (points_x() + across * kLanes + 3 * axis[2].half()) * kPoint;
  }
  /// The floats of a row of x, two for each point, padded to whole blocks of eight.
  std::int64_t row_floats() const { return up_to_multiple(2 * axis[2].n(), 8); }
  std::int64_t points_x() const { return row_floats() / 2; }
};

ECHOTRAIN_CLONES void multiply(const float* a, const float* b, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float re = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
    to[2 * i + 1] = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
    to[2 * i] = re;
  }
}

/// to = or += a conj(map)
ECHOTRAIN_CLONES void multiply_conjugate(const float* a, const float* map, float* to, std::int64_t n, bool add) {
  if (!add) std::fill_n(to, 2 * n, 0.0f);
  for (std::int64_t i = 0; i < n; ++i) {
    to[2 * i] += a[2 * i] * map[2 * i] + a[2 * i + 1] * map[2 * i + 1];
    to[2 * i + 1] += a[2 * i + 1] * map[2 * i] - a[2 * i] * map[2 * i + 1];
  }
}

const float* floats(const cfloat* values) { return reinterpret_cast<const float*>(values); }
float* floats(cfloat* values) { return reinterpret_cast<float*>(values); }

/// Transforms up to kLanes rows along x, times their maps where there are some, to points [across, y] of `rows` y each.
void rows_forward(const Layout& layout, const cfloat* x, const cfloat* map, std::int64_t count, float* space,
                  float* plane) {
  const LanesAxis& axis = layout.axis[2];
  const std::int64_t width = layout.row_floats(), n = axis.n();
  float *staged = space, *points = staged + kLanes * width, *spectrum = points + layout.points_x() * kPoint,
        *work = spectrum + layout.across * kLanes * kPoint;
  for (std::int64_t r = 0; r < kLanes; ++r) {
    float* row = staged + r * width;
    if (r >= count) {
      std::fill_n(row, width, 0.0f);
      continue;
    }
    if (map == nullptr)
      std::copy_n(floats(x + r * n), 2 * n, row);
    else
      multiply(floats(x + r * n), floats(map + r * n), row, n);
    std::fill(row + 2 * n, row + width, 0.0f);
  }
  transpose_blocks(staged, width, kLanes / 8, width / 8, points, kLanes);
  const std::int64_t m = axis.half();
  lanes_fft(axis, {points, 1, n}, {spectrum, 1, m}, work);
  lanes_fft(axis, {points, 1, n, axis.modulation()}, {spectrum + m * kPoint, 1, m}, work);
  std::fill(spectrum + 2 * m * kPoint, spectrum + layout.across * kLanes * kPoint, 0.0f);
  for (std::int64_t b = 0; b < layout.across; ++b)
    for (const std::int64_t part : {std::int64_t{0}, kLanes})
      transpose_blocks(spectrum + b * kLanes * kPoint + part, kPoint, kLanes / 8, kLanes / 8,
                       plane + b * layout.rows * kPoint + part, kPoint);
}

/// The inverse of the above, for x < n; y = or += rows times conj(map).
void rows_inverse(const Layout& layout, const float* plane, const cfloat* map, bool add, std::int64_t count,
                  float* space, cfloat* y) {
  const LanesAxis& axis = layout.axis[2];
  const std::int64_t width = layout.row_floats(), n = axis.n(), m = axis.half();
  float *staged = space, *points = staged + kLanes * width, *spectrum = points + layout.points_x() * kPoint,
        *work = spectrum + layout.across * kLanes * kPoint, *even = work + 2 * m * kPoint;
  for (std::int64_t b = 0; b < layout.across; ++b)
    for (const std::int64_t part : {std::int64_t{0}, kLanes})
      transpose_blocks(plane + b * layout.rows * kPoint + part, kPoint, kLanes / 8, kLanes / 8,
                       spectrum + b * kLanes * kPoint + part, kPoint);
  lanes_fft(axis, {spectrum, 1, m, nullptr, true},
            {even, 1, n, LanesOutput::Kind::store, nullptr, nullptr, nullptr, true}, work);
  lanes_fft(axis, {spectrum + m * kPoint, 1, m, nullptr, true},
            {points, 1, n, LanesOutput::Kind::combine, nullptr, even, axis.modulation(), true}, work);
  transpose_blocks(points, kLanes, width / 8, kLanes / 8, staged, width);
  for (std::int64_t r = 0; r < count; ++r) {
    if (map == nullptr)
      std::copy_n(staged + r * width, 2 * n, floats(y + r * n));
    else
      multiply_conjugate(staged + r * width, floats(map + r * n), floats(y + r * n), n, add);
  }
}

/// Transforms all rows of a plane.
void plane_forward(const Layout& layout, const cfloat* x, const cfloat* map, float* space, float* plane) {
  const std::int64_t ny = layout.axis[1].n(), nx = layout.axis[2].n();
  for (std::int64_t y = 0; y < ny; y += kLanes)
    rows_forward(layout, x + y * nx, map == nullptr ? nullptr : map + y * nx, std::min(kLanes, ny - y), space,
                 plane + y * kPoint);
}
void plane_inverse(const Layout& layout, const float* plane, const cfloat* map, bool add, float* space, cfloat* to) {
  const std::int64_t ny = layout.axis[1].n(), nx = layout.axis[2].n();
  for (std::int64_t y = 0; y < ny; y += kLanes)
    rows_inverse(layout, plane + y * kPoint, map == nullptr ? nullptr : map + y * nx, add, std::min(kLanes, ny - y),
                 space, to + y * nx);
}

/// Transforms y of a plane [across, rows] to all its frequencies [across, frequency]; columns_inverse() does the
/// inverse.
void columns_forward(const Layout& layout, const float* plane, float* space, float* to) {
  const LanesAxis& axis = layout.axis[1];
  const std::int64_t m = axis.half();
  for (std::int64_t b = 0; b < layout.across; ++b) {
    const float* from = plane + b * layout.rows * kPoint;
    float* result = to + b * 2 * m * kPoint;
    lanes_fft(axis, {from, 1, axis.n()}, {result, 1, m}, space);
    lanes_fft(axis, {from, 1, axis.n(), axis.modulation()}, {result + m * kPoint, 1, m}, space);
  }
}
void columns_inverse(const Layout& layout, const float* from, float* space, float* plane) {
  const LanesAxis& axis = layout.axis[1];
  const std::int64_t m = axis.half(), n = axis.n();
  float* even = space + 2 * m * kPoint;
  for (std::int64_t b = 0; b < layout.across; ++b) {
    const float* column = from + b * 2 * m * kPoint;
    lanes_fft(axis, {column, 1, m, nullptr, true},
              {even, 1, n, LanesOutput::Kind::store, nullptr, nullptr, nullptr, true}, space);
    lanes_fft(
        axis, {column + m * kPoint, 1, m, nullptr, true},
        {plane + b * layout.rows * kPoint, 1, n, LanesOutput::Kind::combine, nullptr, even, axis.modulation(), true},
        space);
  }
}

/// Transforms the last axis forward, times the spectrum [2, m], and back, in place.
void last_axis(const LanesAxis& axis, std::int64_t stride, const float* spectrum, float* space, float* column) {
  const std::int64_t m = axis.half(), n = axis.n();
  float *product = space + 2 * m * kPoint, *even = product + m * kPoint;
  lanes_fft(axis, {column, stride, n}, {product, 1, m, LanesOutput::Kind::multiply, spectrum}, space);
  lanes_fft(axis, {product, 1, m, nullptr, true},
            {even, 1, n, LanesOutput::Kind::store, nullptr, nullptr, nullptr, true}, space);
  lanes_fft(axis, {column, stride, n, axis.modulation()},
            {product, 1, m, LanesOutput::Kind::multiply, spectrum + m * kLanes}, space);
  lanes_fft(axis, {product, 1, m, nullptr, true},
            {column, stride, n, LanesOutput::Kind::combine, nullptr, even, axis.modulation(), true}, space);
}

std::int64_t wrapped(std::int64_t i, std::int64_t n) { return i < 0 ? i + n : i; }

}  // namespace

std::int64_t toeplitz_extent(std::int64_t n) { return 2 * fast_half(n); }

void toeplitz_place(Context& context, const cfloat* q, const Extents& n, const Extents& padded, int dims,
                    cfloat* grid) {
  context.threads().parallel_for(padded[0] * padded[1], std::max<std::int64_t>(1, kGrain / padded[2]),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   for (std::int64_t row = begin; row < end; ++row) {
                                     const std::int64_t at[2] = {row / padded[1], row % padded[1]};
                                     cfloat* to = grid + row * padded[2];
                                     std::fill_n(to, padded[2], cfloat{});
                                     std::int64_t source = 0;
                                     bool inside = true;
                                     for (int a = 3 - dims; a < 2; ++a) {
                                       const std::int64_t lag = at[a] < n[a] ? at[a] : at[a] - padded[a];
                                       inside = inside && lag > -n[a];
                                       source = source * 2 * n[a] + wrapped(lag, 2 * n[a]);
                                     }
                                     if (!inside) continue;
                                     const cfloat* from = q + source * 2 * n[2];
                                     std::copy_n(from, n[2], to);
                                     std::copy_n(from + n[2] + 1, n[2] - 1, to + padded[2] - n[2] + 1);
                                   }
                                 });
}

void circulant_place(Context& context, const cfloat* q, const Extents& n, int dims, cfloat* column) {
  context.threads().parallel_for(
      volume(n), std::max<std::int64_t>(1, kGrain / 8), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t at[3] = {i / (n[1] * n[2]), i / n[2] % n[1], i % n[2]};
          cfloat sum{};
          for (int corner = 0; corner < 1 << dims; ++corner) {
            float weight = 1;
            std::int64_t source = 0;
            for (int a = 3 - dims; a < 3; ++a) {
              const bool negative = (corner >> (2 - a) & 1) != 0;
              const auto share = static_cast<float>(at[a]) / static_cast<float>(n[a]);
              weight *= negative ? share : 1 - share;
              source = source * 2 * n[a] + at[a] + (negative ? n[a] : 0);  // lag at - n, wrapped
            }
            if (weight > 0) sum += weight * q[source];
          }
          column[i] = sum;
        }
      });
}

SpectrumRange real_part(Context& context, const cfloat* from, std::int64_t n, float scale, float* to) {
  return reduce_blocks<SpectrumRange>(context.threads(), n, [&](std::int64_t begin, std::int64_t end) {
    SpectrumRange range;
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = scale * from[i].real();
      range.take(from[i].real(), from[i].imag());
    }
    return range;
  });
}

void toeplitz_plan(Context&, ToeplitzOperator::Impl& impl) {
  impl.axes = std::make_shared<const Layout>(impl.n, impl.dims);
}

namespace {

/// The spectrum as toeplitz_apply() reads it: [column, frequency of the last axis, lane], frequencies in the order in
/// which the transforms leave them. value(i): the value of element i of the grid in FFT order.
template <class Value>
void lay_out_spectrum(Context& context, const Value& value, ToeplitzOperator::Impl& impl) {
  const auto* const layout = static_cast<const Layout*>(impl.axes.get());
  const Extents& p = impl.padded;
  const LanesAxis& last = layout->axis[3 - static_cast<std::size_t>(impl.dims)];
  const auto frequency = [](std::int64_t i, std::int64_t extent) {
    return i < extent / 2 ? 2 * i : 2 * (i - extent / 2) + 1;
  };
  float* to = impl.spectrum.data();
  context.threads().parallel_for(layout->columns, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t block = impl.dims == 3 ? c / p[1] : c;
      for (std::int64_t i = 0; i < last.padded(); ++i) {
        const std::int64_t outer = frequency(i, last.padded());
        const std::int64_t row = (impl.dims == 3 ? outer * p[1] + frequency(c % p[1], p[1]) : outer) * p[2];
        for (std::int64_t l = 0; l < kLanes; ++l) {
          const std::int64_t x = block * kLanes + l;
          to[(c * last.padded() + i) * kLanes + l] = x < p[2] ? value(row + frequency(x, p[2])) : 0.0f;
        }
      }
    }
  });
}

}  // namespace

std::int64_t toeplitz_spectrum_size(const ToeplitzOperator::Impl& impl) {
  const auto* const layout = static_cast<const Layout*>(impl.axes.get());
  return layout->columns * layout->axis[3 - static_cast<std::size_t>(impl.dims)].padded() * kLanes;
}

std::int64_t toeplitz_work_size(const ToeplitzOperator::Impl& /*impl*/, std::int64_t /*coils*/) { return 0; }
std::int64_t toeplitz_parts(const ToeplitzOperator::Impl& /*impl*/) { return 1; }

void toeplitz_prepare(Context& context, Array<float> natural, ToeplitzOperator::Impl& impl) {
  toeplitz_plan(context, impl);
  impl.spectrum = context.allocate<float>({toeplitz_spectrum_size(impl)});
  const float* from = natural.data();
  lay_out_spectrum(
      context, [from](std::int64_t i) { return from[i]; }, impl);
}

void toeplitz_refill(Context& context, const ToeplitzRefill& refill, ToeplitzOperator::Impl& impl) {
  const cfloat* from = refill.transformed;
  const SpectrumRange range =
      reduce_blocks<SpectrumRange>(context.threads(), volume(impl.padded), [&](std::int64_t begin, std::int64_t end) {
        SpectrumRange part;
        for (std::int64_t i = begin; i < end; ++i) part.take(from[i].real(), 0.0f);
        return part;
      });
  *refill.largest = range.largest;
  lay_out_spectrum(
      context, [&](std::int64_t i) { return refill.scale * from[i].real(); }, impl);
}

void toeplitz_apply(Context& context, const ToeplitzOperator::Impl& impl, const ToeplitzJob& job) {
  const Layout& layout = *static_cast<const Layout*>(impl.axes.get());
  const bool solid = impl.dims == 3;
  const std::int64_t image = volume(impl.n), nx = impl.n[2], item = layout.item * kPoint;
  const LanesAxis& last = layout.axis[solid ? 0 : 1];
  // The units of work are planes of z in 3D, groups of rows of a plane in 2D.
  const std::int64_t units = solid ? impl.n[0] : layout.rows / kLanes;
  const std::int64_t unit_voxels = solid ? impl.n[1] * nx : kLanes * nx;
  const std::int64_t plane = layout.across * layout.rows * kPoint;  // floats of a plane
  const std::int64_t column_floats = 4 * kPoint * std::max(layout.axis[1].half(), last.half());
  const std::int64_t chunk = std::clamp<std::int64_t>(kWorkBytes / (item * 4), 1, job.batch);
  Array<float> work = context.allocate<float>({chunk * item});
  ThreadPool& threads = context.threads();
  for (std::int64_t first = 0; first < job.batch; first += chunk) {
    const std::int64_t items = std::min(chunk, job.batch - first);
    threads.parallel_for(items * units, 1, [&](std::int64_t begin, std::int64_t end) {
      float *space = scratch(plane + std::max(layout.group_floats, column_floats)), *own = space + plane;
      for (std::int64_t u = begin; u < end; ++u) {
        const std::int64_t i = u / units, unit = u % units, at = unit * unit_voxels;
        const cfloat* map = job.maps == nullptr ? nullptr : job.maps + (first + i) * image + at;
        const cfloat* x = job.x + (job.maps == nullptr ? (first + i) * image : 0) + at;
        float* to = work.data() + i * item;
        if (solid) {
          plane_forward(layout, x, map, own, space);
          columns_forward(layout, space, own, to + unit * layout.stride * kPoint);
        } else {
          rows_forward(layout, x, map, std::min(kLanes, impl.n[1] - unit * kLanes), own, to + unit * kLanes * kPoint);
        }
      }
    });
    threads.parallel_for(items * layout.columns, 1, [&](std::int64_t begin, std::int64_t end) {
      float* space = scratch(column_floats);
      for (std::int64_t c = begin; c < end; ++c) {
        const std::int64_t column = c % layout.columns;
        last_axis(last, layout.stride, impl.spectrum.data() + column * last.padded() * kLanes, space,
                  work.data() + c / layout.columns * item + column * (solid ? 1 : layout.rows) * kPoint);
      }
    });
    // With maps, one thread adds all coils of a piece, in their order.
    const std::int64_t summed = job.maps == nullptr ? 1 : items;
    threads.parallel_for(items / summed * units, 1, [&](std::int64_t begin, std::int64_t end) {
      float *space = scratch(plane + std::max(layout.group_floats, column_floats)), *own = space + plane;
      for (std::int64_t u = begin; u < end; ++u)
        for (std::int64_t c = 0; c < summed; ++c) {
          const std::int64_t i = u / units + c, unit = u % units, at = unit * unit_voxels;
          const cfloat* map = job.maps == nullptr ? nullptr : job.maps + (first + i) * image + at;
          cfloat* y = job.y + (job.maps == nullptr ? (first + i) * image : 0) + at;
          const float* from = work.data() + i * item;
          const bool add = first + c > 0;
          if (solid) {
            columns_inverse(layout, from + unit * layout.stride * kPoint, own, space);
            plane_inverse(layout, space, map, add, own, y);
          } else {
            rows_inverse(layout, from + unit * kLanes * kPoint, map, add, std::min(kLanes, impl.n[1] - unit * kLanes),
                         own, y);
          }
        }
    });
  }
}

}  // namespace echotrain::numerics::cpu
