#include <algorithm>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/inverse/sparse/wavelet_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kWaveletGrain = 16 * 1024;  // elements per piece

/// to = the weighted sum of four rows of n floats.
ECHOTRAIN_CLONES void add_rows(const float* a, const float* b, const float* c, const float* d, const float* weight,
                               std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = weight[0] * a[i] + weight[1] * b[i] + weight[2] * c[i] + weight[3] * d[i];
}

/// Combines one row along x.
ECHOTRAIN_CLONES void combine_within(const float* from, const WaveletTaps* taps, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    const WaveletTaps& t = taps[i];
    float re = 0, im = 0;
    for (int k = 0; k < 4; ++k) {
      re += t.weight[k] * from[2 * t.at[k]];
      im += t.weight[k] * from[2 * t.at[k] + 1];
    }
    to[2 * i] = re;
    to[2 * i + 1] = im;
  }
}

const float* floats(const cfloat* values) { return reinterpret_cast<const float*>(values); }
float* floats(cfloat* values) { return reinterpret_cast<float*>(values); }

/// Calls work(item's first element, z, y) for each row of the box in each item.
template <class Work>
void for_box_rows(Context& context, std::int64_t items, const Extents& n, const Extents& box, const Work& work) {
  context.threads().parallel_for(items * box[0] * box[1], std::max<std::int64_t>(1, kWaveletGrain / box[2]),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   for (std::int64_t u = begin; u < end; ++u)
                                     work(u / (box[0] * box[1]) * volume(n), u / box[1] % box[0], u % box[1]);
                                 });
}

}  // namespace

void wavelet_pass(Context& context, const WaveletPass& p, const cfloat* from, cfloat* to) {
  const Extents &n = p.n, &box = p.box;
  std::vector<WaveletTaps> taps;
  for (std::int64_t i = 0; i < box[static_cast<std::size_t>(p.axis)]; ++i) taps.push_back(p.taps(i));
  for_box_rows(context, p.items, n, box, [&](std::int64_t item, std::int64_t z, std::int64_t y) {
    const std::int64_t row = item + (z * n[1] + y) * n[2];
    if (p.axis == 2) return combine_within(floats(from + row), taps.data(), box[2], floats(to + row));
    const std::int64_t stride = p.axis == 1 ? n[2] : n[1] * n[2];
    const std::int64_t line = p.axis == 1 ? item + z * n[1] * n[2] : item + y * n[2];
    const WaveletTaps& t = taps[static_cast<std::size_t>(p.axis == 1 ? y : z)];
    const auto at = [&](int k) { return floats(from + line + t.at[k] * stride); };
    add_rows(at(0), at(1), at(2), at(3), t.weight, 2 * box[2], floats(to + row));
  });
}

void copy_box(Context& context, std::int64_t items, const Extents& n, const Extents& box, const cfloat* from,
              cfloat* to) {
  for_box_rows(context, items, n, box, [&](std::int64_t item, std::int64_t z, std::int64_t y) {
    const std::int64_t row = item + (z * n[1] + y) * n[2];
    std::copy_n(from + row, box[2], to + row);
  });
}

void copy_corner(Context& context, std::int64_t items, const Extents& n, const Extents& m, const cfloat* from,
                 cfloat* to) {
  for_box_rows(context, items, m, m, [&](std::int64_t item, std::int64_t z, std::int64_t y) {
    const std::int64_t count = z < n[0] && y < n[1] ? std::min(n[2], m[2]) : 0;
    cfloat* row = to + item + (z * m[1] + y) * m[2];
    if (count > 0) std::copy_n(from + item / volume(m) * volume(n) + (z * n[1] + y) * n[2], count, row);
    std::fill(row + count, row + m[2], cfloat{});
  });
}

}  // namespace echotrain::numerics::cpu
