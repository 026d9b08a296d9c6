#include "gadgets/readouts/radial_trajectory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gadgets/shared/measurement.h"

namespace echotrain {
namespace {
constexpr std::size_t kRemembered = 65536;  // readouts of a generation
}

Parameters<RadialTrajectory::Options> RadialTrajectory::parameters() {
  return Parameters<Options>()
      .choice("order", &Options::order, {"golden_angle", "tiny_golden_angle", "linear"},
              "how the angle advances from spoke to spoke")
      .integer("tiny_number", &Options::tiny_number, 1, 1000,
               "N of the tiny golden angle 180 / (1.618 + N - 1) degrees: 7 is 23.628, 1 the golden angle")
      .integer("spokes", &Options::spokes, 0, 65536,
               "spokes over the span of a linear order; 0: as many as the header's limits of kspace_encoding_step_1")
      .number("span_deg", &Options::span_deg, 1, 360,
              "angle over which a linear order spreads its spokes; 360 for centre-out spokes")
      .unit("degrees")
      .number("offset_deg", &Options::offset_deg, -360, 360, "angle of spoke 0 from x towards y")
      .unit("degrees")
      .choice("counter", &Options::counter, {"kspace_encode_step_1", "arrival"},
              "what numbers the spokes: the header's counter, or their order in the scan, counted across repetitions");
}

void RadialTrajectory::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) {
    using protocol::Trajectory;
    if (encoding.trajectory == Trajectory::cartesian || encoding.trajectory == Trajectory::epi ||
        encoding.trajectory == Trajectory::spiral)
      throw ClientError(
          fmt::format("radial_trajectory makes spokes, but the header's trajectory is '{}'; use cartesian_2d or "
                      "spiral_2d",
                      protocol::to_string(encoding.trajectory)));
    if (options_.counter == "arrival" && encoding.encoded.matrix[2] > 1 && !planes_)
      throw ClientError(
          "radial_trajectory with counter: arrival would turn every partition of a stack; put it after partition_fft");
    const auto& limit = encoding.kspace_encoding_step_1;
    Space space;
    space.first = limit ? limit->minimum : 0;
    const double tau = std::numbers::phi;
    if (options_.order == "golden_angle") {
      space.step = std::numbers::pi / tau;
    } else if (options_.order == "tiny_golden_angle") {
      space.step = std::numbers::pi / (tau + static_cast<double>(options_.tiny_number) - 1);
    } else {
      const std::int64_t in_header = limit ? limit->maximum - limit->minimum + 1 : 0;
      const std::int64_t spokes = options_.spokes > 0 ? options_.spokes : in_header;
      if (spokes == 0)
        throw ClientError(
            "the header has no limits of kspace_encoding_step_1 to tell the number of spokes by; set "
            "radial_trajectory's spokes");
      space.step = options_.span_deg * std::numbers::pi / 180 / static_cast<double>(spokes);
    }
    const auto unit = to_cycles_per_pixel(encoding, scan.trajectory_unit);
    space.to_unit = {1 / unit[0], 1 / unit[1]};
    spaces_.push_back(std::move(space));
  }
}

void RadialTrajectory::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  const bool imaging = readouts.kind == protocol::ReadoutKind::imaging && !readouts.heads.empty();
  if (imaging && readouts.trajectory) {
    scan_->info("readouts come with their own trajectory, which is kept; radial_trajectory makes none");
  } else if (imaging) {
    Space& space = spaces_.at(readouts.frame->key.encoding);
    const std::int64_t count = readouts.data.shape()[0], samples = readouts.data.shape()[2];
    readouts.trajectory = scan_->compute.allocate_host<float>({count, samples, 2});
    float* to = readouts.trajectory.data();
    for (const auto& head : readouts.heads) {
      prepare(space, head);
      const double turns = static_cast<double>(number(head, space, *readouts.frame)) * space.step;
      const double angle = std::fmod(turns, 2 * std::numbers::pi) + options_.offset_deg * std::numbers::pi / 180;
      const double x = std::cos(angle) * space.to_unit[0], y = std::sin(angle) * space.to_unit[1];
      for (const double k : space.spoke) {
        *to++ = static_cast<float>(k * x);
        *to++ = static_cast<float>(k * y);
      }
    }
  }
  emit(std::move(readouts));
}

/// Makes the template for readouts like this one, unless it is there already.
void RadialTrajectory::prepare(Space& space, const protocol::AcquisitionHeader& head) {
  const std::array<std::int64_t, 4> of = {head.number_of_samples, head.center_sample, head.discard_pre,
                                          head.discard_post};
  if (of == space.of && !space.spoke.empty()) return;
  const auto [samples, centre, pre, post] = of;
  const std::int64_t used = samples - pre - post, before = centre - pre, after = used - before;
  if (before < 0 || after < 0 || used < 2)
    throw ClientError(fmt::format(
        "a readout of {} samples, {} and {} of them discarded at its ends, cannot have its centre at sample {}",
        samples, pre, post, centre));
  if (before == 0) scan_->info("center_sample is the first sample: spokes are taken to begin at the centre of k-space");
  const auto extent = static_cast<double>(before == used / 2 ? used : 2 * std::max(before, after));
  space.of = of;
  space.spoke.clear();
  for (std::int64_t s = 0; s < samples; ++s) space.spoke.push_back(static_cast<double>(s - centre) / extent);
}

std::int64_t RadialTrajectory::number(const protocol::AcquisitionHeader& head, const Space& space, const Frame& frame) {
  if (options_.counter != "arrival") return head.idx.kspace_encode_step_1 - space.first;
  const FrameKey& key = frame.key;
  return arrivals_[{key.encoding, key.slice, key.contrast, key.phase, key.set}].number(head.scan_counter, frame.id);
}

std::int64_t RadialTrajectory::Arrival::number(std::uint32_t scan_counter, std::uint64_t frame) {
  if (!counted_) return next_++;
  for (const auto* generation : {&recent_, &before_})
    if (const auto met = generation->find(scan_counter); met != generation->end()) {
      // A frame holds no readout twice: a counter that comes back within a frame does not count readouts.
      counted_ = met->second.frame != frame;
      return counted_ ? met->second.number : next_++;
    }
  if (recent_.size() == kRemembered) before_ = std::exchange(recent_, {});
  recent_.emplace(scan_counter, Met{next_, frame});
  return next_++;
}

}  // namespace echotrain
