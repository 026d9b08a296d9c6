// T2Map makes maps of T2.
#pragma once

#include <cstdint>
#include <string>

#include "gadgets/maps/voxel_map.h"

namespace echotrain {

/// T2 [ms] of spin echoes, or of images after a T2 preparation of several durations, by the magnitudes. With `offset`
/// the signal does not decay to nothing. See VoxelMap.
class T2Map final : public VoxelMap {
 public:
  struct Options : MapOptions {
    std::string method = "echoes";
    bool offset = false;
    bool rician = false;
    double least_ms = 1, most_ms = 2000;
  };
  static constexpr std::string_view kName = "t2_map";
  static constexpr std::string_view kSummary = "T2 of spin echoes, or of images after T2 preparations.";
  static Parameters<Options> parameters();
  /// Throws std::invalid_argument on values that are no numbers, an empty range, and a Rician mean of unknown noise.
  explicit T2Map(Options options);

 private:
  Plan plan(const protocol::Header& header) const override;
  Options options_;
};

}  // namespace echotrain
