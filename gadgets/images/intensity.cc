#include "gadgets/images/intensity.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/numerics/mri/intensity/bias_field.h"
#include "gadgets/numerics/mri/intensity/field_division.h"
#include "gadgets/shared/incoming/meta_notes.h"
#include "gadgets/shared/place.h"
#include "gadgets/shared/program/scan_environment.h"
#include "gadgets/shared/store/calibration_store.h"
#include "protocol/data/scanner_device.h"

namespace echotrain {
namespace {

constexpr float kLeastField = 0.05f;  // of its mean: no voxel becomes more than 20 times as bright

/// True for g-factors and images in units of SNR, also those that a client sends.
bool is_quantity(const Frame& frame) {
  const auto role = frame.notes.find("DataRole");
  return has_own_unit(frame) || (role != frame.notes.end() && role->second == "Quantitative");
}

}  // namespace

Parameters<Intensity::Options> Intensity::parameters() {
  return Parameters<Options>().choice("method", &Options::method, {"auto", "prescan", "n4", "none"},
                                      "prescan: the field by array and body coil (flag 29), of this scan or one that "
                                      "the header names; n4: by a slice's first "
                                      "image; auto: prescan, else n4; none: images stay");
}

void Intensity::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  fields_of_view_ = FieldsOfView(header);
  if (options_.method == "n4" || options_.method == "none") return;
  const auto& port = scan.compute.cache<ScanEnvironment>();
  measurement_ = {port.owner, protocol::device_of(header.xml), header.measurement_id, port.client};
  dependencies_ = calibration_dependencies(header);
  labels_ = header.coil_labels;
  channels_ = header.receiver_channels;
  auto& lines = ReceivePrescan::of(scan).lines;
  if (!lines) lines = std::make_shared<PrescanLines>();
  lines_ = lines;
}

void Intensity::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const Frame& from = *images.frame;
  if (options_.method == "none" || are_phases(from, *scan_, kName)) return emit(std::move(images));
  if (is_quantity(from)) {
    scan_->info("intensity: images in units of SNR, and other quantities, are not corrected");
    return emit(std::move(images));
  }
  const Slice slice(from.key.encoding, from.key.slice, from.key.series);
  const numerics::Shape& n = images.data.shape();
  auto known = fields_.find(slice);
  if (known != fields_.end() &&
      ((known->second.values && !(known->second.values.shape() == numerics::Shape{n[1], n[2], n[3]})) ||
       !differences_of_place(from.reference, known->second.head).empty())) {
    fields_.erase(known);
    known = fields_.end();
  }
  if (known == fields_.end()) {
    std::optional<Field> made = field_of(images);
    if (!made) return emit(std::move(images));  // a later one of the slice may have one
    known = fields_.emplace(slice, *std::move(made)).first;
  }
  const Field& field = known->second;
  const auto frame = std::make_shared<Frame>(from);
  frame->notes["intensity_field"] = field.from;
  CoilImages out{frame, images.data};
  if (field.values) {
    frame->notes["intensity_spread"] = fmt::format("{:.3f}", field.spread);
    add_step(*frame, "INTENSITY");
    out.data = scan_->compute.allocate<cfloat>(n);
    numerics::divide_by_field(scan_->compute, images.data.view(), field.values.cview(), kLeastField, out.data.view());
  }
  emit(std::move(out));
}

/// The field of a slice, by its first image; none if that has no signal, or voxels that are not finite.
std::optional<Intensity::Field> Intensity::field_of(const CoilImages& images) {
  Field field;
  field.head = images.frame->reference;
  if (!from_prescan(images, field) && options_.method != "prescan" && !from_image(images, field)) return std::nullopt;
  return field;
}

bool Intensity::from_prescan(const CoilImages& images, Field& field) {
  if (options_.method == "n4") return false;
  if (!std::exchange(looked_, true)) find_prescan();
  if (!prescan_) return false;
  const std::array<float, 3> fov = fields_of_view_.of(*images.frame);
  const numerics::Shape& n = images.data.shape();
  HostArray<float> values = scan_->compute.allocate_host<float>({n[1], n[2], n[3]});
  std::string why_not;
  if (!prescan_->at(scan_->compute.threads(),
                    {images.frame->reference, {fov[0], fov[1], fov[2]}, numerics::last_axes(n, 3)}, values.view(),
                    why_not)) {
    scan_->warn(fmt::format("intensity: the prescan {}: slice {} is {}", why_not, images.frame->key.slice,
                            options_.method == "auto" ? "corrected by N4" : "not corrected"));
    return false;
  }
  field.values = scan_->compute.place<float>(values);
  field.from = prescan_from_;
  field.spread = prescan_->spread();
  return true;
}

bool Intensity::from_image(const CoilImages& images, Field& field) {
  numerics::Context& compute = scan_->compute;
  const numerics::Shape& n = images.data.shape();
  Array<cfloat> joined = images.data;
  if (n[0] > 1) {
    joined = compute.allocate<cfloat>({1, n[1], n[2], n[3]});
    numerics::root_sum_of_squares(compute, images.data.view(), joined.view());
  }
  Array<float> magnitude = compute.allocate<float>(joined.shape());
  numerics::component(compute, joined.view(), numerics::Component::magnitude, 1, magnitude.view());
  Array<float> values = compute.allocate<float>({n[1], n[2], n[3]});
  try {
    const auto facts = numerics::bias_field(compute, magnitude.view().reshaped(values.shape()), {}, values.view());
    field.from = "n4";
    field.spread = facts.spread;
    field.values = std::move(values);
    return facts.voxels > 0;
  } catch (const std::invalid_argument& error) {
    scan_->warn(fmt::format("intensity: slice {} is not corrected: {}", images.frame->key.slice, error.what()));
    return false;
  }
}

}  // namespace echotrain
