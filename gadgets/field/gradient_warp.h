// A GradientWarp takes out of images what nonlinear gradients did to them, together with a shift along y.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/mri/field/gradient_field.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

inline constexpr const char* kGradientRole = "gradient_coefficients";

struct GradientWarpOptions {
  std::string coefficients;
  double radius_mm = 0;
  std::string table_position = "ignored";
  bool modulate = true;
};

/// The warp of a scan's images by its gradients' coefficients; gradient_unwarp.h says what it does. Maps are made once
/// for each place of an image, and kept.
class GradientWarp {
 public:
  /// Throws std::invalid_argument for names that are none of such a file.
  explicit GradientWarp(GradientWarpOptions options);
  /// Asks for the coefficients. Throws ClientError where a file cannot be read.
  void start(const protocol::Header& header, Scan& scan);
  /// Images in their place, interpolated once. `shift`: of echo-planar images; those that the gradients' warp leaves as
  /// they are, are still moved by it (numerics::unwarp). Null: there is none.
  CoilImages unwarped(CoilImages&& images, const Array<float>* shift, bool modulate_shift);

 private:
  struct Map {
    numerics::VoxelPlaces places;
    numerics::Shape image;        // [z, y, x]
    std::shared_ptr<void> shift;  // the shift that it was made with
    bool modulate, modulate_shift;
    Array<float> voxels;  // as gradient_map() makes it
    double largest_mm, across_mm;
  };
  const char* reason_to_leave(const Frame& frame) const;
  numerics::VoxelPlaces places_of(const Frame& frame, const numerics::Shape& image) const;
  const Map& map_of(const numerics::VoxelPlaces& places, const numerics::Shape& image, const Array<float>* shift,
                    bool modulate, bool modulate_shift);
  void measure(Map& map) const;
  void read();

  GradientWarpOptions options_;
  Scan* scan_ = nullptr;
  FieldsOfView fields_of_view_;
  bool done_by_sender_ = false;
  std::array<Vector, 3> device_{};  // its axes in the patient's coordinates
  std::optional<numerics::GradientField> field_;
  std::list<Map> kept_;  // most recent first, bounded
};

}  // namespace echotrain
