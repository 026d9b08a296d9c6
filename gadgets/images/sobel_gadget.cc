#include "gadgets/images/sobel_gadget.h"

#include <fmt/format.h>

#include <limits>

#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

using numerics::GradientPart;

GradientPart part_of(const std::string& output) {
  if (output == "magnitude") return GradientPart::magnitude;
  return output == "direction" ? GradientPart::direction : GradientPart::both;
}

}  // namespace

Parameters<Sobel::Options> Sobel::parameters() {
  return Parameters<Options>()
      .choice(
          "output", &Options::output, {"magnitude", "direction", "both"},
          "size of the gradient, its direction, or both. Planes: the direction is the phase (image: {component: "
          "phase}), both are one complex image (magnitude_and_phase). Volumes: channels x, y, z of the unit vector, "
          "after the magnitude where it is both (image: {component: real})")
      .choice("dimensions", &Options::dimensions, {"auto", "2", "3"},
              "auto: 2 for planes, 3 for volumes. 2: each plane of a volume by itself. 3: volumes only")
      .choice("per", &Options::per, {"voxel", "mm"}, "differences per voxel, or per millimetre along each axis");
}

void Sobel::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  fields_of_view_ = FieldsOfView(header);
}

/// The factors of the gradient's components x, y, z.
std::array<float, 3> Sobel::factors(const Frame& frame, const numerics::Shape& shape) const {
  std::array<float, 3> out{1, 1, 1};
  if (options_.per == "voxel") return out;
  const std::array<float, 3> fov = fields_of_view_.of(frame);
  for (std::size_t a = 0; a < 3; ++a) out[a] = static_cast<float>(shape[3 - a]) / fov[a];
  return out;
}

void Sobel::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  if (are_phases(*images.frame, *scan_, kName)) return emit(std::move(images));
  numerics::Context& compute = scan_->compute;
  const auto& shape = images.data.shape();  // [coil, z, y, x]
  const bool flat = shape[1] == 1, by_planes = flat || options_.dimensions == "2";
  if (flat && options_.dimensions == "3")
    throw ClientError(
        "sobel with dimensions: 3 takes volumes, but these images are single slices; put stack_slices before it, or "
        "let dimensions be auto");
  const std::int64_t axes = by_planes ? 2 : 3;
  const GradientPart part = part_of(options_.output);
  const std::int64_t channels = numerics::gradient_channels(axes, part);
  if (shape[0] * channels > std::numeric_limits<std::uint16_t>::max())
    throw ClientError(fmt::format(
        "sobel makes {} channels of each of {}, more than the 65535 that an image can have; put coil_combine before it",
        channels, shape[0]));

  // Planes or volumes one after another.
  const std::int64_t depth = by_planes ? 1 : shape[1], count = shape[0] * shape[1] / depth;
  const numerics::Shape each{depth, shape[2], shape[3]};
  Array<float> magnitude = compute.allocate<float>(each);
  Array<float> components = compute.allocate<float>({axes, depth, shape[2], shape[3]});
  CoilImages out;
  out.data = compute.allocate<cfloat>({shape[0] * channels, shape[1], shape[2], shape[3]});
  const auto from = images.data.cview().reshaped({count, depth, shape[2], shape[3]});
  const auto to = out.data.view().reshaped({count, channels, depth, shape[2], shape[3]});
  const std::array<float, 3> times = factors(*images.frame, shape);
  for (std::int64_t i = 0; i < count; ++i) {
    numerics::sobel(compute, from.slice(i), magnitude.view(), components.view());
    numerics::gradient_image(compute, components.view(), times, part, to.slice(i));
  }

  const auto frame = std::make_shared<Frame>(*images.frame);
  frame->notes["gradient"] = fmt::format("{}, {}D, per {}", options_.output, axes, options_.per);
  forget_window(*frame);
  out.frame = frame;
  emit(std::move(out));
}

}  // namespace echotrain
