// SplitAdjoint computes F^H d exactly, on one device or several.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gadgets/numerics/core/team/team.h"
#include "gadgets/numerics/transforms/exact/direct_transform.h"

namespace echotrain::numerics {

/// DirectAdjoint whose image is computed in parts, one for each member of a team: nothing is added up between them, and
/// the result has the same bits as one device's. Without a team, or with more members than parts, this is one
/// DirectAdjoint.
class SplitAdjoint {
 public:
  /// Arguments as DirectAdjoint's; `context` is the one that the team was made for. The team must outlive this.
  SplitAdjoint(Context& context, Team* team, const Shape& image, std::int64_t coils, VoxelBasis basis,
               Precision precision);
  /// As DirectAdjoint's functions. samples and image are where `context` computes; with a team, this waits for it.
  void add(Context& context, HostView<const double> coordinates, DeviceView<const cfloat> samples,
           HostView<const float> weights);
  void get(Context& context, DeviceView<cfloat> image);
  /// Always empty with a team.
  std::optional<double> sampled_error(Context& context, DeviceView<const cfloat> image) const;

 private:
  Team* team_;
  std::vector<std::unique_ptr<DirectAdjoint>> parts_;  // one of each member
};

}  // namespace echotrain::numerics
