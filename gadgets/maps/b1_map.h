// B1Map makes maps of the transmit field.
#pragma once

#include <cstdint>
#include <string>

#include "gadgets/maps/voxel_map.h"

namespace echotrain {

/// The transmit field over its nominal value, of images at two or more flip angles after full relaxation, whose signal
/// is proportional to the sine: with a and 2 a the double-angle method (Insko & Bolinger, J. Magn. Reson. A 103, 1993).
/// Complex images tell more: magnitudes do not say whether the larger angle is beyond 180 degrees. See VoxelMap.
class B1Map final : public VoxelMap {
 public:
  struct Options : MapOptions {
    double least = 0.2, most = 0;
  };
  static constexpr std::string_view kName = "b1_map";
  static constexpr std::string_view kSummary = "The transmit field over its nominal value, by two flip angles.";
  static Parameters<Options> parameters();
  /// Throws std::invalid_argument on values that are no numbers, and an empty range.
  explicit B1Map(Options options);

 private:
  Plan plan(const protocol::Header& header) const override;
  Options options_;
};

}  // namespace echotrain
