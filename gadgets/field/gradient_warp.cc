#include "gadgets/field/gradient_warp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "gadgets/field/gradient_coefficients.h"
#include "gadgets/numerics/mri/field/unwarp.h"
#include "gadgets/numerics/mri/field/warp.h"
#include "gadgets/shared/incoming/meta_notes.h"
#include "gadgets/shared/right_angles.h"
#include "protocol/data/patient_position.h"

namespace echotrain {
namespace {

bool is_text_name(const std::string& name) {
  return SideImages::is_file_name(name) &&
         (name.ends_with(".grad") || name.ends_with(".coef") || name.ends_with(".gradients"));
}

/// True if an image's attributes say that its gradients' nonlinearity was corrected: Siemens' DIS2D and DIS3D.
bool says_done(const Frame& frame) {
  for (const char* name : {"ImageType", "ImageTypeValue3", "ImageTypeValue4", "ImageProcessingHistory"})
    if (const auto note = frame.notes.find(name); note != frame.notes.end())
      for (const std::string_view word : {"DIS2D", "DIS3D"})
        if (note->second.find(word) != std::string::npos) return true;
  const auto ours = frame.notes.find("gradient_unwarp");
  return ours != frame.notes.end() && ours->second != "none";
}

}  // namespace

GradientWarp::GradientWarp(GradientWarpOptions options) : options_(std::move(options)) {
  if (!options_.coefficients.empty() && !is_text_name(options_.coefficients))
    throw std::invalid_argument(
        "coefficients is the name of a file of the server's assets that ends in .grad, .coef or .gradients, not a "
        "path");
}

void GradientWarp::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  fields_of_view_ = FieldsOfView(header);
  const std::string done = protocol::user_parameter(header.xml, "gradient_unwarp");
  done_by_sender_ = !done.empty() && done != "0" && done != "none";
  scan.side_images.want(kGradientRole, options_.coefficients);
  if (!options_.coefficients.empty()) read();
  const auto axes = protocol::device_axes(header.xml);
  if (!axes && !done_by_sender_)
    scan.warn(
        "gradient_unwarp: the header has no patientPosition; the patient is taken to lie on the back, head first "
        "(HFS)");
  device_ = axes.value_or(std::array<Vector, 3>{{{1, 0, 0}, {0, -1, 0}, {0, 0, -1}}});
}

void GradientWarp::read() {
  const HostArray<cfloat> pixels = scan_->compute.download<cfloat>(scan_->side_images.find(kGradientRole, 0).view());
  std::string text;
  for (std::int64_t i = 0; i < pixels.size(); ++i) {
    const float byte = pixels.data()[i].real();
    if (!(byte >= 1 && byte < 256))
      throw ClientError(
          "gradient_unwarp: the image of role gradient_coefficients is no text, whose bytes are its pixels");
    text.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  }
  try {
    field_.emplace(read_gradient_coefficients(text, options_.radius_mm));
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("gradient_unwarp: {}", error.what()));
  }
}

/// A word for images that are left as they are, or null.
const char* GradientWarp::reason_to_leave(const Frame& frame) const {
  if (done_by_sender_ || says_done(frame)) {
    scan_->info("gradient_unwarp: the sender says that it was done already; images stay as they are");
    return "by the sender";
  }
  const protocol::AcquisitionHeader& head = frame.reference;
  if (right_angles({read_direction(head), phase_direction(head), slice_direction(head)})) return nullptr;
  scan_->warn(
      "gradient_unwarp: read_dir, phase_dir and slice_dir are no directions at right angles, so that the place of "
      "images "
      "in the scanner is not known; they stay as they are");
  return "none";
}

/// The places of voxels from the isocentre, in the device's axes.
numerics::VoxelPlaces GradientWarp::places_of(const Frame& frame, const numerics::Shape& image) const {
  const protocol::AcquisitionHeader& head = frame.reference;
  const std::array<Vector, 3> axes{read_direction(head), phase_direction(head), slice_direction(head)};
  const std::array<float, 3> fov = fields_of_view_.of(frame);
  Vector centre = position_of(head);
  const Vector table{head.patient_table_position[0], head.patient_table_position[1], head.patient_table_position[2]};
  if (dot(table, table) > 0 && options_.table_position == "ignored")
    scan_->info(
        "gradient_unwarp: readouts name a position of the table, and positions are taken as counted from the "
        "isocentre; "
        "see table_position where they are not");
  const double sign = options_.table_position == "added" ? 1 : options_.table_position == "subtracted" ? -1 : 0;
  for (std::size_t c = 0; c < 3; ++c) centre[c] += sign * table[c];
  numerics::VoxelPlaces out;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t n = image[2 - a];
    const double voxel = static_cast<double>(fov[a]) / static_cast<double>(n);
    for (std::size_t c = 0; c < 3; ++c) {
      out.step[a][c] = voxel * dot(device_[c], axes[a]);
      out.first[c] -= static_cast<double>(n / 2) * out.step[a][c];
    }
  }
  for (std::size_t c = 0; c < 3; ++c) out.first[c] += dot(device_[c], centre);
  return out;
}

/// The largest displacements, of what moves and of what stays across a single plane. Harmonics are largest at borders;
/// a lattice of places there tells them.
void GradientWarp::measure(Map& map) const {
  constexpr int kPlaces = 16;
  for (int place = 0; place < (kPlaces + 1) * (kPlaces + 1) * (kPlaces + 1); ++place) {
    const std::array<int, 3> at{place % (kPlaces + 1), place / (kPlaces + 1) % (kPlaces + 1),
                                place / (kPlaces + 1) / (kPlaces + 1)};
    const bool plane = map.image[0] == 1;
    if (plane ? at[2] > 0 : std::none_of(at.begin(), at.end(), [](int i) { return i == 0 || i == kPlaces; })) continue;
    Vector mm = map.places.first;
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t c = 0; c < 3; ++c)
        mm[c] +=
            static_cast<double>(at[a]) / kPlaces * static_cast<double>(map.image[2 - a] - 1) * map.places.step[a][c];
    const auto values = field_->at(mm);
    const Vector moved{values[0], values[1], values[2]};
    const Vector& z = map.places.step[2];
    const double across = plane ? dot(moved, z) / std::sqrt(dot(z, z)) : 0;
    map.across_mm = std::max(map.across_mm, std::abs(across));
    map.largest_mm = std::max(map.largest_mm, std::sqrt(std::max(0.0, dot(moved, moved) - across * across)));
  }
}

const GradientWarp::Map& GradientWarp::map_of(const numerics::VoxelPlaces& places, const numerics::Shape& image,
                                              const Array<float>* shift, bool modulate, bool modulate_shift) {
  const std::shared_ptr<void> made_with = shift != nullptr ? shift->memory() : nullptr;
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Map& each) {
    return each.places.first == places.first && each.places.step == places.step && each.image == image &&
           each.shift == made_with && each.modulate == modulate && each.modulate_shift == modulate_shift;
  });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  // A volume's map is twice its image; those of a series' slices are all kept.
  constexpr std::size_t kMostKept = 256;
  constexpr std::int64_t kMostVoxels = std::int64_t{1} << 24;
  std::int64_t voxels = image.size();
  std::size_t count = 1;
  for (auto each = kept_.begin(); each != kept_.end(); ++count) {
    voxels += each->image.size();
    each = voxels > kMostVoxels || count >= kMostKept ? kept_.erase(each) : std::next(each);
  }
  Map map{places,
          image,
          made_with,
          modulate,
          modulate_shift,
          scan_->compute.allocate<float>({4, image[0], image[1], image[2]}),
          0,
          0};
  const numerics::LineShift by{shift != nullptr ? shift->cview() : numerics::DeviceView<const float>(), modulate_shift};
  numerics::gradient_map(scan_->compute, *field_, places, modulate, by, map.voxels.view());
  measure(map);
  kept_.push_front(std::move(map));
  return kept_.front();
}

CoilImages GradientWarp::unwarped(CoilImages&& images, const Array<float>* shift, bool modulate_shift) {
  const Frame& frame = *images.frame;
  const numerics::Shape& n = images.data.shape();
  const bool scaled = !has_own_unit(frame);
  if (const char* reason = reason_to_leave(frame)) {
    std::shared_ptr<const Frame> noted = with_notes(frame, {{"gradient_unwarp", reason}});
    if (shift == nullptr) return {noted, std::move(images.data)};
    Array<cfloat> moved = scan_->compute.allocate<cfloat>(n);
    numerics::unwarp(scan_->compute, images.data.view(), shift->cview(), modulate_shift && scaled, moved.view());
    return {noted, std::move(moved)};
  }
  if (!field_) read();
  const numerics::Shape image{n[1], n[2], n[3]};
  const Map& map = map_of(places_of(frame, image), image, shift, options_.modulate && scaled, modulate_shift && scaled);
  Array<cfloat> out = scan_->compute.allocate<cfloat>(n);
  const auto planes = frame.notes.contains("slices") ? numerics::PlaneTaps::linear : numerics::PlaneTaps::sinc;
  numerics::warp(scan_->compute, images.data.view(), map.voxels.cview(), planes, out.view());
  std::map<std::string, std::string> notes{{"gradient_unwarp", image[0] == 1 ? "2D" : "3D"},
                                           {"gradient_unwarp_mm", fmt::format("{:.2f}", map.largest_mm)}};
  if (image[0] == 1) notes["gradient_unwarp_across_mm"] = fmt::format("{:.2f}", map.across_mm);
  return {with_notes(frame, notes), std::move(out)};
}

}  // namespace echotrain
