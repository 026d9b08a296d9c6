#include <algorithm>
#include <cstddef>
#include <vector>

#include "gadgets/numerics/core/thread_scratch.h"
#include "gadgets/numerics/transforms/fft/fft_lines_cpu.h"
#include "gadgets/numerics/transforms/fft/fft_ops.h"
#include "gadgets/numerics/transforms/fft/fftw_plans_cpu.h"

namespace echotrain::numerics::cpu {
namespace {

/// Lines transformed together: as columns they are two cache lines of each row.
constexpr std::int64_t kLines = 16;
/// The most elements of the lines transformed together: they stay in the cache, with room for their result.
constexpr std::int64_t kLineElements = 32 * 1024;
/// Items transformed together, so that their passes over the axes find the data in the cache.
constexpr std::int64_t kCachedElements = 256 * 1024;
constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece

struct FftScratch;
/// This thread's working space for a few lines, aligned to 64 bytes. It grows with the longest axis seen, to a few
/// megabytes at most, and no session pays for it.
cfloat* scratch(std::int64_t elements) {
  return reinterpret_cast<cfloat*>(thread_scratch<FftScratch>(2 * static_cast<std::size_t>(elements)));
}

std::int64_t lines_together(std::int64_t n) { return std::clamp<std::int64_t>(kLineElements / n, 1, kLines); }

/// Transforms of contiguous lines in place, `lines_together` at a time; the last ones may be fewer.
class Rows {
 public:
  Rows(FftwPlans& plans, std::int64_t n, std::int64_t lines, Direction direction, cfloat* data)
      : n_(n), lines_(lines), together_(std::min(lines, lines_together(n))) {
    const std::int64_t rest = lines % together_;
    for (cfloat* start : {data, data + 1}) {  // lines of odd length have alternating alignments
      full_[variant(start)] = plans.get(n, together_, n, direction, start, start);
      if (rest > 0) rest_[variant(start)] = plans.get(n, rest, n, direction, start, start);
    }
  }
  std::int64_t groups() const { return (lines_ + together_ - 1) / together_; }
  /// `data` is the first line, of these or of others in the same arrangement.
  void run(cfloat* data, std::int64_t group) const {
    cfloat* first = data + group * together_ * n_;
    FftwPlans::execute(((group + 1) * together_ > lines_ ? rest_ : full_)[variant(first)], first, first);
  }

 private:
  static int variant(cfloat* data) { return FftwPlans::aligned(data) ? 0 : 1; }

  std::int64_t n_, lines_, together_;
  FftwPlans::Plan full_[2], rest_[2] = {};
};

/// Transforms of columns, whose elements are `stride` apart: copied to contiguous lines of working space and back.
class Columns {
 public:
  Columns(FftwPlans& plans, std::int64_t n, std::int64_t stride, Direction direction)
      : n_(n), stride_(stride), together_(lines_together(n)), distance_((n + 7) / 8 * 8 + 8) {
    plan_ = plans.get(n, together_, distance_, direction, from(), to());
  }
  std::int64_t together() const { return together_; }
  std::int64_t distance() const { return distance_; }
  /// The transform of `width` <= together() columns: lines that are distance() apart, until this thread's next call.
  const cfloat* run(const cfloat* corner, std::int64_t width) const {
    cfloat *lines = from(), *result = to();
    columns_to_lines(corner, stride_, n_, width, lines, distance_);
    for (std::int64_t c = width; c < together_; ++c) std::fill_n(lines + c * distance_, n_, cfloat{});
    FftwPlans::execute(plan_, lines, result);
    return result;
  }

 private:
  cfloat* from() const { return scratch(2 * together_ * distance_); }
  cfloat* to() const { return from() + together_ * distance_; }

  std::int64_t n_, stride_, together_, distance_;
  FftwPlans::Plan plan_;
};

/// Transforms an axis of `n` elements that are `stride` apart, in `planes` planes of n * stride elements.
void transform_axis(Context& context, FftwPlans& plans, cfloat* data, std::int64_t planes, std::int64_t n,
                    std::int64_t stride, Direction direction) {
  if (n == 1) return;
  if (stride == 1) {
    const Rows rows(plans, n, planes, direction, data);
    context.threads().parallel_for(rows.groups(), std::max<std::int64_t>(1, kGrain / (n * lines_together(n))),
                                   [&](std::int64_t begin, std::int64_t end) {
                                     for (std::int64_t i = begin; i < end; ++i) rows.run(data, i);
                                   });
    return;
  }
  const Columns columns(plans, n, stride, direction);
  const std::int64_t blocks_per_plane = (stride + columns.together() - 1) / columns.together();
  context.threads().parallel_for(
      planes * blocks_per_plane, std::max<std::int64_t>(1, kGrain / (n * columns.together())),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
          const std::int64_t first = b % blocks_per_plane * columns.together(),
                             width = std::min(columns.together(), stride - first);
          cfloat* corner = data + b / blocks_per_plane * n * stride + first;
          lines_to_columns(columns.run(corner, width), columns.distance(), n, width, corner, stride);
        }
      });
}

/// A stretch of an axis, by its indices in the image and in the transform.
struct Stretch {
  std::int64_t image, padded, count;
};

/// The image's first half is at the end of the transform, its second half at the start.
std::array<Stretch, 2> halves(std::int64_t n, std::int64_t padded) {
  const std::int64_t middle = n / 2;
  return {Stretch{0, padded - middle, middle}, Stretch{middle, 0, n - middle}};
}

/// The columns that survive cropping, `together` at a time.
std::vector<Stretch> surviving_columns(std::int64_t n, std::int64_t padded, std::int64_t together) {
  std::vector<Stretch> blocks;
  for (const Stretch& half : halves(n, padded))
    for (std::int64_t x = 0; x < half.count; x += together)
      blocks.push_back({half.image + x, half.padded + x, std::min(together, half.count - x)});
  return blocks;
}

/// The element of the transform that holds index i of a centred axis.
std::int64_t wrapped(std::int64_t i, std::int64_t n, std::int64_t padded) {
  const std::int64_t k = i - n / 2;
  return k < 0 ? k + padded : k;
}

/// Calls row(offset in the centred array, offset in the transform) for each row that fits; the rows' x differ by two
/// runs: [first, n/2) goes to the end of the transform's row, [n/2, last) to its start.
template <class Row>
void for_rows(Context& context, std::int64_t batch, const Centred& c, const Row& row) {
  const std::int64_t nz = c.last[0] - c.first[0], ny = c.last[1] - c.first[1];
  context.threads().parallel_for(
      batch * nz * ny, std::max<std::int64_t>(1, kGrain / c.padded[2]), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t item = i / (nz * ny), z = i / ny % nz + c.first[0], y = i % ny + c.first[1];
          row(((item * c.n[0] + z) * c.n[1] + y) * c.n[2],
              ((item * c.padded[0] + wrapped(z, c.n[0], c.padded[0])) * c.padded[1] + wrapped(y, c.n[1], c.padded[1])) *
                  c.padded[2]);
        }
      });
}

}  // namespace

void fft(Context& context, cfloat* data, std::int64_t batch, const Extents& extents, int dims, Direction direction) {
  FftwPlans& plans = context.cache<FftwPlans>();
  plans.trim();
  const std::int64_t item = volume(extents);
  const std::int64_t group = std::clamp<std::int64_t>(kCachedElements / item, 1, batch);
  for (std::int64_t b = 0; b < batch; b += group) {
    std::int64_t planes = std::min(group, batch - b) * item, stride = 1;
    for (int a = 2; a > 2 - dims; --a) {
      planes /= extents[a];
      transform_axis(context, plans, data + b * item, planes, extents[a], stride, direction);
      stride *= extents[a];
    }
  }
}

void inverse_fft_cropped(Context& context, cfloat* padded, cfloat* to, std::int64_t batch, const Centred& c, int dims,
                         const Factors& factors) {
  FftwPlans& plans = context.cache<FftwPlans>();
  plans.trim();
  const Extents &p = c.padded, &n = c.n;
  const std::int64_t item = volume(p), plane = p[1] * p[2];
  if (dims == 3) {
    // Transforms x and y plane by plane, so that a plane is read once; of y only the columns that are needed, in place.
    const Rows rows(plans, p[2], p[1], Direction::inverse, padded);
    const Columns columns(plans, p[1], p[2], Direction::inverse);
    const std::vector<Stretch> blocks = surviving_columns(n[2], p[2], columns.together());
    context.threads().parallel_for(batch * p[0], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t z = begin; z < end; ++z) {
        cfloat* data = padded + z * plane;
        for (std::int64_t i = 0; i < rows.groups(); ++i) rows.run(data, i);
        for (const Stretch& block : blocks) {
          cfloat* corner = data + block.padded;
          const cfloat* result = columns.run(corner, block.count);
          for (const Stretch& half : halves(n[1], p[1]))
            lines_to_columns(result + half.padded, columns.distance(), half.count, block.count,
                             corner + half.padded * p[2], p[2]);
        }
      }
    });
  }
  // Transforms the first axis, straight to the image.
  const int axis = 3 - dims;
  const std::int64_t lines = dims == 3 ? n[1] : 1, stride = item / p[axis], image_stride = volume(n) / n[axis];
  const Columns columns(plans, p[axis], stride, Direction::inverse);
  const std::vector<Stretch> blocks = surviving_columns(n[2], p[2], columns.together());
  const auto units = static_cast<std::int64_t>(blocks.size()) * lines;
  const std::int64_t group = dims == 3 ? batch : std::clamp<std::int64_t>(kCachedElements / item, 1, batch);
  for (std::int64_t b = 0; b < batch; b += group) {
    const std::int64_t items = std::min(group, batch - b);
    if (dims == 2) transform_axis(context, plans, padded + b * item, items * p[1], p[2], 1, Direction::inverse);
    context.threads().parallel_for(items * units, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t u = begin; u < end; ++u) {
        const std::int64_t at = b + u / units, y = u % units / static_cast<std::int64_t>(blocks.size());
        const Stretch& block = blocks[static_cast<std::size_t>(u) % blocks.size()];
        const std::int64_t row = dims == 3 ? wrapped(y, n[1], p[1]) * p[2] : 0;
        const cfloat* result = columns.run(padded + at * item + row + block.padded, block.count);
        const float line_factor = dims == 3 ? factors[1][y] : 1.0f;
        cfloat* corner = to + at * volume(n) + y * n[2] + block.image;
        for (const Stretch& half : halves(n[axis], p[axis]))
          lines_to_columns(result + half.padded, columns.distance(), half.count, block.count,
                           corner + half.image * image_stride, image_stride, line_factor,
                           factors[static_cast<std::size_t>(axis)] + half.image, factors[2] + block.image);
      }
    });
  }
}

void place(Context& context, const cfloat* from, cfloat* padded, std::int64_t batch, const Centred& c) {
  if (c.n != c.padded) {
    const std::int64_t all = batch * volume(c.padded);
    context.threads().parallel_for(
        all, kGrain, [&](std::int64_t begin, std::int64_t end) { std::fill(padded + begin, padded + end, cfloat{}); });
  }
  const std::int64_t middle = c.n[2] / 2;
  for_rows(context, batch, c, [&](std::int64_t source, std::int64_t target) {
    std::copy(from + source + middle, from + source + c.last[2], padded + target);
    std::copy(from + source + c.first[2], from + source + middle,
              padded + target + c.padded[2] - (middle - c.first[2]));
  });
}

void crop(Context& context, const cfloat* padded, cfloat* to, std::int64_t batch, const Centred& c, float scale) {
  const std::int64_t middle = c.n[2] / 2;
  const auto scaled = [scale](cfloat v) { return v * scale; };
  for_rows(context, batch, c, [&](std::int64_t target, std::int64_t source) {
    const cfloat* row = padded + source;
    std::transform(row, row + c.n[2] - middle, to + target + middle, scaled);
    std::transform(row + c.padded[2] - middle, row + c.padded[2], to + target, scaled);
  });
}

}  // namespace echotrain::numerics::cpu
