#include "gadgets/trajectories/trajectory_correction.h"

#include <fmt/format.h>

#include <algorithm>

#include "gadgets/trajectories/girf_table.h"

namespace echotrain {
namespace {

using numerics::GradientDelays;

constexpr float kLeastDwell_us = 1e-3F;  // no receiver samples faster
constexpr std::size_t kMostOrientations = 1024, kMostFilters = 4;

}  // namespace

Parameters<TrajectoryCorrection::Options> TrajectoryCorrection::parameters() {
  return Parameters<Options>()
      .choice("method", &Options::method, {"ring", "cross_correlation", "given", "girf"},
              "ring: delays with which the first spokes agree where they intersect. cross_correlation: with which they "
              "agree with spokes that run the other way. given: x, y, xy. girf: impulse responses of the gradients")
      .integer(
          "spokes", &Options::spokes, 8, 1024,
          "ring and cross_correlation: how many spokes wait, at most, for the delays to be told; a frame that ends "
          "with 13 is enough")
      .number("x", &Options::x, -1000, 1000,
              "given only; by how much samples of a spoke along x lie farther on than the trajectory says: negative "
              "where gradients come late")
      .number("y", &Options::y, -1000, 1000, "given only; the same of a spoke along y")
      .number("xy", &Options::xy, -1000, 1000, "given only; what a spoke along x is moved along y, and the reverse")
      .choice("unit", &Options::unit, {"samples", "us"},
              "of x, y and xy: samples of the readout, or microseconds (heads must hold the sample time)")
      .text("girf", &Options::girf,
            "girf only; a file of the server's assets with the responses (docs/trajectories.md). Empty: the client "
            "sends them");
}

void TrajectoryCorrection::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) spaces_.push_back(trajectory_space(encoding, scan.trajectory_unit));
  if (std::none_of(spaces_.begin(), spaces_.end(), [](const auto& space) { return space.corrected; }))
    throw ClientError(
        fmt::format("trajectory_correction moves sample positions, but the header's trajectory is '{}', whose readouts "
                    "have none; leave it out",
                    protocol::to_string(header.encodings.front().trajectory)));
  if (options_.method == "girf") scan.side_images.want(kGirfRole, options_.girf);
}

void TrajectoryCorrection::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  if (readouts.kind != protocol::ReadoutKind::imaging || !spaces_.at(readouts.frame->key.encoding).corrected)
    return emit(std::move(readouts));
  if (!estimates()) {
    if (!readouts.heads.empty()) correct(readouts);
    if (readouts.last) note(readouts);
    return emit(std::move(readouts));
  }
  const bool last = readouts.last;
  if (last && readouts.first && readouts.heads.empty() && waiting_.empty()) return emit(std::move(readouts));
  // The orientation is that of the frame's reference, so that all batches of a frame share it.
  const Orientation orientation = orientation_of(readouts.frame->reference, readouts.frame->key.encoding);
  if (states_.size() >= kMostOrientations && !states_.contains(orientation))
    throw ClientError(
        fmt::format("trajectory_correction: the slices of a scan have at most {} orientations", kMostOrientations));
  State& state = states_.try_emplace(orientation, State{{options_.method, options_.spokes}, {}}).first->second;
  if (!state.found) state.finder.add(readouts, spaces_.at(readouts.frame->key.encoding));
  waiting_.push_back({std::move(readouts), orientation});
  if (!state.found && state.finder.enough(last)) settle(orientation);
  release(emit);
}

void TrajectoryCorrection::settle(const Orientation& orientation) {
  State& state = states_.at(orientation);
  std::vector<const Readouts*> held;
  std::uint16_t encoding = 0;
  for (const Waiting& each : waiting_)
    if (each.orientation == orientation && !each.readouts.heads.empty()) {
      held.push_back(&each.readouts);
      encoding = each.readouts.frame->key.encoding;
    }
  state.found = state.finder.find(*scan_, spaces_.at(encoding), held);
  const DelayFinder::Found& found = *state.found;
  if (!found.warning.empty()) scan_->warn(found.warning);
  if (found.delays)
    scan_->info(
        fmt::format("trajectory_correction: {} of {} spokes: samples lie {:.3f} (x), {:.3f} (y), {:.3f} (xy) "
                    "samples from where the trajectory says",
                    found.method, found.spokes, found.delays->x, found.delays->y, found.delays->xy));
}

/// Hands on readouts that need not wait.
void TrajectoryCorrection::release(const Emit<Readouts>& emit) {
  while (!waiting_.empty()) {
    Waiting& front = waiting_.front();
    const auto state = states_.find(front.orientation);
    if (state != states_.end() && !state->second.found) return;
    Waiting next = std::move(front);
    waiting_.pop_front();
    if (!next.readouts.heads.empty()) correct(next.readouts);
    if (next.readouts.last) note(next.readouts);
    emit(std::move(next.readouts));
  }
}

void TrajectoryCorrection::finish(End how, const Emit<Readouts>& emit) {
  if (how == End::complete) {
    for (auto& [orientation, state] : states_)
      if (!state.found) settle(orientation);
    release(emit);
  }
  waiting_.clear();
}

void TrajectoryCorrection::correct(Readouts& readouts) {
  const TrajectorySpace& space = spaces_.at(readouts.frame->key.encoding);
  if (!readouts.trajectory || readouts.trajectory.shape()[2] < space.dims) return;  // refused where it is needed
  HostArray<float> own = scan_->compute.allocate_host<float>(readouts.trajectory.shape());  // others may read the old
                                                                                            // trajectory
  std::copy_n(readouts.trajectory.data(), own.size(), own.data());
  readouts.trajectory = std::move(own);
  if (options_.method == "girf") return apply_girf(readouts, space);
  const std::int64_t samples = readouts.trajectory.shape()[1];
  GradientDelays found;
  if (estimates()) {
    const auto state = states_.find(orientation_of(readouts.frame->reference, readouts.frame->key.encoding));
    if (state == states_.end() || !state->second.found || !state->second.found->delays) return;
    found = *state->second.found->delays;
  }
  for (std::size_t i = 0; i < readouts.heads.size(); ++i) {
    const GradientDelays delays = estimates() ? found : given(readouts.heads[i]);
    if (delays.largest() == 0) continue;
    std::vector<double> k = physical_positions(readouts, i, space);
    numerics::delay_positions(delays, {k.data(), {samples, space.dims}});
    set_positions(readouts, i, space, k);
  }
}

GradientDelays TrajectoryCorrection::given(const protocol::AcquisitionHeader& head) {
  GradientDelays delays{options_.x, options_.y, options_.xy};
  if (options_.unit == "us") {
    const double dwell = head.sample_time_us;
    if (!(dwell >= kLeastDwell_us)) {
      scan_->warn(
          "trajectory_correction: delays are given in microseconds, but readouts come without sample_time_us; their "
          "trajectory is kept as it came; give the delays in samples");
      return {};
    }
    delays = {delays.x / dwell, delays.y / dwell, delays.xy / dwell};
  }
  return delays.rounded();
}

void TrajectoryCorrection::apply_girf(Readouts& readouts, const TrajectorySpace& space) {
  if (!girf_) girf_ = girf_table(*scan_);
  const std::int64_t samples = readouts.trajectory.shape()[1];
  for (std::size_t i = 0; i < readouts.heads.size(); ++i) {
    const auto& head = readouts.heads[i];
    const float dwell = head.sample_time_us;
    if (!(dwell >= kLeastDwell_us) || samples < 2) {
      scan_->warn(
          "trajectory_correction: readouts come without sample_time_us, which tells their gradients; their trajectory "
          "is kept as it came");
      continue;
    }
    auto axes = slice_axes(head);
    if (!axes) {
      scan_->warn(
          "trajectory_correction: read_dir, phase_dir and slice_dir of readouts are no directions; their x, y, z are "
          "taken for the gradients' X, Y, Z");
      axes = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
    }
    auto filter = filters_.find({samples, dwell});
    if (filter == filters_.end()) {
      if (filters_.size() >= kMostFilters) filters_.clear();
      filter = filters_.try_emplace({samples, dwell}, *girf_, samples, dwell * 1e-6).first;
    }
    scan_->compute.check_stop();
    std::vector<double> k = physical_positions(readouts, i, space);
    filter->second.move(*axes, {k.data(), {samples, space.dims}});
    set_positions(readouts, i, space, k);
  }
}

void TrajectoryCorrection::note(Readouts& readouts) const {
  std::map<std::string, std::string> notes{{"trajectory_correction", options_.method}};
  const auto text = [](const GradientDelays& d) { return fmt::format("{:.3f} {:.3f} {:.3f}", d.x, d.y, d.xy); };
  if (estimates()) {
    const auto state = states_.find(orientation_of(readouts.frame->reference, readouts.frame->key.encoding));
    const bool told = state != states_.end() && state->second.found && state->second.found->delays;
    notes["trajectory_correction"] = told ? state->second.found->method : "none";
    if (told) notes["trajectory_delays"] = text(*state->second.found->delays);
  } else if (options_.method == "given") {
    notes["trajectory_delays"] =
        fmt::format("{} {}", text({options_.x, options_.y, options_.xy}), options_.unit == "us" ? "us" : "samples");
  }
  readouts.frame = with_notes(*readouts.frame, notes);
}

}  // namespace echotrain
