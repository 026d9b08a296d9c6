#include "gadgets/epi/epi_phase_correction.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "gadgets/epi/epi_readouts.h"
#include "gadgets/numerics/epi/line_changes.h"
#include "gadgets/numerics/fft/fft.h"
#include "gadgets/shared/lines/epi_lines.h"

namespace echotrain {
namespace {

using protocol::ReadoutKind;

/// Factors [2, coil or 1, x] of profiles: lines that run forward stay; of a line that was stored the other way round
/// the mirrored profile has k = 0 one sample off where `points` is even.
std::vector<cfloat> factors_of(const std::vector<double>& phases, std::int64_t points) {
  std::vector<cfloat> out(phases.size(), cfloat{1});
  const std::int64_t middle = points / 2, shift = points - 1 - 2 * middle;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const std::int64_t x = static_cast<std::int64_t>(i) % points - middle;
    const double turn = 2 * std::numbers::pi * static_cast<double>(shift * x) / static_cast<double>(points);
    out.push_back(cfloat(std::polar(1.0, turn - phases[i])));
  }
  return out;
}

/// The header of a line that is turned.
void turn(protocol::AcquisitionHeader& head) {
  head.flags = head.flags & ~kReversedFlag;
  const int samples = head.number_of_samples, centre = head.center_sample;
  // Senders give reversed lines the centre of the others.
  if (centre != samples / 2) head.center_sample = static_cast<std::uint16_t>(samples - 1 - centre);
  const std::uint16_t pre = head.discard_pre;
  head.discard_pre = head.discard_post;
  head.discard_post = pre;
}

}  // namespace

Parameters<EpiPhaseCorrection::Options> EpiPhaseCorrection::parameters() {
  return Parameters<Options>()
      .choice(
          "method", &Options::method, {"linear", "pointwise", "none"},
          "the phase along the readout: a straight line, or what navigators show at each point; none: lines are only "
          "turned")
      .choice("coils", &Options::coils, {"joint", "each"}, "one phase for all coils, or one for each")
      .flag("b0_drift", &Options::b0_drift,
            "take out what each shot's navigators precess more than those of the slice's first shot");
}

void EpiPhaseCorrection::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) epi_.push_back(encoding.trajectory == protocol::Trajectory::epi);
  if (std::find(epi_.begin(), epi_.end(), true) == epi_.end())
    throw ClientError(fmt::format(
        "epi_phase_correction takes EPI, but the header's trajectory is '{}'; set it to 'epi', or use another "
        "pipeline: cartesian_2d takes 'cartesian'",
        protocol::to_string(header.encodings.front().trajectory)));
  EpiLines::promise(scan);
}

void EpiPhaseCorrection::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  const bool epi = readouts.frame ? epi_.at(readouts.frame->key.encoding)
                                  : !readouts.heads.empty() && epi_.at(readouts.heads.front().encoding_space_ref);
  if (epi && readouts.kind == ReadoutKind::phase_correction) return learn(readouts);
  if (epi && (readouts.kind == ReadoutKind::imaging || readouts.kind == ReadoutKind::calibration)) {
    if (!readouts.heads.empty()) correct(readouts);
    if (readouts.frame && readouts.last) note(readouts);
  }
  emit(std::move(readouts));
}

void EpiPhaseCorrection::learn(const Readouts& navigators) {
  if (options_.method == "none") return;
  const std::int64_t coils = navigators.host_data.shape()[1], points = navigators.host_data.shape()[2];
  const auto& transform = transforms_.try_emplace(points, points).first->second;
  for (std::size_t i = 0; i < navigators.heads.size(); ++i) {
    const auto& head = navigators.heads[i];
    const auto line = navigators.host_data.view().part(static_cast<std::int64_t>(i) * coils * points, {coils, points});
    states_[{head.encoding_space_ref, head.idx.slice}].train.add(head, transform(line, is_reversed(head)), points);
  }
}

/// Of the readout's slice, or of the nearest one that has navigators.
EpiPhaseCorrection::State& EpiPhaseCorrection::state_for(const protocol::AcquisitionHeader& head) {
  const Slice own{head.encoding_space_ref, head.idx.slice};
  const auto found = states_.find(own);
  if (found != states_.end() && found->second.train.has_navigators()) return found->second;
  State* nearest = nullptr;
  int distance = 0;
  for (auto& [slice, state] : states_) {
    const int away = std::abs(int{slice.second} - int{own.second});
    if (slice.first != own.first || !state.train.has_navigators() || (nearest != nullptr && away >= distance)) continue;
    nearest = &state;
    distance = away;
  }
  if (nearest == nullptr) return states_[own];
  scan_->warn(
      fmt::format("epi_phase_correction: slice {} has no phase-correction lines before its lines; it is corrected by "
                  "those of another "
                  "slice",
                  own.second));
  return *nearest;
}

/// Makes the factors of lines after new navigators, and once without any.
void EpiPhaseCorrection::update(State& state, const Slice& slice, std::int64_t coils, std::int64_t points) {
  EchoTrain& train = state.train;
  const bool navigators = train.has_navigators();
  if (navigators && (train.points() != points || train.coils() != coils))
    throw ClientError(
        fmt::format("epi_phase_correction: phase-correction lines of slice {} have {} coils and {} samples, but its "
                    "lines have {} and "
                    "{}; send them as lines of the image are sent{}",
                    slice.second, train.coils(), train.points(), coils, points,
                    train.points() != points ? ", and put ramp_regrid before this gadget" : ""));
  if (!train.changed() && state.factors && state.factors.shape()[2] == points) return;
  if (navigators) state.phase = train.odd_even(options_);
  const char* turned = "lines are only turned round, and ghosts remain";
  if (!navigators && options_.method != "none")
    scan_->warn(
        fmt::format("epi_phase_correction: no phase-correction lines (flag 24) came before the lines of slice {}; {}",
                    slice.second, turned));
  if (navigators && !state.phase)
    scan_->warn(
        fmt::format("epi_phase_correction: the {} phase-correction line(s) of slice {} all run the same way; flag "
                    "every second one as "
                    "reversed (flag 22), or send two or more; {}",
                    train.lines(), slice.second, turned));
  if (state.phase && train.mirrored())
    scan_->warn(
        fmt::format("epi_phase_correction: reversed phase-correction lines of slice {} look like mirrored ones; is "
                    "flag 22 set on the "
                    "lines that run backwards?",
                    slice.second));
  if (navigators && train.lines() == 2)
    scan_->info(
        "epi_phase_correction: two phase-correction lines do not tell odd/even errors from what spins precess between "
        "them; three do");
  const std::vector<double> phases =
      state.phase ? state.phase->phases : std::vector<double>(static_cast<std::size_t>(points));
  const std::vector<cfloat> factors = factors_of(phases, points);
  const std::int64_t each = static_cast<std::int64_t>(phases.size()) / points;
  state.factors = scan_->compute.upload<cfloat>({factors.data(), {2, each, points}});
}

void EpiPhaseCorrection::correct(Readouts& readouts) {
  numerics::Context& compute = scan_->compute;
  const numerics::Shape shape = readouts.data.shape();
  const std::int64_t points = shape[2];
  const auto& first = readouts.heads.front();
  State& state = state_for(first);
  update(state, {first.encoding_space_ref, first.idx.slice}, shape[1], points);
  const auto own = states_.find({first.encoding_space_ref, first.idx.slice});
  const bool drifts =
      options_.b0_drift && own != states_.end() && &own->second == &state && state.train.has_navigators();
  std::vector<numerics::LineChange> changes;  // of the lines that do change; others keep their bits
  std::vector<std::int64_t> which;
  for (std::size_t i = 0; i < readouts.heads.size(); ++i) {
    auto& head = readouts.heads[i];
    const bool reversed = is_reversed(head);
    numerics::LineChange change{reversed ? 1 : 0, reversed ? 1 : 0, {1, 0}};
    if (drifts) {
      const double phase = state.train.drift_at_next_line();
      if (phase != 0) change.factor = cfloat(std::polar(1.0, -phase));
    }
    if (!reversed && change.factor == cfloat{1, 0}) continue;
    changes.push_back(change);
    which.push_back(static_cast<std::int64_t>(i));
    if (reversed) turn(head);
  }
  if (which.empty()) return;
  const auto count = static_cast<std::int64_t>(which.size());
  Array<cfloat> profiles = compute.allocate<cfloat>({count, shape[1], points});
  Array<cfloat> changed = compute.allocate<cfloat>({count, shape[1], points});
  const float scale = 1.0f / static_cast<float>(points);
  for (std::int64_t i = 0; i < count; ++i)
    numerics::centered_fft(compute, readouts.data.cview().slice(which[static_cast<std::size_t>(i)]),
                           profiles.view().slice(i), {points}, 1, numerics::Direction::inverse, scale);
  numerics::change_lines(compute, {changes.data(), {count}}, state.factors.cview(), profiles.cview(), changed.view());
  for (std::int64_t i = 0; i < count; ++i)
    numerics::centered_fft(compute, changed.cview().slice(i),
                           readouts.data.view().slice(which[static_cast<std::size_t>(i)]), {points}, 1,
                           numerics::Direction::forward, 1.0f);
}

void EpiPhaseCorrection::note(Readouts& readouts) {
  const auto& head = readouts.frame->reference;
  const State& state = state_for(head);
  std::map<std::string, std::string> notes{{"epi_correction", state.phase ? options_.method : "none"}};
  if (state.phase) {
    notes["epi_slope"] = fmt::format("{:.5f}", state.phase->linear.slope);
    notes["epi_constant"] = fmt::format("{:.5f}", state.phase->linear.constant);
    notes["ghost_level"] = fmt::format("{:.5f}", state.phase->ghost_after);
    notes["ghost_level_uncorrected"] = fmt::format("{:.5f}", state.phase->ghost_before);
    if (options_.b0_drift) notes["epi_drift"] = fmt::format("{:.6f}", state.train.drift_per_echo());
  }
  readouts.frame = with_notes(*readouts.frame, notes);
}

}  // namespace echotrain
