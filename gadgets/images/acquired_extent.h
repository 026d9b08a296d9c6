// Which part of an image's k-space was acquired.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Brings Frame::acquired, which counts in samples of the encoded matrix, to the k-space of images, whose step is one
/// over their field of view.
class AcquiredExtent {
 public:
  struct Range {
    double first, last;  ///< the outermost samples, in steps from the centre
  };

  AcquiredExtent() = default;
  explicit AcquiredExtent(const protocol::Header& header);
  /// Of z, y, x. Nothing for axes of one sample, and where the frame does not say.
  std::array<std::optional<Range>, 3> of(const Frame& frame) const;

 private:
  FieldsOfView fields_of_view_;
  std::vector<std::array<double, 3>> voxel_mm_;       // encoded: x, y, z, per encoding
  std::vector<std::array<std::uint32_t, 3>> matrix_;  // the same
};

}  // namespace echotrain
