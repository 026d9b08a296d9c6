#include "gadgets/readouts/gating/breathing_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "gadgets/api/errors.h"

namespace echotrain {
namespace {

constexpr std::size_t kMostAnatomies = 1024;

}  // namespace

BreathingGate::BreathingGate(Options options, const protocol::Header& header, Scan& scan)
    : options_(std::move(options)), scan_(scan), centres_(options_.who, header, scan) {}

bool BreathingGate::add(const Readouts& readouts, std::span<const double> times_ms) {
  if (readouts.heads.empty()) return false;
  for (const double time_ms : times_ms) expect(CentreSamples::anatomy_of(readouts.frame->key), time_ms);
  centres_.add(readouts, times_ms);
  if (!ready()) return false;
  judge(false);
  return true;
}

void BreathingGate::finish() { judge(true); }

SelfNavigator& BreathingGate::navigator(const Anatomy& anatomy) {
  if (navigators_.size() >= kMostAnatomies && !navigators_.contains(anatomy))
    throw ClientError(
        fmt::format("{} follows the breath of at most {} slices, contrasts and sets, each by itself; the scan has more",
                    options_.who, kMostAnatomies));
  return navigators_
      .try_emplace(anatomy, scan_.compute.threads(),
                   SelfNavigator::Options{.low_hz = options_.low_hz, .high_hz = options_.high_hz})
      .first->second;
}

void BreathingGate::expect(const Anatomy& anatomy, double time_ms) {
  navigator(anatomy).expect(time_ms);
  now_ms_ = std::max(now_ms_, time_ms);
}

void BreathingGate::take(const Anatomy& anatomy, double time_ms, std::span<const cfloat> centre) {
  coils_ = centre.size();
  navigator(anatomy).add(time_ms, centre);
}

bool BreathingGate::ready() const {
  return std::any_of(navigators_.begin(), navigators_.end(),
                     [this](const auto& each) { return each.second.ready(now_ms_); });
}

void BreathingGate::judge(bool ended) {
  centres_.take([this](const Anatomy& anatomy, double time_ms, std::span<const cfloat> centre) {
    take(anatomy, time_ms, centre);
  });
  for (auto& [anatomy, navigator] : navigators_) {
    scan_.compute.check_stop();
    navigator.judge(ended ? std::numeric_limits<double>::infinity() : now_ms_);
  }
}

std::optional<SelfNavigator::State> BreathingGate::state(const Anatomy& anatomy, double time_ms) const {
  const auto state = navigators_.at(anatomy).state(time_ms);
  if (state && verdicts_.insert(state->verdict).second && state->verdict != Verdict::told)
    scan_.warn(fmt::format("{}: breathing cannot be told in parts of the scan, {}: {}",
                           options_.who.substr(0, options_.who.find(':')), options_.fate, reason(state->verdict)));
  return state;
}

BreathingGate::Answer BreathingGate::answer(const Anatomy& anatomy, double time_ms) const {
  const auto told = state(anatomy, time_ms);
  if (!told) return Answer::unknown;
  if (told->verdict != Verdict::told) return Answer::unwanted;
  const bool wanted = told->position >= options_.from && (told->position < options_.to || options_.to >= 1);
  return wanted ? Answer::wanted : Answer::unwanted;
}

std::string BreathingGate::nothing_told() const {
  if (verdicts_.empty() || verdicts_.contains(Verdict::told)) return "";
  return fmt::format("{} cannot tell breathing anywhere in the scan: {}", options_.who, reason(*verdicts_.begin()));
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
