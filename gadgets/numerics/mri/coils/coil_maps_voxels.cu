#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/coils/coil_maps_ops.h"

namespace echotrain::numerics {

struct CombinedByMaps {
  static constexpr int kLanes[] = {256};
  static constexpr bool kClones = true;
  const cfloat *maps, *images;
  std::int64_t coils, voxels;
  bool divide;
  cfloat* out;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(Lanes<kMost> v) const {
    ComplexLanes<kMost> sums;
    float sizes[kMost];
    sums.clear(v.count);
    for (int l = 0; l < v.count; ++l) sizes[l] = 0;
    for (std::int64_t c = 0; c < coils; ++c)
      for (int l = 0; l < v.count; ++l) {
        const Complex s = load(maps + c * voxels + v.first + l);
        sums.put(l, sums.at(l) + conjugate_product(s, load(images + c * voxels + v.first + l)));
        sizes[l] += power(s);
      }
    for (int l = 0; l < v.count; ++l) {
      const float by = divide ? sizes[l] : 1.0f;
      store(by > 0 ? Complex{sums.re[l] / by, sums.im[l] / by} : Complex{0, 0}, out + v.first + l);
    }
  }
};
ECHOTRAIN_MAP(CombinedByMaps, 1)

struct Deflated {
  static constexpr int kLanes[] = {256};
  Deflation work;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(Lanes<kMost> v) const {
    float values[kMost];
    for (int l = 0; l < v.count; ++l) values[l] = 0;
    for (std::int64_t a = 0; a < work.coils; ++a)
      for (std::int64_t b = 0; b <= a; ++b) {
        const cfloat *const m = at(work.matrices, triangle_index(a, b), v), *const va = at(work.vectors, a, v),
                            *const vb = at(work.vectors, b, v);
        for (int l = 0; l < v.count; ++l) {
          // Re(conj(v_a) M_ab v_b); values that are not finite count as 0, as they do for the vectors.
          const Complex p = conjugate_product(load(va + l), load(vb + l)), value = load(m + l);
          const float part = p.re * value.re - p.im * value.im;
          if (part - part == 0) values[l] += a == b ? part : 2 * part;
        }
      }
    for (std::int64_t a = 0; a < work.coils; ++a) {
      const cfloat* const va = at(work.vectors, a, v);
      for (std::int64_t b = 0; b <= a; ++b) {
        cfloat* const m = at(work.matrices, triangle_index(a, b), v);
        const cfloat* const vb = at(work.vectors, b, v);
        for (int l = 0; l < v.count; ++l)
          store(load(m + l) - values[l] * load(va + l) * conjugate(load(vb + l)), m + l);
      }
      cfloat* const to = work.maps + a * work.stride + v.first;
      for (int l = 0; l < v.count; ++l) store(values[l] >= work.crop ? load(va + l) : Complex{0, 0}, to + l);
    }
  }
  template <class Number, int kMost>
  ECHOTRAIN_EACH Number* at(Number* arrays, std::int64_t i, Lanes<kMost> v) const {
    return arrays + i * work.voxels + v.first;
  }
};
ECHOTRAIN_MAP(Deflated, 1)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <stdexcept>

namespace echotrain::numerics {

void combine(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> images, DeviceView<cfloat> out,
             bool divide) {
  const Shape &m = maps.shape(), &i = images.shape(), &o = out.shape();
  bool good = m.rank() >= 1 && m == i && o.rank() == m.rank() && o[0] == 1;
  for (std::size_t a = 1; good && a < m.rank(); ++a) good = o[a] == m[a];
  if (!good)
    throw std::invalid_argument(
        fmt::format("combine: expected maps and images [coil, ...] and an image [1, ...], got {}, {} and {}", m.text(),
                    i.text(), o.text()));
  map(context, {out.size()}, CombinedByMaps{maps.data(), images.data(), m[0], out.size(), divide, out.data()},
      kMapGrain / 4);
}

void deflate(Context& context, const Deflation& work) {
  map(context, {work.voxels}, Deflated{work}, kMapGrain / (work.coils * work.coils));
}

}  // namespace echotrain::numerics
#endif
