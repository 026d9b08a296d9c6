#include "gadgets/epi/ramp_regrid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "gadgets/epi/epi_readouts.h"
#include "gadgets/epi/gradient_delay.h"
#include "gadgets/numerics/mri/epi/line_changes.h"
#include "gadgets/shared/measurement.h"
#include "protocol/data/epi_description.h"

namespace echotrain {
namespace {

using protocol::AcquisitionHeader;
using protocol::ReadoutKind;

constexpr std::size_t kMostPaths = 8, kMostKinds = 8;                // trajectories of an encoding; kinds of readouts
constexpr std::int64_t kMostLinePoints = 1024, kMostSamples = 4096;  // points and samples of a line: solving for it
                                                                     // costs their squares
constexpr double kSamePath = 0.002;                                  // steps

/// The number of samples of readouts whose description has no times of a gradient.
std::optional<std::int64_t> described_flat(const protocol::TrajectoryDescription* description) {
  if (!description) return std::nullopt;
  for (const char* time : {"rampUpTime", "flatTopTime", "rampDownTime", "acqDelayTime"})
    if (description->value(time)) return std::nullopt;
  const double samples = description->value("numSamples").value_or(0);
  return samples >= 1 && samples <= 65535 ? std::optional(std::llround(samples)) : std::nullopt;
}

std::optional<numerics::Trapezoid> described_trapezoid(const protocol::TrajectoryDescription* description,
                                                       std::string& without) {
  if (!description) {
    without = "the header has no trajectoryDescription";
    return std::nullopt;
  }
  numerics::Trapezoid out;
  for (const auto& [name, to] : {std::pair{"rampUpTime", &out.ramp_up}, std::pair{"flatTopTime", &out.flat},
                                 std::pair{"rampDownTime", &out.ramp_down}, std::pair{"acqDelayTime", &out.delay}}) {
    const auto value = description->value(name);
    if (!value) {
      without = fmt::format("the header's trajectoryDescription '{}' has no {}", description->identifier, name);
      return std::nullopt;
    }
    *to = *value;
  }
  out.samples = std::llround(std::clamp(description->value("numSamples").value_or(0), 0.0, 65535.0));
  out.dwell = description->value("dwellTime").value_or(0);
  return out;
}

}  // namespace

Parameters<RampRegrid::Options> RampRegrid::parameters() {
  return Parameters<Options>()
      .choice("delay", &Options::delay, {"navigators", "given"},
              "by how much the gradient comes later than the header's description says: as the first phase-correction "
              "lines tell, or as delay_us says")
      .number("delay_us", &Options::delay_us, -kMostDelay, kMostDelay,
              "the delay, where it is given or nothing tells it")
      .unit("us");
}

void RampRegrid::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) {
    Space& space = spaces_.emplace_back();
    space.epi = encoding.trajectory == protocol::Trajectory::epi;
    space.points = encoding.encoded.matrix[0];
    space.to_steps = to_cycles_per_pixel(encoding, scan.trajectory_unit)[0] * static_cast<double>(space.points);
    if (!space.epi) continue;
    if (const double all = encoding.encoded.fov_mm[0], shown = encoding.recon.fov_mm[0]; shown > 0 && shown < all)
      space.needed = shown / all;
    space.trapezoid = described_trapezoid(encoding.description.get(), space.without);
    space.flat_samples = described_flat(encoding.description.get());
    if (const std::int64_t all = space.flat_samples.value_or(0); all > space.points && all % space.points == 0) {
      space.trapezoid = {.flat = static_cast<double>(all), .dwell = 1, .samples = all};  // oversampled
      space.delay_us = 0;
      space.flat_samples.reset();
    }
  }
}

void RampRegrid::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  const bool lines = readouts.kind == ReadoutKind::imaging || readouts.kind == ReadoutKind::calibration ||
                     readouts.kind == ReadoutKind::phase_correction;
  if (!lines || readouts.heads.empty() || !spaces_.at(readouts.heads.front().encoding_space_ref).epi) {
    emit(std::move(readouts));
    return;
  }
  Space& space = spaces_[readouts.heads.front().encoding_space_ref];
  if (waits(readouts)) {
    space.waiting.push_back(std::move(readouts));
    return;
  }
  for (Readouts& each : std::exchange(space.waiting, {})) regrid(std::move(each), emit);
  regrid(std::move(readouts), emit);
}

/// Drops waiting phase-correction lines, which have no lines to correct.
void RampRegrid::finish(End /*how*/, const Emit<Readouts>& /*emit*/) {
  for (Space& space : spaces_) space.waiting.clear();
}

/// True if these readouts wait for others before the gradient's delay is known; finds the delay when they do not.
bool RampRegrid::waits(const Readouts& readouts) {
  Space& space = spaces_[readouts.heads.front().encoding_space_ref];
  if (space.delay_us || !space.trapezoid || readouts.trajectory) return false;
  const std::int64_t described = space.trapezoid->samples;
  // Lines of another kind than the description's tell nothing of its gradient.
  if (readouts.kind == ReadoutKind::calibration && space.waiting.empty() && described != 0 &&
      described != readouts.heads.front().number_of_samples)
    return false;
  const bool alike =
      space.waiting.empty() || (space.waiting.front().host_data.shape()[1] == readouts.host_data.shape()[1] &&
                                space.waiting.front().host_data.shape()[2] == readouts.host_data.shape()[2]);
  if (options_.delay == "navigators" && readouts.kind == ReadoutKind::phase_correction && alike) return true;
  space.delay_us = options_.delay_us;
  if (options_.delay != "navigators") return false;
  if (space.waiting.empty())
    scan_->info(
        fmt::format("ramp_regrid: no phase-correction lines came before to tell the gradient's delay; {:g} us is taken",
                    options_.delay_us));
  else
    find_delay(space);
  return false;
}

void RampRegrid::find_delay(Space& space) {
  const AcquisitionHeader& head = space.waiting.front().heads.front();
  try {
    const numerics::Trapezoid trapezoid = trapezoid_of(space, head);
    if (numerics::is_regular(numerics::trapezoid_positions(trapezoid, space.points), space.points)) return;
    const auto found = gradient_delay(space.waiting, space.points, [&](double late) {
      scan_->compute.check_stop();
      return weights_for(space, trapezoid, head, late);
    });
    if (!found) {
      scan_->info(fmt::format("ramp_regrid: phase-correction lines do not tell the gradient's delay; {:g} us is taken",
                              options_.delay_us));
      return;
    }
    space.delay_us = *found;
    scan_->info(
        fmt::format("ramp_regrid: the readout gradient comes {:.2f} us late, by phase-correction lines", *found));
  } catch (const std::invalid_argument&) {
    // The fault of the description is reported when the description is used.
  }
}

void RampRegrid::regrid(Readouts&& readouts, const Emit<Readouts>& emit) {
  Space& space = spaces_[readouts.heads.front().encoding_space_ref];
  if (readouts.trajectory) {
    const std::int64_t samples = readouts.trajectory.shape()[1], dims = readouts.trajectory.shape()[2];
    std::vector<std::int32_t> sets;
    for (std::size_t i = 0; i < readouts.heads.size(); ++i)
      sets.push_back(
          path_of(readouts.heads[i], readouts.trajectory.data() + static_cast<std::int64_t>(i) * samples * dims, dims));
    combine(readouts, space.along_paths, sets, space.points);
    readouts.trajectory = {};
    emit(std::move(readouts));
    return;
  }
  for (Readouts& alike : split(std::move(readouts))) {
    std::vector<std::int32_t> sets;
    for (const auto& head : alike.heads) sets.push_back(is_reversed(head) ? 1 : 0);
    if (const Weights& weights = described(alike); weights.sets > 0) combine(alike, weights, sets, space.points);
    emit(std::move(alike));
  }
}

RampRegrid::Key RampRegrid::key_of(const AcquisitionHeader& head) {
  return {head.encoding_space_ref, head.number_of_samples, head.discard_pre, head.discard_post,
          std::llround(1000.0 * head.sample_time_us)};
}

/// Splits readouts into batches with the same weights.
std::vector<Readouts> RampRegrid::split(Readouts&& readouts) const {
  const auto& heads = readouts.heads;
  const auto differ = [](const AcquisitionHeader& a, const AcquisitionHeader& b) { return key_of(a) != key_of(b); };
  std::vector<Readouts> out;
  if (std::adjacent_find(heads.begin(), heads.end(), differ) == heads.end()) {
    out.push_back(std::move(readouts));
    return out;
  }
  const numerics::Shape& shape = readouts.data ? readouts.data.shape() : readouts.host_data.shape();
  for (auto begin = heads.begin(), end = begin; begin != heads.end(); begin = end) {
    end = std::find_if(begin, heads.end(), [&](const auto& head) { return differ(*begin, head); });
    Readouts& part = out.emplace_back();
    part.frame = readouts.frame;
    part.kind = readouts.kind;
    part.first = readouts.first && begin == heads.begin();
    part.last = readouts.last && end == heads.end();
    part.heads.assign(begin, end);
    const numerics::Shape of_part{end - begin, shape[1], shape[2]};
    const std::int64_t at = (begin - heads.begin()) * shape[1] * shape[2];
    if (readouts.data) {
      part.data = scan_->compute.allocate<cfloat>(of_part);
      scan_->compute.copy<cfloat>(readouts.data.cview().part(at, of_part), part.data.view());
    } else {
      part.host_data = scan_->compute.allocate_host<cfloat>(of_part);
      std::copy_n(readouts.host_data.data() + at, of_part.size(), part.host_data.data());
    }
  }
  return out;
}

/// The weights of readouts like this one; without sets where they are regular.
const RampRegrid::Weights& RampRegrid::described(const Readouts& readouts) {
  const AcquisitionHeader& head = readouts.heads.front();
  const Key key = key_of(head);
  const auto found = weights_.find(key);
  if (found != weights_.end()) return found->second;
  const Space& space = spaces_[head.encoding_space_ref];
  if (weights_.size() == kMostKinds)
    throw ClientError(fmt::format(
        "ramp_regrid: readouts differ in samples, discarded samples or dwell time in more than {} ways", kMostKinds));
  const bool could_be_regular = head.number_of_samples == space.points;
  std::string why = space.without;
  if (space.flat_samples && readouts.kind != ReadoutKind::calibration) {
    if (head.number_of_samples == *space.flat_samples && head.number_of_samples <= space.points) return weights_[key];
    why += fmt::format(
        "; without ramps, its numSamples, {}, would have to be that of the readouts, and at most the matrix' or a "
        "multiple of it",
        *space.flat_samples);
  }
  if (space.trapezoid) {
    try {
      return weights_[key] = made_for(space, head);
    } catch (const std::invalid_argument& error) {
      why = fmt::format("the header's trajectoryDescription does not fit the readouts: {}", error.what());
    }
  }
  if (!could_be_regular)
    throw ClientError(
        fmt::format("ramp_regrid: {}, and readouts have {} samples where the encoded matrix has {} points; send a "
                    "trajectoryDescription that fits (rampUpTime, flatTopTime, rampDownTime, acqDelayTime, numSamples, "
                    "dwellTime), a trajectory with the readouts, or regular lines",
                    why, +head.number_of_samples, space.points));
  if (readouts.kind == ReadoutKind::calibration)
    scan_->info("ramp_regrid: reference lines are not described by the header and are taken for regular lines");
  else
    scan_->warn(
        fmt::format("ramp_regrid: {}; readouts are taken for regular lines, which blurs what was sampled "
                    "on a ramp",
                    why));
  return weights_[key];
}

/// The gradient with the readouts' facts about their samples. Throws std::invalid_argument when these contradict it.
numerics::Trapezoid RampRegrid::trapezoid_of(const Space& space, const AcquisitionHeader& head) const {
  numerics::Trapezoid trapezoid = *space.trapezoid;
  if (trapezoid.samples != 0 && trapezoid.samples != head.number_of_samples)
    throw std::invalid_argument(
        fmt::format("numSamples is {}, but readouts have {}", trapezoid.samples, +head.number_of_samples));
  if (space.points > kMostLinePoints || head.number_of_samples > kMostSamples)
    throw std::invalid_argument(fmt::format("{} samples for {} points are too many; at most {} for {}",
                                            +head.number_of_samples, space.points, kMostSamples, kMostLinePoints));
  trapezoid.samples = head.number_of_samples;
  if (trapezoid.dwell <= 0) trapezoid.dwell = head.sample_time_us;
  return trapezoid;
}

/// [2, sample, x]: for lines that run forward, and for reversed ones.
std::vector<float> RampRegrid::weights_for(const Space& space, numerics::Trapezoid trapezoid,
                                           const AcquisitionHeader& head, double late) const {
  std::vector<double> positions = numerics::trapezoid_positions(trapezoid, space.points, late);
  for (std::size_t s = 0; s < positions.size(); ++s)
    if (s < head.discard_pre || s + head.discard_post >= positions.size())
      positions[s] = std::numeric_limits<double>::quiet_NaN();
  scan_->compute.check_stop();
  std::vector<float> out = numerics::regular_line_weights(positions, space.points, false, space.needed);
  std::transform(positions.begin(), positions.end(), positions.begin(), [](double k) { return -k; });
  scan_->compute.check_stop();
  const std::vector<float> reversed = numerics::regular_line_weights(positions, space.points, true, space.needed);
  out.insert(out.end(), reversed.begin(), reversed.end());
  return out;
}

RampRegrid::Weights RampRegrid::made_for(const Space& space, const AcquisitionHeader& head) {
  const numerics::Trapezoid trapezoid = trapezoid_of(space, head);
  Weights out;
  const double late = space.delay_us.value_or(options_.delay_us);
  if (numerics::is_regular(numerics::trapezoid_positions(trapezoid, space.points, late), space.points)) return out;
  out.host = weights_for(space, trapezoid, head, late);
  out.sets = 2;
  upload(out, trapezoid.samples, space.points);
  return out;
}

/// The number of a readout's trajectory among those with known weights.
std::int32_t RampRegrid::path_of(const AcquisitionHeader& head, const float* path, std::int64_t dims) {
  Space& space = spaces_[head.encoding_space_ref];
  std::vector<Path>& paths = space.paths;
  std::vector<double> positions;
  const std::int64_t samples = head.number_of_samples, first = head.discard_pre, end = samples - head.discard_post;
  for (std::int64_t s = 0; s < samples; ++s)
    positions.push_back(s < first || s >= end ? std::numeric_limits<double>::quiet_NaN()
                                              : path[s * dims] * space.to_steps);
  const bool reversed = is_reversed(head);
  if (space.points > kMostLinePoints || static_cast<std::int64_t>(positions.size()) > kMostSamples)
    throw ClientError(fmt::format("ramp_regrid: {} samples for {} points are too many; at most {} for {}",
                                  positions.size(), space.points, kMostSamples, kMostLinePoints));
  for (std::size_t p = 0; p < paths.size(); ++p) {
    const Path& known = paths[p];
    if (known.reversed == reversed &&
        std::equal(positions.begin(), positions.end(), known.positions.begin(), known.positions.end(),
                   [](double a, double b) { return std::abs(a - b) <= kSamePath || (std::isnan(a) && std::isnan(b)); }))
      return static_cast<std::int32_t>(p);
  }
  if (paths.size() == kMostPaths)
    throw ClientError(fmt::format(
        "ramp_regrid: readouts come with more than {} different trajectories along x; EPI repeats a few", kMostPaths));
  if (!paths.empty() && paths.front().positions.size() != positions.size())
    throw ClientError(fmt::format("ramp_regrid: readouts with a trajectory have {} samples, but those before had {}",
                                  positions.size(), paths.front().positions.size()));
  if (end - first > 1) {
    const double from = positions[static_cast<std::size_t>(first)], to = positions[static_cast<std::size_t>(end - 1)];
    if ((from > to) != reversed)
      throw ClientError(
          fmt::format("ramp_regrid: readout {} is{} flagged as reversed, but its trajectory runs from {:.1f} to {:.1f} "
                      "steps; correct "
                      "the flag or the sign of the trajectory",
                      +head.scan_counter, reversed ? "" : " not", from, to));
  }
  scan_->compute.check_stop();  // each path is a step: it may take seconds
  try {
    const std::vector<float> weights = numerics::regular_line_weights(positions, space.points, reversed, space.needed);
    space.along_paths.host.insert(space.along_paths.host.end(), weights.begin(), weights.end());
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format(
        "ramp_regrid: the trajectory of readout {} makes no line of {} points: {}; is trajectory_unit right?",
        +head.scan_counter, space.points, error.what()));
  }
  ++space.along_paths.sets;
  upload(space.along_paths, head.number_of_samples, space.points);
  paths.push_back({reversed, std::move(positions)});
  return static_cast<std::int32_t>(paths.size()) - 1;
}

void RampRegrid::upload(Weights& weights, std::int64_t samples, std::int64_t points) {
  weights.device = scan_->compute.upload<float>({weights.host.data(), {weights.sets, samples, points}});
}

/// Combines samples. Phase-correction lines lie on the host, where they are summed in float64.
void RampRegrid::combine(Readouts& readouts, const Weights& weights, const std::vector<std::int32_t>& sets,
                         std::int64_t points) {
  const auto count = static_cast<std::int64_t>(readouts.heads.size());
  readouts.white = false;
  const bool on_host = !readouts.data;
  const numerics::Shape shape = on_host ? readouts.host_data.shape() : readouts.data.shape();
  const std::int64_t coils = shape[1], samples = shape[2];
  if (on_host) {
    HostArray<cfloat> to = scan_->compute.allocate_host<cfloat>({count, coils, points});
    constexpr std::int64_t kFew = 8;  // coils of a line, one piece of work
    const std::int64_t pieces = (coils + kFew - 1) / kFew;
    scan_->compute.threads().parallel_for(count * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        const std::int64_t i = piece / pieces, first = piece % pieces * kFew, some = std::min(kFew, coils - first);
        regular_line(weights.host.data() + sets[static_cast<std::size_t>(i)] * samples * points,
                     readouts.host_data.view().part((i * coils + first) * samples, {some, samples}),
                     to.view().part((i * coils + first) * points, {some, points}));
      }
    });
    readouts.host_data = std::move(to);
  } else {
    Array<cfloat> to = scan_->compute.allocate<cfloat>({count, coils, points});
    numerics::combine_samples(scan_->compute, {sets.data(), {count}}, weights.device.cview(), readouts.data.cview(),
                              to.view());
    readouts.data = std::move(to);
  }
  for (auto& head : readouts.heads) {
    head.number_of_samples = static_cast<std::uint16_t>(points);
    head.center_sample = static_cast<std::uint16_t>(points / 2);
    head.discard_pre = head.discard_post = 0;
    head.trajectory_dimensions = 0;
  }
}

}  // namespace echotrain
