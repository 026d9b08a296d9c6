#include "gadgets/readouts/gating/breathing_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "gadgets/api/errors.h"
#include "gadgets/numerics/layout/rearrange.h"

namespace echotrain {
namespace {

std::int64_t central_step(const std::optional<protocol::CounterLimit>& limit, std::uint32_t matrix) {
  return limit ? limit->center : matrix / 2;
}

}  // namespace

BreathingGate::BreathingGate(const Options& options, const protocol::Header& header, Scan& scan)
    : options_(options), scan_(scan) {
  for (const auto& encoding : header.encodings) {
    using protocol::Trajectory;
    const auto& matrix = encoding.encoded.matrix;
    const auto& limit_2 = encoding.kspace_encoding_step_2;
    Encoding out;
    out.cartesian = encoding.trajectory == Trajectory::cartesian || encoding.trajectory == Trajectory::epi;
    out.steps_2 = matrix[2] > 1 && (out.cartesian || (limit_2 && limit_2->maximum > limit_2->minimum));
    out.volume = matrix[2] > 1 && !out.steps_2;
    out.step_1 = central_step(encoding.kspace_encoding_step_1, matrix[1]);
    out.step_2 = central_step(limit_2, matrix[2]);
    encodings_.push_back(out);
  }
}

/// The sample in which readout i passes the centre of k-space, if it does.
std::optional<std::int64_t> BreathingGate::centre_of(const Readouts& readouts, std::size_t i) const {
  const protocol::AcquisitionHeader& head = readouts.heads[i];
  const Encoding& encoding = encodings_.at(head.encoding_space_ref);
  const std::int64_t samples = readouts.data.shape()[2];
  if (encoding.steps_2 && head.idx.kspace_encode_step_2 != encoding.step_2) return std::nullopt;
  if (encoding.cartesian) {
    const std::int64_t sample = head.center_sample;
    if (head.idx.kspace_encode_step_1 != encoding.step_1 || sample >= samples) return std::nullopt;
    return sample;
  }
  const std::int64_t values =
      readouts.trajectory.size() / std::max<std::int64_t>(1, readouts.data.shape()[0] * samples);
  const std::int64_t dims = std::min<std::int64_t>(values, encoding.volume ? 3 : 2);
  if (dims < 2 || samples < 2) return std::nullopt;
  const float* at = readouts.trajectory.data() + static_cast<std::int64_t>(i) * samples * values;
  const auto distance = [&](std::int64_t a, const float* from) {
    double square = 0;
    for (std::int64_t d = 0; d < dims; ++d) {
      const double x = at[a * values + d] - (from != nullptr ? static_cast<double>(from[d]) : 0.0);
      square += x * x;
    }
    return square;
  };
  std::int64_t nearest = 0;
  for (std::int64_t s = 1; s < samples; ++s)
    if (distance(s, nullptr) < distance(nearest, nullptr)) nearest = s;
  const std::int64_t beside = nearest > 0 ? nearest - 1 : 1;
  if (!(distance(nearest, nullptr) <= distance(beside, at + nearest * values))) return std::nullopt;
  return nearest;
}

constexpr std::size_t kMostAnatomies = 1024;

bool BreathingGate::add(const Readouts& readouts, std::span<const double> times_ms) {
  const std::size_t count = readouts.heads.size();
  if (count == 0) return false;
  const std::int64_t coils = readouts.data.shape()[1];
  if (coils_ == 0) coils_ = coils;
  if (coils != coils_)
    throw ClientError(
        fmt::format("cardiac_binning: readouts have {} channels, but those before had {}; respiratory: navigator "
                    "needs the same ones throughout",
                    coils, coils_));
  const Anatomy anatomy = anatomy_of(readouts.frame->key);
  if (navigators_.size() >= kMostAnatomies && !navigators_.contains(anatomy))
    throw ClientError(
        fmt::format("cardiac_binning: respiratory: navigator follows the breath of at most {} slices, "
                    "contrasts and sets, each by itself; the scan has more",
                    kMostAnatomies));
  SelfNavigator& navigator =
      navigators_
          .try_emplace(anatomy, scan_.compute.threads(),
                       SelfNavigator::Options{.low_hz = options_.low_hz, .high_hz = options_.high_hz})
          .first->second;
  std::optional<std::int64_t> sample;  // in which the readouts from `begin` on pass the centre
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    navigator.expect(times_ms[i]);
    now_ms_ = std::max(now_ms_, times_ms[i]);
    const auto passes = centre_of(readouts, i);
    if (passes == sample) continue;
    if (sample) copy(readouts, times_ms, begin, i, *sample);
    sample = passes;
    begin = i;
  }
  if (sample) copy(readouts, times_ms, begin, count, *sample);
  return judge(now_ms_);
}

/// Starts the copy of one sample of the readouts [begin, end) to the host.
void BreathingGate::copy(const Readouts& readouts, std::span<const double> times_ms, std::size_t begin, std::size_t end,
                         std::int64_t sample) {
  numerics::Context& compute = scan_.compute;
  const auto count = static_cast<std::int64_t>(end - begin);
  const std::int64_t samples = readouts.data.shape()[2];
  Array<cfloat> centre = compute.allocate<cfloat>({count, 1, coils_, 1});
  numerics::rearrange(
      compute,
      readouts.data.cview().part(static_cast<std::int64_t>(begin) * coils_ * samples, {count, 1, coils_, samples}),
      {.first = {0, 0, sample}}, centre.view());
  const auto times = times_ms.subspan(begin, end - begin);
  copies_.push_back({anatomy_of(readouts.frame->key), {times.begin(), times.end()}, compute.place_on_host(centre)});
}

void BreathingGate::finish() { judge(std::numeric_limits<double>::infinity()); }

bool BreathingGate::judge(double now_ms) {
  const bool any = std::any_of(navigators_.begin(), navigators_.end(),
                               [now_ms](const auto& each) { return each.second.ready(now_ms); });
  if (!any) return false;
  if (!copies_.empty()) scan_.compute.synchronize();
  for (const Copy& copy : copies_)
    for (std::size_t i = 0; i < copy.times_ms.size(); ++i)
      navigators_.at(copy.anatomy)
          .add(copy.times_ms[i],
               {copy.samples.data() + static_cast<std::int64_t>(i) * coils_, static_cast<std::size_t>(coils_)});
  copies_.clear();
  for (auto& [anatomy, navigator] : navigators_) {
    scan_.compute.check_stop();
    navigator.judge(now_ms);
  }
  return true;
}

BreathingGate::Answer BreathingGate::answer(const FrameKey& key, double time_ms) const {
  const auto state = navigators_.at(anatomy_of(key)).state(time_ms);
  if (!state) return Answer::unknown;
  if (verdicts_.insert(state->verdict).second && state->verdict != Verdict::told)
    scan_.warn(
        fmt::format("cardiac_binning: breathing cannot be told in parts of the scan, whose readouts are left "
                    "out: {}",
                    reason(state->verdict)));
  if (state->verdict != Verdict::told) return Answer::unwanted;
  const bool wanted = state->position >= options_.from && (state->position < options_.to || options_.to >= 1);
  return wanted ? Answer::wanted : Answer::unwanted;
}

std::string BreathingGate::nothing_told() const {
  if (verdicts_.empty() || verdicts_.contains(Verdict::told)) return "";
  return fmt::format("cardiac_binning: respiratory: navigator cannot tell breathing anywhere in the scan: {}",
                     reason(*verdicts_.begin()));
}

std::string BreathingGate::reason(Verdict verdict) const {
  switch (verdict) {
    case Verdict::without_centre:
      return "no readout passes the centre of k-space there (both encoding steps the header's central ones, or a "
             "trajectory through 0)";
    case Verdict::too_short:
      return fmt::format(
          "acquisition_time_stamp spans less than the longest breath, {:g} s; acquire longer, look at "
          "tick_ms ({:g}), or raise navigator_low_hz ({:g})",
          1 / options_.low_hz, options_.tick_ms, options_.low_hz);
    case Verdict::too_seldom:
      return fmt::format(
          "the centre of k-space comes less often than every {:g} s; acquire it more often, look at "
          "tick_ms ({:g}), or lower navigator_high_hz ({:g})",
          0.5 / options_.high_hz, options_.tick_ms, options_.high_hz);
    case Verdict::unchanging:
      return fmt::format(
          "the centre of k-space does not change between navigator_low_hz ({:g}) and navigator_high_hz "
          "({:g}) in any of {} channels",
          options_.low_hz, options_.high_hz, coils_);
    case Verdict::told:
      break;
  }
  return "";
}

}  // namespace echotrain
