// T1Map makes maps of T1.
#pragma once

#include <cstdint>
#include <string>

#include "gadgets/maps/voxel_map.h"

namespace echotrain {

/// T1 [ms] of images at several times after an inversion or a saturation. Methods: inversion (three parameters: any
/// inversion, Barral et al., MRM 64, 2010), inversion_2 (two: an ideal one, with `period_ms`), look_locker (MOLLI: T1
/// of the apparent T1*, Messroghli et al., MRM 52, 2004), saturation and saturation_2 (SASHA, Chow et al., MRM 71,
/// 2014; a time of 0 is an image without saturation). Of magnitudes after an inversion, all places at which the signal
/// may change its sign are tried. See VoxelMap.
class T1Map final : public VoxelMap {
 public:
  struct Options : MapOptions {
    std::string method = "inversion";
    std::string signal = "auto";
    double period_ms = 0;
    double least_ms = 20, most_ms = 6000;
  };
  static constexpr std::string_view kName = "t1_map";
  static constexpr std::string_view kSummary = "T1 of images at several times after inversion or saturation.";
  static Parameters<Options> parameters();
  /// Throws std::invalid_argument on values that are no numbers, and an empty range.
  explicit T1Map(Options options);

 private:
  Plan plan(const protocol::Header& header) const override;
  Options options_;
};

}  // namespace echotrain
