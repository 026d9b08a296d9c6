// DensityWeights computes positions of samples, and their density compensation, by the methods of
// `density_compensation`.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/gridding/density_options.h"
#include "gadgets/gridding/sample_space.h"

namespace echotrain {

/// The volume of the disc or ball that the samples reach. coordinates: [sample, dims].
double support_volume(const std::vector<double>& coordinates, int dims);

/// Sample positions and weights of some readouts.
struct WeightedSamples {
  std::shared_ptr<SamplePositions> positions;
  std::int64_t dropped = 0;  // number of samples
  double largest = 0;        // largest component of a position, in the data's unit
};

/// The density compensation of a scan. Source of the methods: see gadgets/numerics/mri/density/.
class DensityWeights {
 public:
  explicit DensityWeights(DensityOptions options) : options_(std::move(options)) {}
  void start(Scan& scan) { scan_ = &scan; }
  /// Computes positions and weights of a frame's readouts: `raw` is [sample, component], as it came.
  WeightedSamples weigh(numerics::HostView<const float> raw, std::int64_t per_readout, const Frame& frame,
                        const SampleSpace& space);

 private:
  std::vector<float> computed_weights(numerics::HostView<const double> coordinates, const std::vector<bool>& unusable,
                                      const Frame& frame, const SampleSpace& space);
  const std::vector<float>& spoke_weights(numerics::HostView<const double> coordinates, double k_max);

  DensityOptions options_;
  Scan* scan_ = nullptr;

  // A readout's distances from the centre, and its weights.
  std::vector<double> template_radii_;
  std::vector<float> template_weights_;
};

}  // namespace echotrain
