#include "gadgets/numerics/transforms/toeplitz/lanes_fft_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics::cpu {
namespace {

// Butterflies: the forward transform of R numbers, in place.
template <int R>
struct Points {};

template <class V>
ECHOTRAIN_INLINE void butterfly(Points<2>, V* re, V* im) {
  const V r = re[0] - re[1], i = im[0] - im[1];
  re[0] += re[1], im[0] += im[1];
  re[1] = r, im[1] = i;
}

template <class V>
ECHOTRAIN_INLINE void butterfly(Points<3>, V* re, V* im) {
  constexpr float kSine = 0.86602540378443864676f;
  const V tr = re[1] + re[2], ti = im[1] + im[2];
  const V dr = (re[1] - re[2]) * kSine, di = (im[1] - im[2]) * kSine;
  const V mr = re[0] - 0.5f * tr, mi = im[0] - 0.5f * ti;
  re[0] += tr, im[0] += ti;
  re[1] = mr + di, im[1] = mi - dr;
  re[2] = mr - di, im[2] = mi + dr;
}

template <class V>
ECHOTRAIN_INLINE void butterfly(Points<4>, V* re, V* im) {
  const V ar = re[0] + re[2], ai = im[0] + im[2], br = re[0] - re[2], bi = im[0] - im[2];
  const V cr = re[1] + re[3], ci = im[1] + im[3], dr = re[1] - re[3], di = im[1] - im[3];
  re[0] = ar + cr, im[0] = ai + ci;
  re[1] = br + di, im[1] = bi - dr;
  re[2] = ar - cr, im[2] = ai - ci;
  re[3] = br - di, im[3] = bi + dr;
}

template <class V>
ECHOTRAIN_INLINE void butterfly(Points<5>, V* re, V* im) {
  constexpr float c1 = 0.30901699437494742410f, c2 = -0.80901699437494742410f;
  constexpr float s1 = 0.95105651629515357212f, s2 = 0.58778525229247312917f;
  const V tr = re[1] + re[4], ti = im[1] + im[4], ur = re[2] + re[3], ui = im[2] + im[3];
  const V dr = re[1] - re[4], di = im[1] - im[4], er = re[2] - re[3], ei = im[2] - im[3];
  const V pr = re[0] + c1 * tr + c2 * ur, pi = im[0] + c1 * ti + c2 * ui;
  const V qr = re[0] + c2 * tr + c1 * ur, qi = im[0] + c2 * ti + c1 * ui;
  const V fr = s1 * dr + s2 * er, fi = s1 * di + s2 * ei, gr = s2 * dr - s1 * er, gi = s2 * di - s1 * ei;
  re[0] += tr + ur, im[0] += ti + ui;
  re[1] = pr + fi, im[1] = pi - fr;
  re[4] = pr - fi, im[4] = pi + fr;
  re[2] = qr + gi, im[2] = qi - gr;
  re[3] = qr - gi, im[3] = qi + gr;
}

template <class V>
ECHOTRAIN_INLINE void butterfly(Points<8>, V* re, V* im) {
  constexpr float kHalfRoot = 0.70710678118654752440f;
  V er[4], ei[4], odd_r[4], odd_i[4];
  for (int k = 0; k < 4; ++k) {
    er[k] = re[k] + re[k + 4], ei[k] = im[k] + im[k + 4];
    odd_r[k] = re[k] - re[k + 4], odd_i[k] = im[k] - im[k + 4];
  }
  // Multiplies the odd half by exp(-2 pi i k / 8).
  const V r1 = (odd_r[1] + odd_i[1]) * kHalfRoot, i1 = (odd_i[1] - odd_r[1]) * kHalfRoot;
  const V r3 = (odd_i[3] - odd_r[3]) * kHalfRoot, i3 = -(odd_r[3] + odd_i[3]) * kHalfRoot;
  const V r2 = odd_i[2], i2 = -odd_r[2];
  odd_r[1] = r1, odd_i[1] = i1, odd_r[2] = r2, odd_i[2] = i2, odd_r[3] = r3, odd_i[3] = i3;
  butterfly(Points<4>(), er, ei);
  butterfly(Points<4>(), odd_r, odd_i);
  for (int k = 0; k < 4; ++k) {
    re[2 * k] = er[k], im[2 * k] = ei[k];
    re[2 * k + 1] = odd_r[k], im[2 * k + 1] = odd_i[k];
  }
}

// Source and destination of a stage's numbers: `at(i, re, im)` for point i.

template <class V>
ECHOTRAIN_INLINE void load(const float* from, V& to) {
  std::memcpy(&to, from, sizeof(V));
}
template <class V>
ECHOTRAIN_INLINE void save(const V& from, float* to) {
  std::memcpy(to, &from, sizeof(V));
}

struct FromBuffer {
  const float* data;
  template <class V>
  ECHOTRAIN_INLINE void at(std::int64_t i, V& re, V& im) const {
    load(data + i * kPoint, re), load(data + i * kPoint + kLanes, im);
  }
};
struct ToBuffer {
  float* data;
  template <class V>
  ECHOTRAIN_INLINE void at(std::int64_t i, const V& re, const V& im) const {
    save(re, data + i * kPoint), save(im, data + i * kPoint + kLanes);
  }
};

template <bool Modulated>
struct FromInput {
  LanesInput in;
  template <class V>
  ECHOTRAIN_INLINE void at(std::int64_t i, V& re, V& im) const {
    if (i >= in.n) {
      re = V{}, im = V{};
      return;
    }
    const float* point = in.data + i * in.stride * kPoint;
    const std::int64_t imaginary = in.swapped ? 0 : kLanes;
    load(point + kLanes - imaginary, re), load(point + imaginary, im);
    if constexpr (Modulated) {
      const float c = in.modulation[2 * i], s = in.modulation[2 * i + 1];
      const V r = re * c - im * s;
      im = im * c + re * s;
      re = r;
    }
  }
};

template <LanesOutput::Kind Kind>
struct ToOutput {
  LanesOutput out;
  template <class V>
  ECHOTRAIN_INLINE void at(std::int64_t i, const V& re, const V& im) const {
    if (i >= out.n) return;
    float* point = out.data + i * out.stride * kPoint;
    if constexpr (Kind == LanesOutput::Kind::multiply) {
      V factor;
      load(out.factor + i * kLanes, factor);
      save(V(re * factor), point), save(V(im * factor), point + kLanes);
    } else if constexpr (Kind == LanesOutput::Kind::combine) {
      const float c = out.modulation[2 * i], s = out.modulation[2 * i + 1];
      V r, m;
      load(out.addend + i * kPoint, r), load(out.addend + i * kPoint + kLanes, m);
      r += im * c + re * s;
      m += re * c - im * s;
      save(r, point), save(m, point + kLanes);
    } else {
      const std::int64_t imaginary = out.swapped ? 0 : kLanes;
      save(re, point + kLanes - imaginary), save(im, point + imaginary);
    }
  }
};

/// One stage of Stockham's transform, which sorts as it goes.
template <class V, int R, bool Last, class From, class To>
ECHOTRAIN_INLINE void stage(const LanesAxis::Stage& s, const float* twiddles, const From& from, const To& to) {
  for (std::int64_t p = 0; p < s.count; ++p)
    for (std::int64_t q = 0; q < s.stride; ++q) {
      V re[R], im[R];
#pragma GCC unroll 8
      for (int k = 0; k < R; ++k) from.at(q + s.stride * (p + k * s.count), re[k], im[k]);
      butterfly(Points<R>(), re, im);
      to.at(q + s.stride * (R * p), re[0], im[0]);
#pragma GCC unroll 8
      for (int k = 1; k < R; ++k) {
        if constexpr (!Last) {
          const float c = twiddles[2 * ((R - 1) * p + k - 1)], d = twiddles[2 * ((R - 1) * p + k - 1) + 1];
          const V r = re[k] * c - im[k] * d;
          im[k] = im[k] * c + re[k] * d;
          re[k] = r;
        }
        to.at(q + s.stride * (R * p + k), re[k], im[k]);
      }
    }
}

template <class V, bool Last, class From, class To>
ECHOTRAIN_INLINE void any_stage(const LanesAxis& axis, const LanesAxis::Stage& s, const From& from, const To& to) {
  const float* twiddles = axis.twiddles(s);
  switch (s.radix) {
    case 2:
      return stage<V, 2, Last>(s, twiddles, from, to);
    case 3:
      return stage<V, 3, Last>(s, twiddles, from, to);
    case 4:
      return stage<V, 4, Last>(s, twiddles, from, to);
    case 5:
      return stage<V, 5, Last>(s, twiddles, from, to);
    default:
      return stage<V, 8, Last>(s, twiddles, from, to);
  }
}

template <class V, class From>
ECHOTRAIN_INLINE void last_stage(const LanesAxis& axis, const From& from, const LanesOutput& output) {
  const LanesAxis::Stage& s = axis.stages().back();
  switch (output.kind) {
    case LanesOutput::Kind::store:
      return any_stage<V, true>(axis, s, from, ToOutput<LanesOutput::Kind::store>{output});
    case LanesOutput::Kind::multiply:
      return any_stage<V, true>(axis, s, from, ToOutput<LanesOutput::Kind::multiply>{output});
    case LanesOutput::Kind::combine:
      return any_stage<V, true>(axis, s, from, ToOutput<LanesOutput::Kind::combine>{output});
  }
}

constexpr std::int64_t kBlock = 8;
using Eight [[gnu::vector_size(kBlock * sizeof(float))]] = float;

/// to[j, i] = from[i, j] for i, j < 8.
ECHOTRAIN_INLINE void transpose_block(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride) {
  Eight a[kBlock], b[kBlock];
#pragma GCC unroll 8
  for (int i = 0; i < kBlock; ++i) std::memcpy(&a[i], from + i * from_stride, sizeof(Eight));
#pragma GCC unroll 4
  for (int i = 0; i < kBlock; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 2
  for (int i = 0; i < kBlock; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      a[i + 2 * j] = __builtin_shufflevector(b[i + j], b[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      a[i + 2 * j + 1] = __builtin_shufflevector(b[i + j], b[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kBlock; ++i) std::memcpy(to + i * to_stride, &b[i], sizeof(Eight));
}

template <class V>
ECHOTRAIN_INLINE void transform(const LanesAxis& axis, const LanesInput& input, const LanesOutput& output,
                                float* scratch) {
  static_assert(sizeof(V) > sizeof(float));
  const auto& stages = axis.stages();
  float *from = scratch, *to = scratch + axis.half() * kPoint;
  if (stages.size() == 1) {  // a single stage copies the input, which the last stage then takes
    for (std::int64_t i = 0; i < axis.half(); ++i) {
      V re, im;
      if (input.modulation != nullptr)
        FromInput<true>{input}.at(i, re, im);
      else
        FromInput<false>{input}.at(i, re, im);
      ToBuffer{from}.at(i, re, im);
    }
    return last_stage<V>(axis, FromBuffer{from}, output);
  }
  if (input.modulation != nullptr)
    any_stage<V, false>(axis, stages[0], FromInput<true>{input}, ToBuffer{from});
  else
    any_stage<V, false>(axis, stages[0], FromInput<false>{input}, ToBuffer{from});
  for (std::size_t i = 1; i + 1 < stages.size(); ++i) {
    any_stage<V, false>(axis, stages[i], FromBuffer{from}, ToBuffer{to});
    std::swap(from, to);
  }
  last_stage<V>(axis, FromBuffer{from}, output);
}

template <int kVectorBytes>
using Vector [[gnu::vector_size(kVectorBytes)]] = float;

/// Transforms the lanes that fit a register of the machine, and then the next ones.
template <int kVectorBytes>
ECHOTRAIN_INLINE void transform_all(const LanesAxis& axis, LanesInput input, LanesOutput output, float* scratch) {
  constexpr std::int64_t kAtOnce = kVectorBytes / sizeof(float);
  static_assert(kLanes % kAtOnce == 0);
  for (std::int64_t lane = 0; lane < kLanes; lane += kAtOnce) {
    transform<Vector<kVectorBytes>>(axis, input, output, scratch);
    input.data += kAtOnce;
    output.data += kAtOnce;
    if (output.factor != nullptr) output.factor += kAtOnce;
    if (output.addend != nullptr) output.addend += kAtOnce;
  }
}

ECHOTRAIN_VECTOR_CLONES(void transform_lanes(const LanesAxis& axis, const LanesInput& input, const LanesOutput& output,
                                             float* scratch),
                        transform_all<kVectorBytes>(axis, input, output, scratch))

std::vector<int> radices(std::int64_t m) {
  std::vector<int> found;
  for (const int r : {5, 3})
    for (; m % r == 0; m /= r) found.push_back(r);
  int twos = 0;
  for (; m > 1; m /= 2) ++twos;
  while (twos > 0) {
    const int take = twos == 4 ? 2 : std::min(twos, 3);  // 16 is 4 times 4
    found.push_back(1 << take);
    twos -= take;
  }
  return found;
}

}  // namespace

std::int64_t fast_half(std::int64_t n) {
  for (std::int64_t m = std::max<std::int64_t>(n, 2);; ++m) {
    std::int64_t rest = m;
    for (const int factor : {2, 3, 5})
      while (rest % factor == 0) rest /= factor;
    if (rest == 1) return m;
  }
}

LanesAxis::LanesAxis(std::int64_t n) : n_(n), m_(fast_half(n)) {
  const auto push = [](std::vector<float>& to, double turns) {
    const double angle = -2 * std::numbers::pi * turns;
    to.push_back(static_cast<float>(std::cos(angle)));
    to.push_back(static_cast<float>(std::sin(angle)));
  };
  std::int64_t left = m_, stride = 1;
  for (const int radix : radices(m_)) {
    const std::int64_t count = left / radix;
    stages_.push_back({radix, count, stride, twiddles_.size()});
    for (std::int64_t p = 0; p < count; ++p)
      for (std::int64_t k = 1; k < radix; ++k) push(twiddles_, static_cast<double>(k * p) / static_cast<double>(left));
    left = count;
    stride *= radix;
  }
  for (std::int64_t j = 0; j < m_; ++j) push(modulation_, static_cast<double>(j) / static_cast<double>(2 * m_));
}

void lanes_fft(const LanesAxis& axis, LanesInput input, LanesOutput output, float* scratch) {
  transform_lanes(axis, input, output, scratch);
}

ECHOTRAIN_CLONES void transpose_blocks(const float* from, std::int64_t from_stride, std::int64_t row_blocks,
                                       std::int64_t column_blocks, float* to, std::int64_t to_stride) {
  for (std::int64_t i = 0; i < kBlock * row_blocks; i += kBlock)
    for (std::int64_t j = 0; j < kBlock * column_blocks; j += kBlock)
      transpose_block(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
}

}  // namespace echotrain::numerics::cpu
