// The products of off-resonance correction on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// Some of the segments, and the samples or voxels to work on.
struct SegmentJob {
  std::int64_t coils;
  std::int64_t first, count, of;  ///< segments first .. first + count - 1 of `of`
};
/// exp(2 pi i sign field_hz[r] at_s[l])
struct FieldPhases {
  const float* field_hz;
  const double* at_s;
  std::int64_t voxels;
  double sign;
};
/// weights[(first + s) mod times, l]
struct TimeWeights {
  const cfloat* weights;
  std::int64_t times, first, samples;
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// split[s, l, c] = conj(weight) samples[s, c]
void split_samples(Context& context, const SegmentJob& job, const TimeWeights& w, const cfloat* samples, cfloat* split);
/// samples[s, c] = sum_l weight split[s, l, c], added to `samples` unless the job's first segment is the first.
void join_samples(Context& context, const SegmentJob& job, const TimeWeights& w, const cfloat* split, cfloat* samples);
/// images[l, c, r] = phase image[c, r]
void spread_segments(Context& context, const SegmentJob& job, const FieldPhases& p, const cfloat* image, cfloat* images);
/// image[c, r] = sum_l phase images[l, c, r], added to `image` unless the job's first segment is the first.
void gather_segments(Context& context, const SegmentJob& job, const FieldPhases& p, const cfloat* images, cfloat* image);
)
// clang-format on

}  // namespace echotrain::numerics
