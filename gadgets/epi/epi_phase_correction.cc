#include "gadgets/epi/epi_phase_correction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gadgets/epi/epi_readouts.h"
#include "gadgets/numerics/mri/epi/ghost_search.h"
#include "gadgets/shared/epi_lines.h"

namespace echotrain {
namespace {

using protocol::ReadoutKind;

constexpr std::int64_t kMostCoils = 4, kMostSearched = 512;  // coils, and points and rows, that the search uses
constexpr std::int64_t kFewCoils = 8;                        // coils whose profiles one piece of work makes
constexpr std::int64_t kMostPoints = 1024;                   // points of a navigator: its transform costs their square

/// Appends the factors [coil or 1, x] of reversed lines' profiles. The mirrored profile of a line that was stored the
/// other way round has k = 0 one sample off where `points` is even.
void add_factors(const std::vector<double>& phases, const numerics::LinearPhase& more, std::int64_t points,
                 std::vector<cfloat>& to) {
  const std::int64_t middle = points / 2, shift = points - 1 - 2 * middle;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const std::int64_t x = static_cast<std::int64_t>(i) % points - middle;
    const double turn = 2 * std::numbers::pi * static_cast<double>(shift * x) / static_cast<double>(points);
    to.push_back(cfloat(std::polar(1.0, turn - phases[i] - more.constant - more.slope * static_cast<double>(x))));
  }
}

/// Changes the header of a line that is turned.
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
      .choice("lines", &Options::lines, {"each", "alike"},
              "each: where a separate scan of navigators has as many lines as a train, each loses its own phase")
      .choice("refine", &Options::refine, {"none", "entropy"},
              "whether the first frame of each slice is held, and the phase improved until its image has least entropy")
      .flag("b0_drift", &Options::b0_drift,
            "take out what each shot's navigators precess more than those of the slice's first shot")
      .flag("dual_polarity", &Options::dual_polarity,
            "take out what else differs between lines of both directions, by kernels from reference lines (flag 20) "
            "that came twice, with flag 22 and without; frames are held until they are whole");
}

void EpiPhaseCorrection::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  if (options_.dual_polarity) dual_ = std::make_unique<DualPolarity>(scan);
  for (const auto& encoding : header.encodings) {
    multiband_.push_back(encoding.multiband && encoding.multiband->factor > 1);
    const int slices = encoding.slice ? encoding.slice->maximum + 1 : 1;
    groups_.push_back(multiband_.back() ? std::max(1, slices / static_cast<int>(encoding.multiband->factor)) : slices);
    trains_.push_back(encoding.description ? encoding.description->value("etl").value_or(0) : 0);
    announced_.push_back(encoding.description ? encoding.description->value("numberOfNavigators").value_or(0) : 0);
    epi_.push_back(encoding.trajectory == protocol::Trajectory::epi);
    rows_.push_back(encoding.encoded.matrix[1]);
    volume_.push_back(encoding.encoded.matrix[2] > 1);
  }
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
  const bool navigates = readouts.kind == ReadoutKind::phase_correction;
  if (!epi || (!navigates && readouts.kind != ReadoutKind::imaging && readouts.kind != ReadoutKind::calibration))
    return emit(std::move(readouts));
  if (!readouts.heads.empty())
    if (const std::uint16_t encoding = readouts.heads.front().encoding_space_ref;
        keeps_directions(encoding) && !decided_.contains(encoding)) {
      if (readouts.kind != ReadoutKind::imaging) return waiting_[encoding].push_back(std::move(readouts));
      take_waiting(encoding, emit);
    }
  if (navigates) return learn(readouts);
  if (dual_ && readouts.kind == ReadoutKind::imaging && !readouts.heads.empty())
    dual_->release(readouts.heads.front().idx.slice, emit);
  readouts.white = false;  // kernels of dual polarity join lines
  std::vector<bool> reversed;
  if (!readouts.heads.empty()) reversed = correct(readouts);
  if (dual_ && readouts.kind == ReadoutKind::calibration && !readouts.heads.empty() &&
      !volume_.at(readouts.heads.front().encoding_space_ref) &&
      !multiband_.at(readouts.heads.front().encoding_space_ref))
    return dual_->learn(std::move(readouts), reversed, emit);
  if (!readouts.frame) return emit(std::move(readouts));
  const Slice slice{readouts.frame->key.encoding, readouts.frame->key.slice};
  State& state = states_[slice];
  const std::uint64_t frame = readouts.frame->id;
  const bool last = readouts.last, kernels = has_kernels(slice);
  if (kernels || searches(slice, state, source_of(slice)) || held_.contains(frame)) {
    std::vector<Held>& held = held_[frame];
    held.push_back({std::move(readouts), std::move(reversed), state.found.has_value()});
    if (!last) return;
    const std::optional<double> missed = kernels ? dual_->correct(slice, held) : std::nullopt;
    if (!missed && !state.found && (!kernels || searches(slice, state, source_of(slice)))) search(state, slice, held);
    if (!missed && state.found) complete(state, held);
    note(held.back().readouts, missed);
    for (Held& each : held) emit(std::move(each.readouts));
    held_.erase(frame);
    return;
  }
  if (last) note(readouts, {});
  emit(std::move(readouts));
}

/// Finds the groups whose references came both ways, and takes what waited for the encoding's first image.
void EpiPhaseCorrection::take_waiting(std::uint16_t encoding, const Emit<Readouts>& emit) {
  decided_.insert(encoding);
  std::map<Slice, std::map<std::uint16_t, std::array<bool, 2>>> ways;
  for (const Readouts& each : waiting_[encoding])
    for (const auto& head : each.heads)
      if (each.kind == ReadoutKind::calibration)
        ways[{encoding, head.idx.slice}][head.idx.kspace_encode_step_1][is_reversed(head) ? 1 : 0] = true;
  std::map<Slice, bool> both;
  for (const auto& [slice, lines] : ways) {
    bool& all = both.try_emplace(group_of(slice), true).first->second;
    all = all && std::any_of(lines.begin(), lines.end(), [](const auto& l) { return l.second[0] && l.second[1]; });
  }
  for (const auto& [group, all] : both)
    if (all) both_ways_.insert(group);
  std::vector<Readouts> waiting = std::move(waiting_.extract(encoding).mapped());
  for (Readouts& each : waiting) process(std::move(each), emit);
}

/// Drops held readouts, whose frames never became whole.
void EpiPhaseCorrection::finish(End /*how*/, const Emit<Readouts>& emit) {
  while (!waiting_.empty()) take_waiting(waiting_.begin()->first, emit);
  if (dual_) dual_->release({}, emit);
  held_.clear();
}

void EpiPhaseCorrection::learn(const Readouts& navigators) {
  if (options_.method == "none") return;
  const std::int64_t coils = navigators.host_data.shape()[1], points = navigators.host_data.shape()[2];
  if (points > kMostPoints)
    throw ClientError(fmt::format("epi_phase_correction: phase-correction lines have {} samples; at most {} are taken",
                                  points, kMostPoints));
  const auto& transform = transforms_.try_emplace(points, points).first->second;
  for (std::size_t i = 0; i < navigators.heads.size(); ++i) {
    const auto& head = navigators.heads[i];
    const auto line = navigators.host_data.view().part(static_cast<std::int64_t>(i) * coils * points, {coils, points});
    std::vector<numerics::cdouble> profile(static_cast<std::size_t>(coils * points));
    scan_->compute.threads().parallel_for(coils, kFewCoils, [&](std::int64_t begin, std::int64_t end) {
      const auto some = transform(line.part(begin * points, {end - begin, points}), is_reversed(head));
      std::copy(some.begin(), some.end(), profile.begin() + begin * points);
    });
    states_[{head.encoding_space_ref, head.idx.slice}].train.add(head, std::move(profile), points);
  }
}

/// The slice itself, or the nearest slice with navigators if it has none.
EpiPhaseCorrection::State& EpiPhaseCorrection::source_of(const Slice& slice) {
  State& own = states_[slice];
  if (own.train.has_navigators()) return own;
  State* nearest = nullptr;
  int distance = 0;
  for (auto& [other, state] : states_) {
    const int away = std::abs(int{other.second} - int{slice.second});
    if (other.first != slice.first || !state.train.has_navigators() || (nearest != nullptr && away >= distance))
      continue;
    nearest = &state;
    distance = away;
  }
  return nearest == nullptr ? own : *nearest;
}

/// Finds the phase of a slice whose navigators have changed.
void EpiPhaseCorrection::find_phase(State& source, const Slice& slice, std::size_t excited) {
  EchoTrain& train = source.train;
  source.phase = train.odd_even(options_, excited);
  ++source.phases;
  if (leaves_kernels(slice) && source.phase) share_phase(source, slice, excited);
  if (source.phase && !source.phase->of_lines.empty())
    scan_->info(
        fmt::format("epi_phase_correction: each line of slice {} is corrected by the line of its number of {} "
                    "phase-correction lines",
                    slice.second, train.lines()));
  if (!source.phase)
    scan_->warn(
        fmt::format("epi_phase_correction: the {} phase-correction line(s) of slice {} all run the same way; flag "
                    "every second one as "
                    "reversed (flag 22), or send two or more; the phase is searched for in the image",
                    train.lines(), slice.second));
  if (source.phase && train.mirrored())
    scan_->warn(
        fmt::format("epi_phase_correction: reversed phase-correction lines of slice {} look like mirrored ones; is "
                    "flag 22 set on the "
                    "lines that run backwards?",
                    slice.second));
  if (static_cast<double>(train.lines()) < announced_[slice.first])
    scan_->warn(
        fmt::format("epi_phase_correction: {} phase-correction line(s) came for slice {}, but the header's "
                    "numberOfNavigators is {:g}; those that came are used",
                    train.lines(), slice.second, announced_[slice.first]));
  if (train.lines() == 2)
    scan_->info(
        "epi_phase_correction: two phase-correction lines do not tell odd/even errors from what spins precess between "
        "them; three do");
}

/// Makes the phase that of its group's first navigators and what this slice's have changed since its first ones: of
/// slices that are told apart later, kernels make up for the difference of their phases.
void EpiPhaseCorrection::share_phase(State& source, const Slice& slice, std::size_t excited) {
  std::vector<double>& phases = source.phase->phases;
  std::vector<double>&shared = shared_[group_of(slice)], &first = source.first[excited];
  if (shared.size() != phases.size()) shared = phases;
  if (first.size() != phases.size()) first = phases;
  for (std::size_t i = 0; i < phases.size(); ++i) phases[i] += shared[i] - first[i];
  source.phase->of_lines.clear();
}

void EpiPhaseCorrection::make_factors(State& state, State& source, std::int64_t coils, std::int64_t points) {
  const EchoTrain& train = source.train;
  if (train.has_navigators() && (train.points() != points || train.coils() != coils))
    throw ClientError(
        fmt::format("epi_phase_correction: phase-correction lines have {} coils and {} samples, but lines of the image "
                    "have {} and {}; "
                    "send them alike{}",
                    train.coils(), train.points(), coils, points,
                    train.points() != points ? ", and put ramp_regrid before this gadget" : ""));
  std::vector<double> phases =
      source.phase ? source.phase->phases : std::vector<double>(static_cast<std::size_t>(points));
  if (source.phase && state.without) state.found.reset();  // the old phase was for lines without navigators
  const numerics::LinearPhase more = state.found.value_or(numerics::LinearPhase{});
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const std::int64_t x = static_cast<std::int64_t>(i) % points - points / 2;
    phases[i] += more.constant + more.slope * static_cast<double>(x);
  }
  std::vector<cfloat> factors(phases.size(), cfloat{1});
  add_factors(phases, {}, points, factors);
  state.sets.clear();
  std::int32_t sets = 2;
  for (std::size_t l = 0; source.phase && l < source.phase->of_lines.size(); ++l) {
    state.sets.push_back(train.reversed(l) ? sets++ : 1);
    if (train.reversed(l)) add_factors(phases, source.phase->of_lines[l], points, factors);
  }
  state.factors = numerics::profile_phases(
      scan_->compute, {factors.data(), {sets, static_cast<std::int64_t>(phases.size()) / points, points}});
  state.coils = coils;
  state.made_of = {&source, source.phases};
}

/// The factors of a reversed line. A train's lines have phases of their own as far as navigators ran as they do.
std::int32_t EpiPhaseCorrection::set_of(const State& state, const State& source, std::uint16_t encoding) const {
  if (state.sets.empty()) return 1;
  const std::int64_t lines = trains_[encoding] >= 1 ? std::llround(std::min(trains_[encoding], 65535.0))
                                                    : static_cast<std::int64_t>(state.sets.size());
  const auto echo = static_cast<std::size_t>(state.echo % lines);
  return echo < state.sets.size() && source.train.reversed(echo) ? state.sets[echo] : 1;
}

/// True if the slice's phase is still to be found in its first frame.
bool EpiPhaseCorrection::searches(const Slice& slice, const State& state, const State& source) const {
  if (leaves_kernels(slice)) return false;
  return options_.method != "none" && !state.found && (options_.refine == "entropy" || !source.phase);
}

/// Corrects readouts. Returns which lines were reversed.
std::vector<bool> EpiPhaseCorrection::correct(Readouts& readouts) {
  const auto& heads = readouts.heads;
  std::vector<bool> reversed;
  for (const auto& head : heads) reversed.push_back(is_reversed(head));
  const auto slice_of = [&](std::size_t i) { return Slice{heads[i].encoding_space_ref, heads[i].idx.slice}; };
  Array<cfloat> changed;
  for (std::size_t begin = 0, end = 0; begin < heads.size(); begin = end) {
    while (end < heads.size() && slice_of(end) == slice_of(begin)) ++end;
    correct(readouts, slice_of(begin), begin, end, changed);
  }
  if (changed) readouts.data = std::move(changed);
  return reversed;
}

/// Corrects the lines from begin to end, which are of one slice, into `changed`, in one pass. Where no line of the
/// batch changes, `changed` stays empty.
void EpiPhaseCorrection::correct(Readouts& readouts, const Slice& slice, std::size_t begin, std::size_t end,
                                 Array<cfloat>& changed) {
  const std::int64_t coils = readouts.data.shape()[1], points = readouts.data.shape()[2];
  State &state = states_[slice], &source = source_of(slice);
  const auto lines = std::pair(readouts.heads.begin() + static_cast<std::ptrdiff_t>(begin),
                               readouts.heads.begin() + static_cast<std::ptrdiff_t>(end));
  // Plain reference lines need no navigators, nor do those from which kernels are made.
  const bool images = readouts.kind == ReadoutKind::imaging;
  const bool turns = std::any_of(lines.first, lines.second, is_reversed) &&
                     !(dual_ && (!images || has_kernels(slice) || leaves_kernels(slice)));
  if (turns && options_.method != "none" && !source.train.has_navigators())
    scan_->warn(fmt::format(
        "epi_phase_correction: no phase-correction lines (flag 24) came before the lines of slice {}; the phase is "
        "searched for in the image, which may be off by half a field of view",
        slice.second));
  if (turns && &source != &state)
    scan_->warn(
        fmt::format("epi_phase_correction: slice {} has no phase-correction lines before its lines; it is corrected by "
                    "those of another "
                    "slice",
                    slice.second));
  if (source.train.changed()) {
    state.lines = state.reversed = 0;
    state.references = false;
    state.echo = 0;
    find_phase(source, slice, images && multiband_[slice.first] ? 1 : 0);
  }
  state.references = state.references || !images;
  const std::pair<const State*, std::uint64_t> made_of{&source, source.phases};
  if (!state.factors.values || state.factors.values.shape()[2] != points || state.coils != coils ||
      state.made_of != made_of)
    make_factors(state, source, coils, points);
  const bool drifts = options_.b0_drift && state.train.has_navigators();
  std::vector<numerics::LineChange> changes;
  for (std::size_t i = begin; i < end; ++i) {
    auto& head = readouts.heads[i];
    const bool reversed = is_reversed(head);
    ++state.lines;
    state.reversed += reversed ? 1 : 0;
    if (images && readouts.frame && state.frame != readouts.frame->id) state.echo = 0;
    if (images && readouts.frame) follow_blips(state, readouts.frame->id, head.idx.kspace_encode_step_1);
    numerics::LineChange& change =
        changes.emplace_back(numerics::LineChange{reversed ? set_of(state, source, slice.first) : 0, reversed ? 1 : 0});
    ++state.echo;
    if (drifts) {
      const double phase = state.train.drift_at_next_line();
      if (phase != 0) change.factor = cfloat(std::polar(1.0, -phase));
    }
    if (!reversed && change.factor == cfloat{1, 0}) change.set = numerics::kLineStays;
    if (reversed) turn(head);
    if (reversed && keeps_directions(slice.first)) head.flags |= kReversedFlag;
  }
  const auto stays = [](const numerics::LineChange& change) { return change.set == numerics::kLineStays; };
  if (changes.size() == readouts.heads.size() && std::all_of(changes.begin(), changes.end(), stays)) return;
  if (!changed) changed = scan_->compute.allocate<cfloat>(readouts.data.shape());
  const numerics::Shape some{static_cast<std::int64_t>(end - begin), coils, points};
  const std::int64_t at = static_cast<std::int64_t>(begin) * coils * points;
  numerics::change_profiles(scan_->compute, {changes.data(), {some[0]}}, state.factors,
                            readouts.data.cview().part(at, some), changed.view().part(at, some));
}

/// Counts the directions of a frame's blips.
void EpiPhaseCorrection::follow_blips(State& state, std::uint64_t frame, std::int64_t row) {
  if (state.frame == frame) {
    state.rising += row > state.row ? 1 : row < state.row ? -1 : 0;
  } else {
    state.rising = 0;
  }
  state.frame = frame;
  state.row = row;
}

/// Finds the phase that remains in a frame after the navigators.
void EpiPhaseCorrection::search(State& state, const Slice& slice, const std::vector<Held>& held) {
  numerics::Context& compute = scan_->compute;
  const State& source = source_of(slice);
  std::vector<HostArray<cfloat>> lines;
  std::vector<std::pair<double, std::int64_t>> power;  // power of coils
  for (const Held& each : held) {
    if (each.readouts.heads.empty()) {
      lines.emplace_back();
      continue;
    }
    lines.push_back(compute.download<cfloat>(each.readouts.data.cview()));
    const numerics::Shape& shape = lines.back().shape();
    for (std::int64_t c = static_cast<std::int64_t>(power.size()); c < shape[1]; ++c) power.emplace_back(0, c);
    for (std::int64_t i = 0; i < lines.back().size(); ++i)
      power[static_cast<std::size_t>(i / shape[2] % shape[1])].first -= std::norm(lines.back().data()[i]);
  }
  if (power.empty()) return;
  if (rows_[slice.first] > kMostSearched || state.factors.values.shape()[2] > kMostSearched) {
    state.found = numerics::LinearPhase{};
    scan_->warn(
        fmt::format("epi_phase_correction: the phase is searched for in images of at most {0} x {0}; ghosts remain",
                    kMostSearched));
    return;
  }
  std::sort(power.begin(), power.end());
  const auto coils = std::min<std::int64_t>(kMostCoils, static_cast<std::int64_t>(power.size()));
  const std::int64_t points = state.factors.values.shape()[2];
  const auto& transform = transforms_.try_emplace(points, points).first->second;
  numerics::GhostSearch search(compute.account(), coils, rows_[slice.first], points);
  std::vector<cfloat> line(static_cast<std::size_t>(coils * points));
  for (std::size_t h = 0; h < held.size(); ++h)
    for (std::size_t i = 0; i < held[h].readouts.heads.size(); ++i) {
      compute.check_stop();
      const std::int64_t row = held[h].readouts.heads[i].idx.kspace_encode_step_1;
      if (row >= rows_[slice.first]) continue;
      for (std::int64_t c = 0; c < coils; ++c)
        std::copy_n(
            lines[h].view().slice(static_cast<std::int64_t>(i)).slice(power[static_cast<std::size_t>(c)].second).data(),
            points, line.data() + c * points);
      search.add(row, held[h].reversed[i], transform({line.data(), {coils, points}}, false));
    }
  state.found = search.find(compute.threads(), !source.phase);
  state.without = !source.phase;
  state.factors = {};
  scan_->info(fmt::format("epi_phase_correction: the image of slice {} asks for {:.4f} rad and {:.5f} rad/pixel {}",
                          slice.second, state.found->constant, state.found->slope,
                          source.phase ? "more than its navigators tell" : "between odd and even lines"));
}

/// Applies the phase found later to those lines that came before.
void EpiPhaseCorrection::complete(const State& state, std::vector<Held>& held) {
  for (Held& each : held) {
    if (each.corrected || each.readouts.heads.empty()) continue;
    const std::int64_t points = each.readouts.data.shape()[2];
    std::vector<cfloat> factors;
    for (std::int64_t x = 0; x < points; ++x)
      factors.push_back(
          cfloat(std::polar(1.0, -state.found->constant - state.found->slope * static_cast<double>(x - points / 2))));
    std::vector<numerics::LineChange> changes;
    for (const bool reversed : each.reversed) changes.push_back({reversed ? 0 : numerics::kLineStays, 0, {1, 0}});
    const auto phases = numerics::profile_phases(scan_->compute, {factors.data(), {1, 1, points}});
    Array<cfloat> changed = scan_->compute.allocate<cfloat>(each.readouts.data.shape());
    numerics::change_profiles(scan_->compute, {changes.data(), {each.readouts.data.shape()[0]}}, phases,
                              each.readouts.data.cview(), changed.view());
    each.readouts.data = std::move(changed);
  }
}

/// Tells where a frame's lines do not run both ways as its navigators do. With reference lines among them, which the
/// image lacks, the directions of its own lines are ambiguous.
void EpiPhaseCorrection::check_directions(State& state, const State& source, std::uint16_t slice) {
  constexpr std::int64_t kFewest = 4, kShare = 4;  // fewest lines; share of a direction: trains of three lines have a
                                                   // third
  const std::int64_t fewer = std::min(state.reversed, state.lines - state.reversed);
  if (source.phase && !state.references && state.lines >= kFewest && kShare * fewer < state.lines)
    scan_->warn(
        fmt::format("epi_phase_correction: {} of the {} lines of slice {} are flagged as reversed (flag 22), but its "
                    "phase-correction lines run both ways; is the flag on every line that runs backwards?",
                    state.reversed, state.lines, slice));
  state.lines = state.reversed = 0;
  state.references = false;
}

/// True if the slice's reversed lines are made by kernels from references of both polarities.
bool EpiPhaseCorrection::has_kernels(const Slice& slice) {
  if (!dual_) return false;
  if (volume_[slice.first]) {
    scan_->warn(
        "epi_phase_correction: dual_polarity is not done for volumes (an encoded matrix of several partitions), whose "
        "lines differ by two steps; their lines are corrected by the navigators' phase alone");
    return false;
  }
  if (multiband_[slice.first] && !keeps_directions(slice.first))
    scan_->warn(
        "epi_phase_correction: dual_polarity is not done for slices excited at once (the header's multiband) without "
        "slice_grappa after this gadget; their lines are corrected by the navigators' phase alone. Use epi_timeseries");
  return !multiband_[slice.first] && dual_->ready(slice);
}

/// True if a later gadget (slice_grappa) asks which lines of simultaneous slices were reversed.
bool EpiPhaseCorrection::keeps_directions(std::uint16_t encoding) const {
  return dual_ && multiband_[encoding] && !volume_[encoding] && EpiLines::directions_wanted(*scan_);
}

/// True if that gadget makes a slice's lines by kernels of both directions.
bool EpiPhaseCorrection::leaves_kernels(const Slice& slice) const {
  return both_ways_.contains(group_of(slice)) && keeps_directions(slice.first);
}

/// The slices that are excited with this one, by their lowest.
EpiPhaseCorrection::Slice EpiPhaseCorrection::group_of(const Slice& slice) const {
  return {slice.first, static_cast<std::uint16_t>(slice.second % groups_[slice.first])};
}

void EpiPhaseCorrection::note(Readouts& readouts, std::optional<double> missed) {
  const Slice slice{readouts.frame->key.encoding, readouts.frame->key.slice};
  State &state = states_[slice], &source = source_of(slice);
  check_directions(state, source, slice.second);
  std::map<std::string, std::string> notes{{"epi_correction", source.phase  ? options_.method
                                                              : state.found ? "entropy"
                                                                            : "none"}};
  if (missed) notes["epi_dual_polarity"] = fmt::format("{:.5f}", *missed);
  if (state.found) notes["epi_refined"] = fmt::format("{:.5f} {:.6f}", state.found->constant, state.found->slope);
  if (source.phase) {
    if (!source.phase->of_lines.empty())
      notes["epi_own_phases"] =
          std::to_string(std::count_if(state.sets.begin(), state.sets.end(), [](int s) { return s > 1; }));
    notes["epi_slope"] = fmt::format("{:.5f}", source.phase->linear.slope);
    notes["epi_constant"] = fmt::format("{:.5f}", source.phase->linear.constant);
    notes["ghost_level"] = fmt::format("{:.5f}", source.phase->ghost_after);
    notes["ghost_level_uncorrected"] = fmt::format("{:.5f}", source.phase->ghost_before);
    if (options_.b0_drift) notes["epi_drift"] = fmt::format("{:.6f}", state.train.drift_per_echo());
  }
  if (state.frame == readouts.frame->id && state.rising != 0) notes["epi_blips"] = state.rising > 0 ? "up" : "down";
  readouts.frame = with_notes(*readouts.frame, notes);
}

}  // namespace echotrain
