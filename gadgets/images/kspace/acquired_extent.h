// AcquiredExtent tells the acquired part of an image's k-space.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Converts Frame::acquired, which counts in samples of the encoded matrix, to the k-space of images, whose step is one
/// over their field of view.
class AcquiredExtent {
 public:
  struct Range {
    double first, last;  ///< the outermost samples, in steps from the centre
    double points;       ///< steps that the encoded matrix takes: fewer than the image has where it is interpolated
  };

  AcquiredExtent() = default;
  explicit AcquiredExtent(const protocol::Header& header);
  /// The ranges of z, y, x. No value for axes of one sample, and where the frame does not tell.
  std::array<std::optional<Range>, 3> of(const Frame& frame) const;

 private:
  FieldsOfView fields_of_view_;
  std::vector<std::array<double, 3>> voxel_mm_;       // encoded: x, y, z, per encoding
  std::vector<std::array<std::uint32_t, 3>> matrix_;  // encoded: x, y, z, per encoding
};

}  // namespace echotrain
