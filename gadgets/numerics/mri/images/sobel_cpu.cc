#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/mri/images/sobel_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;

/// to = (1 - s) / 2 a + s b + (1 - s) / 2 c, or (c - a) / 2.
enum class Stencil { smooth, difference };
ECHOTRAIN_CLONES void combine_lines(const float* a, const float* b, const float* c, Stencil stencil, std::int64_t n,
                                    float* to) {
  if (stencil == Stencil::smooth) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = 0.25f * (a[i] + c[i]) + 0.5f * b[i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = 0.5f * (c[i] - a[i]);
  }
}

ECHOTRAIN_CLONES void subtract(const float* a, const float* b, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = a[i] - b[i];
}

ECHOTRAIN_CLONES void add_square(const float* from, std::int64_t n, float* sum) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += from[i] * from[i];
}

/// Lines along x of an image, whose border voxels are repeated beyond it.
struct Lines {
  const float* image;
  Extents n;
  int axes;

  const float* at(std::int64_t z, std::int64_t y) const {
    z = std::clamp<std::int64_t>(z, 0, n[0] - 1);
    y = std::clamp<std::int64_t>(y, 0, n[1] - 1);
    return image + (z * n[1] + y) * n[2];
  }
};

/// Combines along x, within one line. padded: [n + 2], working space.
void along_x(const float* from, Stencil stencil, std::int64_t n, float* padded, float* to) {
  padded[0] = from[0];
  std::copy_n(from, n, padded + 1);
  padded[n + 1] = from[n - 1];
  combine_lines(padded, padded + 1, padded + 2, stencil, n, to);
}

/// Working space for a line.
struct Space {
  explicit Space(std::int64_t n)
      : lines(static_cast<std::size_t>(3 * n)), line(static_cast<std::size_t>(n)), padded(line.size() + 2) {}
  std::vector<float> lines, line, padded;
};

/// to = the line (z, y) of the image, combined with its neighbours along y (and z).
void across(const Lines& image, std::int64_t z, std::int64_t y, Stencil along_z, Stencil along_y, Space& space,
            float* to) {
  const std::int64_t n = image.n[2];
  const auto plane = [&](std::int64_t at, float* line) {
    combine_lines(image.at(at, y - 1), image.at(at, y), image.at(at, y + 1), along_y, n, line);
  };
  if (image.axes == 2) {
    plane(z, to);
    return;
  }
  float* lines = space.lines.data();
  for (std::int64_t d = 0; d < 3; ++d) plane(z + d - 1, lines + d * n);
  combine_lines(lines, lines + n, lines + 2 * n, along_z, n, to);
}

/// The differences of edges from voxels (z, y, *) along `axis`; 0 where there is no edge.
void line_differences(const Lines& image, int axis, std::int64_t z, std::int64_t y, Space& space, float* to) {
  const std::int64_t n = image.n[2];
  if ((axis == 1 && y + 1 == image.n[1]) || (axis == 2 && z + 1 == image.n[0])) {
    std::fill_n(to, n, 0.0f);
    return;
  }
  float* line = space.line.data();
  if (axis == 0) {
    across(image, z, y, Stencil::smooth, Stencil::smooth, space, line);
    subtract(line + 1, line, n - 1, to);
    to[n - 1] = 0;
    return;
  }
  // Computes the difference of two lines, smoothed along the other axis across (in 3D) and along x.
  const auto difference = [&](std::int64_t at, float* out) {
    if (axis == 1)
      subtract(image.at(at, y + 1), image.at(at, y), n, out);
    else
      subtract(image.at(z + 1, at), image.at(z, at), n, out);
  };
  const std::int64_t middle = axis == 1 ? z : y, last = axis == 1 ? image.n[0] - 1 : image.n[1] - 1;
  if (image.axes == 2) {
    difference(middle, line);
  } else {
    float* lines = space.lines.data();
    for (std::int64_t d = 0; d < 3; ++d) difference(std::clamp<std::int64_t>(middle + d - 1, 0, last), lines + d * n);
    combine_lines(lines, lines + n, lines + 2 * n, Stencil::smooth, n, line);
  }
  along_x(line, Stencil::smooth, n, space.padded.data(), to);
}

}  // namespace

void sobel(Context& context, const float* image, const Extents& n, int axes, float* magnitude, float* components) {
  const Lines lines{image, n, axes};
  const std::int64_t voxels = volume(n);
  context.threads().parallel_for(n[0] * n[1], std::max<std::int64_t>(1, kGrain / n[2]), [&](auto begin, auto end) {
    Space space(n[2]);
    std::vector<float> gradient(static_cast<std::size_t>(n[2]));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t z = i / n[1], y = i % n[1];
      float* to = magnitude + i * n[2];
      std::fill_n(to, n[2], 0.0f);
      for (int axis = 0; axis < axes; ++axis) {
        const auto stencil = [axis](int a) { return a == axis ? Stencil::difference : Stencil::smooth; };
        across(lines, z, y, stencil(2), stencil(1), space, space.line.data());
        along_x(space.line.data(), stencil(0), n[2], space.padded.data(), gradient.data());
        add_square(gradient.data(), n[2], to);
        if (components != nullptr) std::copy_n(gradient.data(), n[2], components + axis * voxels + i * n[2]);
      }
      for (std::int64_t x = 0; x < n[2]; ++x) to[x] = std::sqrt(to[x]);
    }
  });
}

void gradient_image(Context& context, const float* components, const GradientImage& how, cfloat* to) {
  context.threads().parallel_for(how.voxels, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = begin; v < end; ++v) how.make(components, v, to);
  });
}

void edge_weights(Context& context, const float* reference, const Extents& n, int axes, float strength, double quantile,
                  float* weights) {
  const Lines lines{reference, n, axes};
  const std::int64_t voxels = volume(n), all = n[0] * n[1];
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / n[2]);
  const auto count_of = [&](int axis, std::int64_t z, std::int64_t y) {  // edges of a line
    if (axis == 0) return n[2] - 1;
    return (axis == 1 ? y + 1 < n[1] : z + 1 < n[0]) ? n[2] : std::int64_t{0};
  };
  // First come the sizes of differences; NaN where there is no edge.
  context.threads().parallel_for(all, grain, [&](std::int64_t begin, std::int64_t end) {
    Space space(n[2]);
    for (std::int64_t i = begin; i < end; ++i)
      for (int axis = 0; axis < axes; ++axis) {
        float* to = weights + axis * voxels + i * n[2];
        const std::int64_t edges = count_of(axis, i / n[1], i % n[1]);
        line_differences(lines, axis, i / n[1], i % n[1], space, to);
        for (std::int64_t x = 0; x < edges; ++x) to[x] = std::isfinite(to[x]) ? std::abs(to[x]) : 0.0f;
        std::fill(to + edges, to + n[2], std::numeric_limits<float>::quiet_NaN());
      }
  });
  const HostView<const float> sizes(weights, {axes * voxels});
  const float most = on_host::extremes(context.threads(), sizes).most, middle = on_host::quantile(sizes, quantile);
  const float sigma = most > 0 ? std::max(strength * middle, most / kMostRatio) : 0.0f;
  context.threads().parallel_for(axes * all, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * n[2]; i < end * n[2]; ++i) {
      const float ratio = sigma > 0 ? weights[i] / sigma : 0.0f;
      weights[i] = std::isnan(weights[i]) ? 0.0f : 1 / (1 + ratio * ratio);
    }
  });
}

}  // namespace echotrain::numerics::cpu
