// T2StarMap makes maps of T2* and of the field.
#pragma once

#include <cstdint>
#include <string>

#include "gadgets/maps/voxel_map.h"

namespace echotrain {

/// T2* [ms] of gradient echoes; of complex images also the field [Hz], positive where the phase grows with the echo
/// time, within half a turn between the closest echoes. The field's map has the meta attribute role: field_map, by
/// which distortion_correction and off_resonance know it when a client sends it. See VoxelMap.
class T2StarMap final : public VoxelMap {
 public:
  struct Options : MapOptions {
    std::string signal = "complex";
    bool rician = false;
    double least_ms = 0.5, most_ms = 500;
  };
  static constexpr std::string_view kName = "t2star_map";
  static constexpr std::string_view kSummary = "T2* of gradient echoes, and by their phase the field.";
  static Parameters<Options> parameters();
  /// Throws std::invalid_argument on values that are no numbers, an empty range, and a Rician mean of unknown noise or
  /// of complex images.
  explicit T2StarMap(Options options);

 private:
  Plan plan(const protocol::Header& header) const override;
  Options options_;
};

}  // namespace echotrain
