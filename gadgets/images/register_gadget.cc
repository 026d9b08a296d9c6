#include "gadgets/images/register_gadget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/numerics/mri/field/warp.h"
#include "gadgets/numerics/mri/images/pixels.h"
#include "gadgets/numerics/mri/registration/displacement.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

using numerics::Motion;

constexpr std::uint16_t kFieldSeries = 7;  // beside g-factors, SNR and those of maps

/// The number of the reference in its series, -1 for the median.
std::int64_t reference_of(const std::string& to) {
  if (to == "first") return 0;
  if (to == "median") return -1;
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(to.data(), to.data() + to.size(), number);
  if (error != std::errc() || end != to.data() + to.size() || number < 0 || number > 65535)
    throw std::invalid_argument(fmt::format("to: expected first, median or a number from 0 to 65535, not '{}'", to));
  return number;
}

}  // namespace

Parameters<Register::Options> Register::parameters() {
  return Parameters<Options>()
      .choice(
          "method", &Options::method, {"fast", "robust", "rigid"},
          "fast: smooth motion of images of one contrast. robust: also where contrast differs from image to image, by "
          "local correlation. rigid: a shift and a rotation")
      .text("to", &Options::to,
            "the reference of a slice: first, the first image; a number, the image that comes so many after the first, "
            "for which earlier ones wait; median, of each voxel, for which all wait until the scan ends")
      .number("regularisation", &Options::regularisation, 0, 4.8,
              "the Gaussian by which fields are smoothed, at least 0.5; 0: 1.5 for fast, 2 for robust")
      .unit("voxels")
      .flag("fields", &Options::fields,
            "give each image's displacements, too [voxels]: channels x and y of a series of their own");
}

Register::Register(Options options) : options_(std::move(options)), reference_(reference_of(options_.to)) {
  if (options_.regularisation > 0 && options_.regularisation < 0.5)
    throw std::invalid_argument("regularisation: 0, or at least 0.5 voxels");
  how_.motion = options_.method == "rigid" ? Motion::rigid : options_.method == "fast" ? Motion::fast : Motion::robust;
  how_.regularisation = static_cast<float>(options_.regularisation);
}

void Register::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

void Register::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const Frame& frame = *images.frame;
  if ((!frame.source && frame.key.series != 0) || are_phases(frame, *scan_, kName)) return emit(std::move(images));
  FrameKey key;
  key.encoding = frame.key.encoding;
  key.slice = frame.key.slice;
  key.series = frame.key.series;
  Series& series = open_[key];
  const numerics::Shape& n = images.data.shape();  // [coil, z, y, x]
  if (series.shape.rank() == 0) series.shape = n;
  if (!(series.shape == n))
    throw ClientError(
        fmt::format("register: images of a slice are {} and {}; they must be alike", series.shape.text(), n.text()));
  if (std::min(n[2], n[3]) < numerics::kLeastRegistered)
    throw ClientError(fmt::format("register: images of {} x {} are too small, it takes at least {} voxels", n[2], n[3],
                                  numerics::kLeastRegistered));
  if (series.reference) return move(series, std::move(images), emit);
  series.waiting.push_back(std::move(images));
  if (static_cast<std::int64_t>(series.waiting.size()) != reference_ + 1) return;
  series.reference = sizes(series.waiting.back());
  const auto waiting = std::exchange(series.waiting, {});
  for (std::size_t i = 0; i + 1 < waiting.size(); ++i) move(series, CoilImages(waiting[i]), emit);
  mark(CoilImages(waiting.back()), emit);
}

void Register::finish(End how, const Emit<CoilImages>& emit) {
  if (how == End::complete)
    for (auto& [key, series] : open_) {
      if (series.waiting.empty()) continue;
      const bool median = reference_ < 0;
      if (median) {
        const numerics::Shape& n = series.shape;
        const std::int64_t size = n[1] * n[2] * n[3], count = static_cast<std::int64_t>(series.waiting.size());
        Array<float> all = scan_->compute.allocate<float>({count, n[1] * n[2], n[3]});
        for (std::int64_t i = 0; i < count; ++i)
          scan_->compute.copy<float>(sizes(series.waiting[static_cast<std::size_t>(i)]).cview().reshaped({size}),
                                     all.view().part(i * size, {size}));
        series.reference = scan_->compute.allocate<float>({n[1], n[2], n[3]});
        numerics::median_image(scan_->compute, all.cview(), series.reference.view().reshaped({n[1] * n[2], n[3]}));
      } else {
        scan_->warn(fmt::format("register: {} images of a slice keep their places, as number {} did not come",
                                series.waiting.size(), reference_));
      }
      for (CoilImages& images : series.waiting) {
        if (median)
          move(series, std::move(images), emit);
        else
          emit(std::move(images));
      }
    }
  open_.clear();
}

/// What is compared, [z, y, x].
Array<float> Register::sizes(const CoilImages& images) const {
  numerics::Context& compute = scan_->compute;
  const numerics::Shape& n = images.data.shape();
  const bool real =
      images.frame->source && images.frame->source->head.image_type == ISMRMRD::ISMRMRD_IMTYPE_REAL && n[0] == 1;
  Array<cfloat> joined = images.data;
  if (n[0] > 1) {
    joined = compute.allocate<cfloat>({1, n[1], n[2], n[3]});
    numerics::root_sum_of_squares(compute, images.data.cview(), joined.view());
  }
  Array<float> out = compute.allocate<float>({n[1], n[2], n[3]});
  numerics::component(compute, joined.cview(), real ? numerics::Component::real : numerics::Component::magnitude, 1,
                      out.view());
  return out;
}

void Register::move(const Series& series, CoilImages&& images, const Emit<CoilImages>& emit) const {
  numerics::Context& compute = scan_->compute;
  const numerics::Shape& n = images.data.shape();
  Array<float> fields = compute.allocate<float>({n[1], 2, n[2], n[3]});
  numerics::register_images(compute, sizes(images).cview(), series.reference.cview(), how_, fields.view());
  Array<float> map = compute.allocate<float>({4, n[1], n[2], n[3]});
  numerics::motion_map(compute, fields.cview(), {}, map.view());
  CoilImages out{images.frame, compute.allocate<cfloat>(n)};  // of which interpolation leaves the noise unknown
  numerics::warp(compute, images.data.cview(), map.cview(), numerics::PlaneTaps::linear, out.data.view());
  mark(std::move(out), emit);
  if (!options_.fields) return;

  CoilImages field{nullptr, compute.allocate<cfloat>({2, n[1], n[2], n[3]})};
  const numerics::Shape both{2, n[1], n[2], n[3]};
  numerics::to_complex(compute, map.cview().part(0, both), field.data.view());
  const auto frame = std::make_shared<Frame>(*images.frame);
  if (frame->source) {
    const auto source = std::make_shared<protocol::Image>(*frame->source);
    source->head.image_series_index = static_cast<std::uint16_t>(source->head.image_series_index + kFieldSeries);
    source->head.image_type = ISMRMRD::ISMRMRD_IMTYPE_REAL;
    frame->source = source;
  } else {
    frame->key.series = kFieldSeries;
  }
  frame->notes["role"] = "displacement";
  frame->notes["DataRole"] = "Quantitative";
  frame->notes["map_quantity"] = "displacement";
  frame->notes["map_unit"] = "{voxel}";  // UCUM
  frame->notes["map_statistic"] = "value";
  add_step(*frame, "REGISTER");
  set_window(*frame, 0, 20);
  field.frame = frame;
  emit(std::move(field));
}

/// Gives an image that lies where the reference does.
void Register::mark(CoilImages&& images, const Emit<CoilImages>& emit) const {
  const auto frame = std::make_shared<Frame>(*images.frame);
  frame->notes["registration"] = fmt::format("{}, to {}", options_.method, options_.to);
  add_step(*frame, "REGISTER");
  images.frame = frame;
  emit(std::move(images));
}

}  // namespace echotrain
