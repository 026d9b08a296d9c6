// Complex arithmetic on the device's float2.
#pragma once

#include <cuda_runtime.h>

namespace echotrain::numerics::cuda {

__device__ inline float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ inline float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ inline float2 operator*(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ inline float2 operator*(float a, float2 b) { return make_float2(a * b.x, a * b.y); }
__device__ inline float2 conjugate(float2 a) { return make_float2(a.x, -a.y); }

}  // namespace echotrain::numerics::cuda
