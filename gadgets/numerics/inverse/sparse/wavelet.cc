#include "gadgets/numerics/inverse/sparse/wavelet.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/inverse/sparse/wavelet_ops.h"

namespace echotrain::numerics {
namespace {

/// One level: the axes that are halved together, and the box that they lie in.
struct Level {
  Extents box;
  std::vector<int> axes;
};

std::vector<Level> levels_of(Extents box, std::int64_t smallest) {
  std::vector<Level> levels;
  Extents counted = box;
  for (;;) {
    Level level{box, {}};
    for (std::size_t a = 3; a-- > 0;) {
      if (box[a] < 2 || counted[a] < smallest) continue;
      level.axes.push_back(static_cast<int>(a));
      box[a] -= box[a] / 2;
      counted[a] = (counted[a] + 3) / 2;
    }
    if (level.axes.empty()) return levels;
    levels.push_back(std::move(level));
  }
}

void check(const Shape& shape, const WaveletOptions& options) {
  if (shape.rank() != 4) throw std::invalid_argument("wavelet: expected images [item, z, y, x], got " + shape.text());
  if (options.smallest < 4)
    throw std::invalid_argument(fmt::format("wavelet: expected 4 coefficients or more, got {}", options.smallest));
  for (std::size_t a = 0; a < 3; ++a)
    if (options.shift[a] < 0 || options.shift[a] >= std::max<std::int64_t>(1, shape[a + 1]))
      throw std::invalid_argument(
          fmt::format("wavelet: a shift of {} along an axis of {}", options.shift[a], shape[a + 1]));
}

void transform(Context& context, DeviceView<cfloat> images, const WaveletOptions& options, bool forward) {
  check(images.shape(), options);
  if (images.size() == 0) return;
  const Extents n = last_axes(images.shape(), 3);
  const std::vector<Level> levels = levels_of(n, options.smallest);
  const std::int64_t items = images.shape()[0];
  Array<cfloat> other = context.allocate<cfloat>(images.shape());
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const std::size_t at = forward ? l : levels.size() - 1 - l;
    const Level& level = levels[at];
    cfloat *from = images.data(), *to = other.data();
    Extents box = level.box;
    for (const int axis : level.axes) {
      const std::int64_t shift = at == 0 ? options.shift[static_cast<std::size_t>(axis)] : 0;
      ECHOTRAIN_DISPATCH(context, wavelet_pass(context, {items, n, box, axis, forward, shift}, from, to));
      std::swap(from, to);
    }
    if (from != images.data()) ECHOTRAIN_DISPATCH(context, copy_box(context, items, n, box, from, to));
  }
}

}  // namespace

Shape wavelet_extents(const Shape& images, std::int64_t smallest) {
  check(images, {smallest, {}});
  const Extents n = last_axes(images, 3);
  Extents multiple{1, 1, 1};
  for (const Level& level : levels_of(n, smallest))
    for (const int axis : level.axes) multiple[static_cast<std::size_t>(axis)] *= 2;
  Shape extents{images[0]};
  for (std::size_t a = 0; a < 3; ++a) extents.push_back((n[a] + multiple[a] - 1) / multiple[a] * multiple[a]);
  return extents;
}

void copy_corner(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  const Shape &f = from.shape(), &t = to.shape();
  if (f.rank() != 4 || t.rank() != 4 || f[0] != t[0])
    throw std::invalid_argument(
        fmt::format("copy corner: expected [item, z, y, x], got {} and {}", f.text(), t.text()));
  if (to.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, copy_corner(context, f[0], last_axes(f, 3), last_axes(t, 3), from.data(), to.data()));
}

void wavelet_analysis(Context& context, DeviceView<cfloat> images, const WaveletOptions& options) {
  transform(context, images, options, true);
}

void wavelet_synthesis(Context& context, DeviceView<cfloat> images, const WaveletOptions& options) {
  transform(context, images, options, false);
}

}  // namespace echotrain::numerics
