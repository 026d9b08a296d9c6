#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/off_resonance/off_resonance_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kCoils = 4;  // coils that share a voxel's phase

__device__ inline float2 phase_of(const FieldPhases& p, std::int64_t segment, std::int64_t voxel) {
  const double cycles = p.sign * p.at_s[segment] * static_cast<double>(p.field_hz[voxel]);
  float2 phase;
  sincospif(2.0f * static_cast<float>(cycles - rint(cycles)), &phase.y, &phase.x);
  return phase;
}

__device__ inline float2 weight_of(const SegmentJob& job, const TimeWeights& w, std::int64_t sample,
                                   std::int64_t segment) {
  const float* at =
      reinterpret_cast<const float*>(w.weights + (w.first + sample) % w.times * job.of + job.first + segment);
  return make_float2(at[0], at[1]);
}

/// One thread per number of the split samples.
__global__ void split_kernel(SegmentJob job, TimeWeights w, const float2* samples, float2* split) {
  const std::int64_t row = job.count * job.coils;
  ECHOTRAIN_GRID_STRIDE(at, w.samples * row) {
    const std::int64_t s = at / row, l = at % row / job.coils, c = at % job.coils;
    split[at] = conjugate(weight_of(job, w, s, l)) * samples[s * job.coils + c];
  }
}

/// One thread per sample of a coil.
__global__ void join_kernel(SegmentJob job, TimeWeights w, const float2* split, float2* samples) {
  ECHOTRAIN_GRID_STRIDE(at, w.samples * job.coils) {
    const std::int64_t s = at / job.coils, c = at % job.coils;
    float2 sum = job.first > 0 ? samples[at] : make_float2(0.0f, 0.0f);
    for (std::int64_t l = 0; l < job.count; ++l)
      sum = sum + weight_of(job, w, s, l) * split[(s * job.count + l) * job.coils + c];
    samples[at] = sum;
  }
}

/// One thread per voxel of a segment and some coils.
__global__ void spread_kernel(SegmentJob job, FieldPhases p, const float2* image, float2* images) {
  const std::int64_t groups = (job.coils + kCoils - 1) / kCoils;
  ECHOTRAIN_GRID_STRIDE(at, job.count * groups * p.voxels) {
    const std::int64_t v = at % p.voxels, c = at / p.voxels % groups * kCoils, l = at / p.voxels / groups;
    const float2 phase = phase_of(p, job.first + l, v);
    const std::int64_t n = min(static_cast<std::int64_t>(kCoils), job.coils - c);
    for (std::int64_t i = 0; i < n; ++i)
      images[(l * job.coils + c + i) * p.voxels + v] = phase * image[(c + i) * p.voxels + v];
  }
}

/// One thread per voxel of some coils.
__global__ void gather_kernel(SegmentJob job, FieldPhases p, const float2* images, float2* image) {
  const std::int64_t groups = (job.coils + kCoils - 1) / kCoils;
  ECHOTRAIN_GRID_STRIDE(at, groups * p.voxels) {
    const std::int64_t v = at % p.voxels, c = at / p.voxels * kCoils;
    float2 sums[kCoils];
#pragma unroll
    for (int i = 0; i < kCoils; ++i)
      sums[i] = job.first > 0 && c + i < job.coils ? image[(c + i) * p.voxels + v] : make_float2(0.0f, 0.0f);
    for (std::int64_t l = 0; l < job.count; ++l) {
      const float2 phase = phase_of(p, job.first + l, v);
#pragma unroll
      for (int i = 0; i < kCoils; ++i)
        if (c + i < job.coils) sums[i] = sums[i] + phase * images[(l * job.coils + c + i) * p.voxels + v];
    }
#pragma unroll
    for (int i = 0; i < kCoils; ++i)
      if (c + i < job.coils) image[(c + i) * p.voxels + v] = sums[i];
  }
}

std::int64_t groups_of(std::int64_t coils) { return (coils + kCoils - 1) / kCoils; }

}  // namespace

void split_samples(Context& context, const SegmentJob& job, const TimeWeights& w, const cfloat* samples,
                   cfloat* split) {
  split_kernel<<<blocks_for(w.samples * job.count * job.coils), kThreads, 0, stream_of(context)>>>(
      job, w, device_view(samples), device_view(split));
  check_launch("split_samples");
}

void join_samples(Context& context, const SegmentJob& job, const TimeWeights& w, const cfloat* split, cfloat* samples) {
  join_kernel<<<blocks_for(w.samples * job.coils), kThreads, 0, stream_of(context)>>>(job, w, device_view(split),
                                                                                      device_view(samples));
  check_launch("join_samples");
}

void spread_segments(Context& context, const SegmentJob& job, const FieldPhases& p, const cfloat* image,
                     cfloat* images) {
  spread_kernel<<<blocks_for(job.count * groups_of(job.coils) * p.voxels), kThreads, 0, stream_of(context)>>>(
      job, p, device_view(image), device_view(images));
  check_launch("spread_segments");
}

void gather_segments(Context& context, const SegmentJob& job, const FieldPhases& p, const cfloat* images,
                     cfloat* image) {
  gather_kernel<<<blocks_for(groups_of(job.coils) * p.voxels), kThreads, 0, stream_of(context)>>>(
      job, p, device_view(images), device_view(image));
  check_launch("gather_segments");
}

}  // namespace echotrain::numerics::cuda
