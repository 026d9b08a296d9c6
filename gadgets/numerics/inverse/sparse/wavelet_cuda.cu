#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/inverse/sparse/wavelet_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// The place of an element of a box in its image.
struct BoxPlace {
  std::int64_t item, at[3];  // the item's first element; z, y, x
  __device__ BoxPlace(std::int64_t i, const std::int64_t* n, const std::int64_t* box)
      : item(i / (box[0] * box[1] * box[2]) * n[0] * n[1] * n[2]),
        at{i / (box[1] * box[2]) % box[0], i / box[2] % box[1], i % box[2]} {}
};

/// Extents as kernels read them.
struct BoxExtents {
  std::int64_t n[3], box[3];
};
BoxExtents extents_of(const Extents& n, const Extents& box) { return {{n[0], n[1], n[2]}, {box[0], box[1], box[2]}}; }

/// One thread per element of the box's result. taps: one for each place along the axis.
__global__ void wavelet_kernel(WaveletPass pass, BoxExtents e, const float2* from, float2* to) {
  const std::int64_t stride[3] = {e.n[1] * e.n[2], e.n[2], 1};
  ECHOTRAIN_GRID_STRIDE(i, pass.items * e.box[0] * e.box[1] * e.box[2]) {
    const BoxPlace place(i, e.n, e.box);
    std::int64_t line = place.item;
    for (int a = 0; a < 3; ++a)
      if (a != pass.axis) line += place.at[a] * stride[a];
    const std::int64_t step = stride[pass.axis];
    const WaveletTaps taps = pass.taps(place.at[pass.axis]);
    float2 sum = make_float2(0.0f, 0.0f);
    for (int k = 0; k < 4; ++k) sum = sum + taps.weight[k] * from[line + taps.at[k] * step];
    to[line + place.at[pass.axis] * step] = sum;
  }
}

__global__ void copy_box_kernel(std::int64_t items, BoxExtents e, const float2* from, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, items * e.box[0] * e.box[1] * e.box[2]) {
    const BoxPlace place(i, e.n, e.box);
    const std::int64_t at = place.item + (place.at[0] * e.n[1] + place.at[1]) * e.n[2] + place.at[2];
    to[at] = from[at];
  }
}

__global__ void copy_corner_kernel(std::int64_t items, BoxExtents e, const float2* from, float2* to) {
  const std::int64_t *n = e.n, *m = e.box;
  ECHOTRAIN_GRID_STRIDE(i, items * m[0] * m[1] * m[2]) {
    const std::int64_t x = i % m[2], y = i / m[2] % m[1], z = i / (m[1] * m[2]) % m[0];
    const bool inside = x < n[2] && y < n[1] && z < n[0];
    to[i] = inside ? from[((i / (m[0] * m[1] * m[2]) * n[0] + z) * n[1] + y) * n[2] + x] : make_float2(0.0f, 0.0f);
  }
}

}  // namespace

void wavelet_pass(Context& context, const WaveletPass& pass, const cfloat* from, cfloat* to) {
  wavelet_kernel<<<blocks_for(pass.items * volume(pass.box)), kThreads, 0, stream_of(context)>>>(
      pass, extents_of(pass.n, pass.box), device_view(from), device_view(to));
  check_launch("wavelet_pass");
}

void copy_box(Context& context, std::int64_t items, const Extents& n, const Extents& box, const cfloat* from,
              cfloat* to) {
  copy_box_kernel<<<blocks_for(items * volume(box)), kThreads, 0, stream_of(context)>>>(
      items, extents_of(n, box), device_view(from), device_view(to));
  check_launch("copy_box");
}

void copy_corner(Context& context, std::int64_t items, const Extents& n, const Extents& m, const cfloat* from,
                 cfloat* to) {
  copy_corner_kernel<<<blocks_for(items * volume(m)), kThreads, 0, stream_of(context)>>>(
      items, extents_of(n, m), device_view(from), device_view(to));
  check_launch("copy_corner");
}

}  // namespace echotrain::numerics::cuda
