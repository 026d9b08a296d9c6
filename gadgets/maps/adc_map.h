// AdcMap makes maps of the apparent diffusion coefficient.
#pragma once

#include <cstdint>
#include <string>

#include "gadgets/maps/voxel_map.h"

namespace echotrain {

/// The apparent diffusion coefficient [mm2/s] of magnitudes at several b. Images of the same b, which differ in
/// direction, become their geometric mean: of three orthogonal directions the map is that of the trace over 3. See
/// VoxelMap.
class AdcMap final : public VoxelMap {
 public:
  struct Options : MapOptions {
    bool rician = false;
    double least = 1e-5, most = 2e-2;
  };
  static constexpr std::string_view kName = "adc_map";
  static constexpr std::string_view kSummary = "The apparent diffusion coefficient of images at several b.";
  static Parameters<Options> parameters();
  /// Throws std::invalid_argument on values that are no numbers, an empty range, and a Rician mean of unknown noise.
  explicit AdcMap(Options options);

 private:
  Plan plan(const protocol::Header& header) const override;
  Options options_;
};

}  // namespace echotrain
