#include <algorithm>
#include <cmath>
#include <numbers>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/transforms/off_resonance/off_resonance_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  // products per piece
constexpr std::int64_t kVoxels = 256;       // voxels whose phases are kept for all coils

const float* floats(const cfloat* values) { return reinterpret_cast<const float*>(values); }
float* floats(cfloat* values) { return reinterpret_cast<float*>(values); }

/// to = to + a b or a b, of one number a and n numbers b.
ECHOTRAIN_CLONES void scale_numbers(cfloat a, const float* b, float* to, std::int64_t n, bool add) {
  const float are = a.real(), aim = a.imag();
  for (std::int64_t i = 0; i < n; ++i) {
    const float re = are * b[2 * i] - aim * b[2 * i + 1], im = are * b[2 * i + 1] + aim * b[2 * i];
    to[2 * i] = add ? to[2 * i] + re : re;
    to[2 * i + 1] = add ? to[2 * i + 1] + im : im;
  }
}

/// to = to + a b or a b, of n numbers each.
ECHOTRAIN_CLONES void multiply_numbers(const float* a, const float* b, float* to, std::int64_t n, bool add) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float re = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1],
                im = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
    to[2 * i] = add ? to[2 * i] + re : re;
    to[2 * i + 1] = add ? to[2 * i + 1] + im : im;
  }
}

/// Calls work(segment, first voxel, voxels, phases) for all voxels and the job's segments; for one voxel, in the
/// segments' order.
template <class Work>
void for_phases(Context& context, const SegmentJob& job, const FieldPhases& p, const Work& work) {
  const std::int64_t blocks = (p.voxels + kVoxels - 1) / kVoxels;
  context.threads().parallel_for(
      blocks, kGrain / (kVoxels * job.coils * job.count) + 1, [&](std::int64_t begin, std::int64_t end) {
        cfloat phases[kVoxels];
        for (std::int64_t block = begin; block < end; ++block) {
          const std::int64_t first = block * kVoxels, n = std::min(kVoxels, p.voxels - first);
          for (std::int64_t l = 0; l < job.count; ++l) {
            const double at = p.sign * p.at_s[job.first + l];
            for (std::int64_t i = 0; i < n; ++i) {
              const double cycles = static_cast<double>(p.field_hz[first + i]) * at;
              const auto angle = static_cast<float>(2 * std::numbers::pi * (cycles - std::nearbyint(cycles)));
              phases[i] = {std::cos(angle), std::sin(angle)};
            }
            work(l, first, n, floats(phases));
          }
        }
      });
}

}  // namespace

void split_samples(Context& context, const SegmentJob& job, const TimeWeights& w, const cfloat* samples,
                   cfloat* split) {
  const std::int64_t row = job.count * job.coils;
  context.threads().parallel_for(w.samples, kGrain / row + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s)
      for (std::int64_t l = 0; l < job.count; ++l)
        scale_numbers(std::conj(w.weights[(w.first + s) % w.times * job.of + job.first + l]),
                      floats(samples + s * job.coils), floats(split + s * row + l * job.coils), job.coils, false);
  });
}

void join_samples(Context& context, const SegmentJob& job, const TimeWeights& w, const cfloat* split, cfloat* samples) {
  const std::int64_t row = job.count * job.coils;
  context.threads().parallel_for(w.samples, kGrain / row + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s)
      for (std::int64_t l = 0; l < job.count; ++l)
        scale_numbers(w.weights[(w.first + s) % w.times * job.of + job.first + l],
                      floats(split + s * row + l * job.coils), floats(samples + s * job.coils), job.coils,
                      job.first + l > 0);
  });
}

void spread_segments(Context& context, const SegmentJob& job, const FieldPhases& p, const cfloat* image,
                     cfloat* images) {
  for_phases(context, job, p, [&](std::int64_t l, std::int64_t first, std::int64_t n, const float* phases) {
    for (std::int64_t c = 0; c < job.coils; ++c)
      multiply_numbers(phases, floats(image + c * p.voxels + first),
                       floats(images + (l * job.coils + c) * p.voxels + first), n, false);
  });
}

void gather_segments(Context& context, const SegmentJob& job, const FieldPhases& p, const cfloat* images,
                     cfloat* image) {
  for_phases(context, job, p, [&](std::int64_t l, std::int64_t first, std::int64_t n, const float* phases) {
    for (std::int64_t c = 0; c < job.coils; ++c)
      multiply_numbers(phases, floats(images + (l * job.coils + c) * p.voxels + first),
                       floats(image + c * p.voxels + first), n, job.first + l > 0);
  });
}

}  // namespace echotrain::numerics::cpu
