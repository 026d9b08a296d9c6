#include "gadgets/field/distortion_correction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/mri/field/unwarp.h"
#include "gadgets/shared/incoming/meta_notes.h"
#include "gadgets/shared/scan_field_map.h"

namespace echotrain {

Parameters<DistortionCorrection::Options> DistortionCorrection::parameters() {
  return Parameters<Options>()
      .text("file", &Options::file,
            "a file of the server's assets with field maps in Hz, as in off_resonance. Empty: the client sends them, "
            "or a "
            "branch makes them, as images of role field_map")
      .number(
          "line_interval_us", &Options::line_interval_us, 0.1, 1e5,
          "time between rows of k-space that are next to each other: the echo spacing over the acceleration, and over "
          "the shots where these interleave")
      .unit("us")
      .choice("order", &Options::order, {"ascending", "descending"},
              "of the rows of k-space in time: encoding step 1 rises (blip up) or falls (blip down)")
      .flag("modulate", &Options::modulate, "true: brightness is that of the object; false: only places are corrected");
}

DistortionCorrection::DistortionCorrection(Options options) : options_(std::move(options)) {
  if (!(options_.line_interval_us > 0))
    throw std::invalid_argument("line_interval_us is needed: no header tells the time between rows of k-space");
  if (!options_.file.empty() && !SideImages::is_file_name(options_.file))
    throw std::invalid_argument("file is the name of a file of the server's assets, not a path");
}

DistortionCorrection::DistortionCorrection(Options options, GradientWarpOptions gradients)
    : DistortionCorrection(std::move(options)) {
  gradients_.emplace(std::move(gradients));
}

void DistortionCorrection::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  scan.side_images.want(kFieldMapRole, options_.file);
  encodings_ = header.encodings;
  fields_of_view_ = FieldsOfView(header);
  if (gradients_) gradients_->start(header, scan);
}

/// The number of voxels, in an image of so many rows, by which a field of 1 Hz moves the signal.
double DistortionCorrection::voxels_per_hz(const Frame& frame, std::int64_t rows) const {
  // A row of k-space is a cycle over the encoded field of view, which is `rows` voxels over the image's.
  double encoded = static_cast<double>(rows);
  if (frame.source == nullptr && frame.key.encoding < encodings_.size())
    encoded *= encodings_[frame.key.encoding].encoded.fov_mm[1] / static_cast<double>(fields_of_view_.of(frame)[1]);
  return (options_.order == "ascending" ? -1e-6 : 1e-6) * options_.line_interval_us * encoded;
}

const DistortionCorrection::Shifts& DistortionCorrection::shifts_of(const Frame& frame, const numerics::Shape& image) {
  const std::uint16_t slice = frame.key.slice;
  const double scale = voxels_per_hz(frame, image[1]);
  const std::shared_ptr<void> map = scan_->side_images.find(kFieldMapRole, slice).memory();
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Shifts& each) {
    return each.slice == slice && each.map == map && each.voxels_per_hz == scale && each.shift.shape() == image;
  });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  kept_.remove_if([&](const Shifts& each) { return each.slice == slice && each.map != map; });  // the map was replaced
                                                                                                // since
  HostArray<float> shift = field_map_of(*scan_, slice, image);
  const auto most = static_cast<double>(image[1]);
  double largest = 0;
  for (std::int64_t v = 0; v < shift.size(); ++v) {
    const double by = std::clamp(scale * static_cast<double>(shift.data()[v]), -most, most);
    shift.data()[v] = static_cast<float>(by);
    largest = std::max(largest, std::abs(by));
  }
  constexpr std::size_t kMostKept = 256;
  kept_.push_front({slice, scale, map, scan_->compute.place(shift), largest});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return kept_.front();
}

void DistortionCorrection::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  if (are_phases(*images.frame, *scan_, kName)) return emit(std::move(images));
  const numerics::Shape& n = images.data.shape();
  const Shifts& shifts = shifts_of(*images.frame, {n[1], n[2], n[3]});
  const std::map<std::string, std::string> notes{{"distortion_correction", fmt::format("{:.2f}", shifts.largest)}};
  if (gradients_) {
    images.frame = with_notes(*images.frame, notes);
    return emit(gradients_->unwarped(std::move(images), &shifts.shift, options_.modulate));
  }
  Array<cfloat> corrected = scan_->compute.allocate<cfloat>(n);
  numerics::unwarp(scan_->compute, images.data.view(), shifts.shift.view(),
                   options_.modulate && !has_own_unit(*images.frame), corrected.view());
  emit({with_notes(*images.frame, notes), std::move(corrected)});
}

}  // namespace echotrain
