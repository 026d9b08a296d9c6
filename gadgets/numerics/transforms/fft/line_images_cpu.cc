#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/thread_scratch.h"
#include "gadgets/numerics/transforms/fft/fft_lines_cpu.h"
#include "gadgets/numerics/transforms/fft/fft_ops.h"
#include "gadgets/numerics/transforms/fft/fftw_plans_cpu.h"
#include "gadgets/numerics/transforms/fft/line_images.h"

namespace echotrain::numerics {
namespace {

using cpu::FftwPlans;

/// Lines and columns transformed together. The number is fixed, as FFTW's bits may depend on it; columns are two cache
/// lines of each row.
constexpr std::int64_t kTogether = 16;
constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece: some 10 us of work

void require(bool good, const char* problem) {
  if (!good) throw std::invalid_argument(std::string("images from lines: ") + problem);
}

/// One axis: n points centred at n / 2, and their transform.
struct Axis {
  std::int64_t encoded, padded, image;

  /// A stretch of centred points, counted from the first, and where it lies in the transform.
  struct Stretch {
    std::int64_t from, to, count;
  };
  /// The places of encoded points first .. last - 1, as far as the transform has room for them.
  std::array<Stretch, 2> placed(std::int64_t first, std::int64_t last) const {
    const std::int64_t middle = encoded / 2;
    first = std::max(first, middle - padded / 2);
    last = std::min(last, middle + (padded + 1) / 2);
    const std::int64_t left = std::max<std::int64_t>(0, std::min(middle, last) - first);
    const std::int64_t start = std::max(middle, first);
    return {Stretch{first, padded + first - middle, left},
            Stretch{start, start - middle, std::max<std::int64_t>(0, last - start)}};
  }
  /// The places of the image's points in the transform.
  std::array<Stretch, 2> cut() const {
    const std::int64_t middle = image / 2;
    return {Stretch{0, padded - middle, middle}, Stretch{middle, 0, image - middle}};
  }
  std::int64_t distance() const { return (padded + 7) / 8 * 8 + 8; }  // spreads equal indices over the cache sets
};

struct Axes {
  Axis z, y, x;
};

Axes axes_of(const LineGeometry& g) {
  require(g.encoded.rank() == 3 && g.padded.rank() == 3 && g.image.rank() == 3, "a geometry has three axes");
  const auto axis = [&](std::size_t a) -> Axis { return {g.encoded[a], g.padded[a], g.image[a]}; };
  const Axes axes{axis(0), axis(1), axis(2)};
  for (const Axis& a : {axes.z, axes.y, axes.x}) require(a.image <= a.padded, "the image is larger than the transform");
  return axes;
}

struct LineScratch;
struct ColumnScratch;

template <class User>
cfloat* scratch(std::int64_t elements) {
  return reinterpret_cast<cfloat*>(thread_scratch<User>(2 * static_cast<std::size_t>(elements)));
}

ECHOTRAIN_CLONES void add_values(const float* from, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
}

ECHOTRAIN_CLONES void add_powers(const float* from, float* sum, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += from[2 * i] * from[2 * i] + from[2 * i + 1] * from[2 * i + 1];
}

/// sum += conj(map) * value
ECHOTRAIN_CLONES void add_joined(const float* map, const float* value, float* sum, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    sum[2 * i] += map[2 * i] * value[2 * i] + map[2 * i + 1] * value[2 * i + 1];
    sum[2 * i + 1] += map[2 * i] * value[2 * i + 1] - map[2 * i + 1] * value[2 * i];
  }
}

/// Columns of [.., axis, stride] arrays, kTogether at a time.
class Columns {
 public:
  Columns(FftwPlans& plans, const Axis& axis, std::int64_t from_stride, Direction direction)
      : axis_(axis), stride_(from_stride), distance_(axis.distance()) {
    plan_ = plans.get(axis.padded, kTogether, distance_, direction, from(), to());
  }
  std::int64_t distance() const { return distance_; }
  /// The transforms of `width` columns: lines that are distance() apart, until this thread's next call.
  const cfloat* run(const cfloat* corner, std::int64_t width) const {
    cfloat* lines = from();
    const auto placed = axis_.placed(0, axis_.encoded);
    if (axis_.encoded < axis_.padded || width < kTogether) std::fill_n(lines, kTogether * distance_, cfloat{});
    for (const Axis::Stretch& part : placed)
      cpu::columns_to_lines(corner + part.from * stride_, stride_, part.count, width, lines + part.to, distance_);
    FftwPlans::execute(plan_, lines, to());
    return to();
  }

 private:
  cfloat* from() const { return scratch<ColumnScratch>(2 * kTogether * distance_); }
  cfloat* to() const { return from() + kTogether * distance_; }

  Axis axis_;
  std::int64_t stride_, distance_;
  FftwPlans::Plan plan_;
};

/// Transforms the axis of columns of [item, encoded, stride] -> [item, image, stride].
void transform_columns(Context& context, const Axis& axis, Direction direction, const cfloat* from, std::int64_t items,
                       std::int64_t stride, float scale, cfloat* to) {
  const Columns columns(context.cache<FftwPlans>(), axis, stride, direction);
  const std::int64_t blocks = (stride + kTogether - 1) / kTogether;
  const std::vector<float> ones(static_cast<std::size_t>(std::max(axis.image, kTogether)), 1.0f);
  context.threads().parallel_for(items * blocks, std::max<std::int64_t>(1, kGrain / (kTogether * axis.padded)),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   for (std::int64_t b = begin; b < end; ++b) {
                                     const std::int64_t item = b / blocks, first = b % blocks * kTogether;
                                     const std::int64_t width = std::min(kTogether, stride - first);
                                     const cfloat* lines =
                                         columns.run(from + item * axis.encoded * stride + first, width);
                                     for (const Axis::Stretch& part : axis.cut())
                                       cpu::lines_to_columns(lines + part.to, columns.distance(), part.count, width,
                                                             to + (item * axis.image + part.from) * stride + first,
                                                             stride, scale, ones.data(), ones.data());
                                   }
                                 });
}

/// Transforms [coil, encoded, stride] -> [image, stride]: the root of the sum of the coils' squared magnitudes.
void combine_columns(Context& context, const Axis& axis, Direction direction, const cfloat* from, std::int64_t coils,
                     std::int64_t stride, float scale, cfloat* to) {
  const Columns columns(context.cache<FftwPlans>(), axis, stride, direction);
  context.threads().parallel_for((stride + kTogether - 1) / kTogether, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sums(static_cast<std::size_t>(kTogether * axis.image));
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b * kTogether, width = std::min(kTogether, stride - first);
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (std::int64_t coil = 0; coil < coils; ++coil) {
        const cfloat* lines = columns.run(from + coil * axis.encoded * stride + first, width);
        for (const Axis::Stretch& part : axis.cut())
          for (std::int64_t c = 0; c < width; ++c)
            add_powers(reinterpret_cast<const float*>(lines + c * columns.distance() + part.to),
                       sums.data() + c * axis.image + part.from, part.count);
      }
      for (std::int64_t i = 0; i < axis.image; ++i)
        for (std::int64_t c = 0; c < width; ++c)
          to[i * stride + first + c] = scale * std::sqrt(sums[static_cast<std::size_t>(c * axis.image + i)]);
    }
  });
}

/// Transforms to the sum of conj(maps) times the coils, maps being [coil, image, stride]; with `add`, added to the
/// image.
void join_columns(Context& context, const Axis& axis, Direction direction, const cfloat* from, const cfloat* maps,
                  std::int64_t coils, std::int64_t stride, float scale, bool add, cfloat* to) {
  const Columns columns(context.cache<FftwPlans>(), axis, stride, direction);
  context.threads().parallel_for((stride + kTogether - 1) / kTogether, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<cfloat> sums(static_cast<std::size_t>(kTogether * axis.image)), values(sums.size());
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b * kTogether, width = std::min(kTogether, stride - first);
      std::fill(sums.begin(), sums.end(), cfloat{});
      for (std::int64_t coil = 0; coil < coils; ++coil) {
        const cfloat* lines = columns.run(from + coil * axis.encoded * stride + first, width);
        for (const Axis::Stretch& part : axis.cut())
          cpu::lines_to_columns(lines + part.to, columns.distance(), part.count, width,
                                values.data() + part.from * width, width);
        for (std::int64_t i = 0; i < axis.image; ++i)
          add_joined(reinterpret_cast<const float*>(maps + (coil * axis.image + i) * stride + first),
                     reinterpret_cast<const float*>(values.data() + i * width),
                     reinterpret_cast<float*>(sums.data() + i * width), width);
      }
      for (std::int64_t i = 0; i < axis.image; ++i)
        for (std::int64_t c = 0; c < width; ++c) {
          cfloat& out = to[i * stride + first + c];
          out = scale * sums[static_cast<std::size_t>(i * width + c)] + (add ? out : cfloat{});
        }
    }
  });
}

/// The transform that is left after y, where there are several planes.
struct LastAxis {
  Array<cfloat> planes;  // keeps the memory of `from`
  Axis axis{};
  const cfloat* from = nullptr;
  std::int64_t stride = 0;
};

LastAxis transform_to_last_axis(Context& context, const Axes& axes, Direction direction,
                                DeviceView<const cfloat> half) {
  const std::int64_t coils = half.shape()[0], width = axes.x.image;
  context.cache<FftwPlans>().trim();
  if (axes.z.encoded == 1 && axes.z.padded == 1) return {{}, axes.y, half.data(), width};
  auto planes = context.allocate<cfloat>({coils, axes.z.encoded, axes.y.image, width});
  transform_columns(context, axes.y, direction, half.data(), coils * axes.z.encoded, width, 1, planes.data());
  const cfloat* from = planes.data();
  return {std::move(planes), axes.z, from, axes.y.image * width};
}

}  // namespace

void transform_lines(Context& context, const LineGeometry& geometry, DeviceView<const cfloat> readouts,
                     HostView<const std::int32_t> rows, HostView<const std::uint8_t> repeated,
                     const LinePlacement& placement, DeviceView<cfloat> half) {
  const Axes axes = axes_of(geometry);
  const Axis& x = axes.x;
  require(!context.cuda(), "only on the CPU");
  require(readouts.shape().rank() == 3 && half.shape().rank() == 3, "readouts and half images have three axes");
  const std::int64_t count = readouts.shape()[0], coils = readouts.shape()[1], samples = readouts.shape()[2];
  const std::int64_t height = axes.z.encoded * axes.y.encoded, used = placement.last_sample - placement.first_sample;
  require(half.shape() == Shape({coils, height, x.image}), "half images of another size");
  require(rows.size() == count && repeated.size() == count, "as many rows as readouts are needed");
  require(placement.first_sample >= 0 && used >= 0 && placement.last_sample <= samples && placement.first_x >= 0 &&
              placement.first_x + used <= x.encoded,
          "samples outside the line");

  FftwPlans& plans = context.cache<FftwPlans>();
  plans.trim();
  const std::int64_t distance = x.distance();
  cfloat* own = scratch<LineScratch>(kTogether * distance);
  const FftwPlans::Plan plan = plans.get(x.padded, kTogether, distance, geometry.direction, own, own);
  const auto placed = x.placed(placement.first_x, placement.first_x + used), cut = x.cut();
  const bool fills = placed[0].count + placed[1].count == x.padded;
  const std::int64_t lines = count * coils;
  context.threads().parallel_for(
      (lines + kTogether - 1) / kTogether, std::max<std::int64_t>(1, kGrain / (kTogether * x.padded)),
      [&](std::int64_t begin, std::int64_t end) {
        cfloat* work = scratch<LineScratch>(kTogether * distance);
        for (std::int64_t group = begin; group < end; ++group) {
          const std::int64_t first = group * kTogether, last = std::min(lines, first + kTogether);
          for (std::int64_t l = first; l < last; ++l) {
            const cfloat* from = readouts.data() + l * samples + placement.first_sample - placement.first_x;
            cfloat* to = work + (l - first) * distance;
            if (!fills) std::fill_n(to, x.padded, cfloat{});
            for (const Axis::Stretch& part : placed) std::copy_n(from + part.from, part.count, to + part.to);
          }
          FftwPlans::execute(plan, work, work);
          for (std::int64_t l = first; l < last; ++l) {
            const std::int64_t readout = l / coils, coil = l % coils;
            if (rows[readout] < 0) continue;
            const cfloat* from = work + (l - first) * distance;
            cfloat* to = half.data() + (coil * height + rows[readout]) * x.image;
            for (const Axis::Stretch& part : cut)
              if (repeated[readout] != 0)
                add_values(reinterpret_cast<const float*>(from + part.to), reinterpret_cast<float*>(to + part.from),
                           2 * part.count);
              else
                std::copy_n(from + part.to, part.count, to + part.from);
          }
        }
      });
}

void images_from_lines(Context& context, const LineGeometry& geometry, DeviceView<const cfloat> half, float scale,
                       bool combine, DeviceView<cfloat> to) {
  const Axes axes = axes_of(geometry);
  require(!context.cuda(), "only on the CPU");
  require(half.shape().rank() == 3 && to.shape().rank() == 4, "half images have three axes, images four");
  const std::int64_t coils = half.shape()[0], width = axes.x.image;
  require(half.shape() == Shape({coils, axes.z.encoded * axes.y.encoded, width}), "half images of another size");
  require(to.shape() == Shape({combine ? 1 : coils, axes.z.image, axes.y.image, width}), "images of another size");
  const LastAxis last = transform_to_last_axis(context, axes, geometry.direction, half);
  if (combine)
    combine_columns(context, last.axis, geometry.direction, last.from, coils, last.stride, scale, to.data());
  else
    transform_columns(context, last.axis, geometry.direction, last.from, coils, last.stride, scale, to.data());
}

void joined_image_from_lines(Context& context, const LineGeometry& geometry, DeviceView<const cfloat> half,
                             DeviceView<const cfloat> maps, float scale, bool add, DeviceView<cfloat> to) {
  const Axes axes = axes_of(geometry);
  require(!context.cuda(), "only on the CPU");
  require(half.shape().rank() == 3, "half images have three axes");
  const std::int64_t coils = half.shape()[0], width = axes.x.image;
  require(half.shape() == Shape({coils, axes.z.encoded * axes.y.encoded, width}), "half images of another size");
  require(maps.shape() == Shape({coils, axes.z.image, axes.y.image, width}), "maps of another size");
  require(to.shape() == Shape({1, axes.z.image, axes.y.image, width}), "images of another size");
  const LastAxis last = transform_to_last_axis(context, axes, geometry.direction, half);
  join_columns(context, last.axis, geometry.direction, last.from, maps.data(), coils, last.stride, scale, add,
               to.data());
}

}  // namespace echotrain::numerics
