// Delay and sum is the beamformer that f-k migration is measured against.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::bench {

/// A linear array, its traces of one plane wave sent straight ahead, and the voxels wanted. Lengths in mm, times in s.
struct DasSetting {
  std::int64_t elements = 0, samples = 0;
  double pitch = 0, sampling = 0, center = 0, sound = 0, first_sample = 0;
  std::vector<double> x, z;  ///< of columns and rows
};

/// Every voxel is the mean over the elements of their analytic signals at the time when the voxel's echo arrives there.
/// Traces are demodulated by Fourier transforms and interpolated linearly between samples; where and with which phase
/// each element is read is worked out beforehand, for every voxel. Runs on all threads of the context.
class DelayAndSum {
 public:
  DelayAndSum(numerics::Context& context, DasSetting setting);
  /// traces: RF, [element, sample]; image: [z, x].
  void image(numerics::HostView<const numerics::cfloat> traces, numerics::HostView<numerics::cfloat> image);

 private:
  void demodulate(numerics::HostView<const numerics::cfloat> traces);

  numerics::Context& context_;
  DasSetting setting_;
  std::int64_t bins_ = 0;
  struct Read {
    std::int32_t sample;
    float behind;  ///< share of the next sample
    float re, im;  ///< phase
  };
  std::vector<Read> reads_;  // [z, element, x]
  numerics::Array<numerics::cfloat> baseband_;
};

/// The same on the context's GPU, from traces on the host to an image there; delays and phases are worked out for each
/// voxel and element as they are needed, in fp32, which costs a GPU less than reading them. Built with CUDA only.
class GpuDelayAndSum {
 public:
  GpuDelayAndSum(numerics::Context& context, const DasSetting& setting);
  /// traces: RF, [element, sample]; image: [z, x].
  void image(numerics::HostView<const numerics::cfloat> traces, numerics::HostView<numerics::cfloat> image);

 private:
  numerics::Context& context_;
  std::int64_t elements_, samples_, bins_;
  std::int64_t zone_, shift_;                              ///< the first bin that is kept, and how far it moves
  float first_, per_mm_, cycles_, pitch_;                  ///< in samples, samples per mm, cycles per sample, mm
  numerics::HostArray<numerics::cfloat> sent_, received_;  ///< pinned
  numerics::Array<numerics::cfloat> traces_, spectra_, baseband_, image_;
  numerics::Array<float> x_, z_;
};

}  // namespace echotrain::bench
