#include "gadgets/readouts/cardiac_binning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

constexpr std::size_t kIntervalsCompared = 8;
constexpr std::int64_t kMostPhases = 1000;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The length of systole [ms] in an interval between two R waves.
double systole_ms(double interval_ms) {
  return std::clamp(546 - 2.1 * 60000 / interval_ms, 0.2 * interval_ms, 0.8 * interval_ms);
}

}  // namespace

Parameters<CardiacBinning::Options> CardiacBinning::parameters() {
  return Parameters<Options>()
      .integer("phases", &Options::phases, 1, kMostPhases,
               "into how many equal parts an interval between beats is divided")
      .choice(
          "fill", &Options::fill, {"linear", "nearest", "none"},
          "lines that a phase lacks (where R > 1, of one lattice): linear, between the readouts before and after its "
          "middle; nearest, the nearer of these; none, zero")
      .number("reject", &Options::reject, 0, 100,
              "largest difference of an interval from the median of those before it, as a share of that; 0 keeps all")
      .integer("trigger_channel", &Options::trigger_channel, -1, 65535,
               "channel of the ECG that marks triggers; -1: the header's waveformTriggerChannel, or the R waves of a "
               "lead if it names none")
      .integer("lead", &Options::lead, 0, 65535, "channel of the ECG whose R waves are looked for")
      .number("min_interval_ms", &Options::min_interval_ms, 1, 10000, "shortest time between two beats")
      .unit("ms")
      .number("tick_ms", &Options::tick_ms, 1e-6, 1e6,
              "unit of acquisition_time_stamp and of the ECG's time_stamp; ISMRMRD leaves it to the vendor")
      .unit("ms")
      .choice("beats", &Options::beats, {"ecg", "stamps", "index"},
              "what tells of heartbeats: ecg (waveforms), stamps, the readouts' own physiology_time_stamp, or index: "
              "idx.phase counts the phases")
      .integer("stamp", &Options::stamp, 0, 2, "which of the three physiology_time_stamps counts from the R wave")
      .number("stamp_tick_ms", &Options::stamp_tick_ms, 1e-6, 1e6, "unit of physiology_time_stamp")
      .unit("ms")
      .choice("systole", &Options::systole, {"linear", "weissler"},
              "how phases follow an interval's length: linear stretches all of it; weissler stretches systole, whose "
              "length follows the heart rate, and diastole each by itself")
      .choice("respiratory", &Options::respiratory, {"none", "stamp", "navigator", "attached"},
              "what tells of breathing: none (it is not looked at), stamp (a physiology_time_stamp), navigator, the "
              "centre of k-space, or attached, the position that a k0_navigator before has given each readout")
      .integer("respiratory_stamp", &Options::respiratory_stamp, 0, 2,
               "respiratory: stamp: which of the three physiology_time_stamps counts from the last breath's trigger")
      .number("respiratory_from_ms", &Options::respiratory_from_ms, 0, 1e6,
              "respiratory: stamp: readouts closer to the last breath's trigger are left out")
      .unit("ms")
      .number("respiratory_to_ms", &Options::respiratory_to_ms, 0, 1e6,
              "respiratory: stamp: readouts as far from the last breath's trigger, or farther, are left out")
      .unit("ms")
      .number("navigator_from", &Options::navigator_from, 0, 1,
              "respiratory: navigator or attached: readouts nearer to expiration than this share of all moments are "
              "left out")
      .number("navigator_to", &Options::navigator_to, 0, 1,
              "respiratory: navigator or attached: readouts nearer to inspiration than this share of all moments are "
              "left out; 0.5 keeps the half nearest to expiration, 1 keeps inspiration too")
      .number("navigator_low_hz", &Options::navigator_low_hz, 0.02, 10,
              "respiratory: navigator: frequency of the slowest breathing; a mouse: 0.5")
      .unit("Hz")
      .number("navigator_high_hz", &Options::navigator_high_hz, 0.02, 10,
              "respiratory: navigator: frequency of the fastest breathing, below the heart's; a mouse: 4")
      .unit("Hz")
      .integer("respiratory_slot", &Options::respiratory_slot, 0, 7,
               "respiratory: attached: which user_float holds the position, k0_navigator's `slot`");
}

void CardiacBinning::check_options() const {
  const Options& o = options_;
  if (o.respiratory == "stamp" && o.beats == "stamps" && o.respiratory_stamp == o.stamp)
    throw ClientError(
        fmt::format("cardiac_binning: stamp and respiratory_stamp are both {}; heart and breath need a "
                    "physiology_time_stamp each",
                    o.stamp));
  if (!(o.respiratory_from_ms < o.respiratory_to_ms))
    throw ClientError(
        fmt::format("cardiac_binning: no breath lies between respiratory_from_ms {} and respiratory_to_ms {}",
                    o.respiratory_from_ms, o.respiratory_to_ms));
  if (!(o.navigator_from < o.navigator_to))
    throw ClientError(fmt::format("cardiac_binning: no breath lies between navigator_from {} and navigator_to {}",
                                  o.navigator_from, o.navigator_to));
  constexpr double kWidest = 20;
  if (!(o.navigator_low_hz < o.navigator_high_hz && o.navigator_high_hz <= kWidest * o.navigator_low_hz))
    throw ClientError(fmt::format(
        "cardiac_binning: navigator_low_hz {} has to lie below navigator_high_hz {}, and above a {}th of it",
        o.navigator_low_hz, o.navigator_high_hz, kWidest));
}

void CardiacBinning::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  check_options();
  clock_.emplace(options_.tick_ms);
  int channel = static_cast<int>(options_.trigger_channel);
  if (channel < 0) channel = Heartbeats::trigger_channel(header.xml);
  beats_.emplace(Heartbeats::Options{.trigger_channel = channel,
                                     .lead = static_cast<int>(options_.lead),
                                     .min_interval_ms = options_.min_interval_ms,
                                     .tick_ms = options_.tick_ms});
  if (options_.beats == "stamps")
    stamps_.emplace(StampCheck::Options{
        .stamp = options_.stamp, .tick_ms = options_.tick_ms, .stamp_tick_ms = options_.stamp_tick_ms});
  if (options_.respiratory == "navigator")
    breathing_.emplace(BreathingGate::Options{.from = options_.navigator_from,
                                              .to = options_.navigator_to,
                                              .low_hz = options_.navigator_low_hz,
                                              .high_hz = options_.navigator_high_hz,
                                              .tick_ms = options_.tick_ms},
                       header, scan);
  std::int64_t most_phases = 0;
  for (const auto& encoding : header.encodings) {
    one_phase_.push_back(encoding.phase && encoding.phase->minimum == encoding.phase->maximum);
    // Where planes are left out, too, all lines are filled.
    const auto& [y, z, phases] =
        std::tie(encoding.kspace_encoding_step_1, encoding.kspace_encoding_step_2, encoding.phase);
    announced_.push_back(
        {{y ? y->minimum : 0, z ? z->minimum : 0},
         {y ? y->maximum : encoding.encoded.matrix[1] - 1, z ? z->maximum : encoding.encoded.matrix[2] - 1}});
    if (phases) most_phases = std::max<std::int64_t>(most_phases, phases->maximum + 1);
    steps_.push_back(encoding.acceleration[1] > 1 ? 1 : std::max<std::int64_t>(1, encoding.acceleration[0]));
  }
  if (!by_index()) return;
  announces_phases_ = most_phases > 0 && most_phases <= kMostPhases;
  options_.phases = announces_phases_ ? most_phases : 1;
}

void CardiacBinning::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  if (readouts.kind != protocol::ReadoutKind::imaging) {
    emit(std::move(readouts));
    return;
  }
  FrameKey key = readouts.frame->key;
  key.phase = 0;
  if (by_index()) end_when_again(readouts.frame->key, key);
  const auto [entry, fresh] = open_.try_emplace(key, next_group_);
  const std::uint64_t number = entry->second;
  if (fresh) {
    ++next_group_;
    groups_.try_emplace(number, key);
    end_earlier(key);
  }
  Group& group = groups_.at(number);
  for (const auto& [name, text] : readouts.frame->notes) group.notes.insert_or_assign(name, text);
  if (readouts.trajectory) has_trajectory_ = true;
  const std::size_t before = unplaced_.size();
  std::vector<double> times_ms;
  for (const auto& head : readouts.heads) times_ms.push_back(clock_->ms(head.acquisition_time_stamp));
  const bool news = breathing_ && breathing_->add(readouts, times_ms);  // for waiting readouts
  bool new_beats = false;
  // Waiting readouts count against the session's budget, headers too.
  const auto count = static_cast<std::int64_t>(readouts.heads.size());
  std::shared_ptr<Batch> batch;
  if (count > 0) {
    batch = std::make_shared<Batch>();
    batch->group = number;
    batch->heads = scan_->compute.allocate_host<protocol::AcquisitionHeader>({count});
    std::copy(readouts.heads.begin(), readouts.heads.end(), batch->heads.data());
    batch->data = readouts.data;
    batch->trajectory = readouts.trajectory;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    Readout readout;
    readout.batch = batch;
    readout.row = i;
    readout.time_ms = times_ms[static_cast<std::size_t>(i)];
    if (stamps_) new_beats = add_stamp(readout) || new_beats;
    if (!takes_breath(readout.head())) {
      ++group.left_out;
      ++group.breathing;
      continue;
    }
    ++group.pending;
    unplaced_.push_back(std::move(readout));
  }
  if (readouts.last && one_phase_.at(key.encoding) && !by_index()) {
    group.whole = true;  // the next frame with these counters is another one
    open_.erase(key);
  }
  if (new_beats) find_intervals();
  settle(new_beats || news ? 0 : before, false, emit);
  if (readouts.last && by_index()) end_phase(number, readouts.frame->key, emit);
}

/// Ends a phase that the sender has counted, when its own last readout is in.
void CardiacBinning::end_phase(std::uint64_t number, const FrameKey& key, const Emit<Readouts>& emit) {
  Group& group = groups_.at(number);
  const auto found = group.phases.find(key.phase);
  if (found == group.phases.end() || std::exchange(found->second.ended, true)) return;
  if (group.pending == 0 && has_lattice(group, found->second)) close(group, found->second, {}, emit);
  if (++group.ended < options_.phases || !announces_phases_) return;
  group.whole = true;
  open_.erase(group.key);
  close_whole(emit);
}

bool CardiacBinning::takes_breath(const protocol::AcquisitionHeader& head) {
  if (options_.respiratory == "attached") return takes_position(head);
  if (options_.respiratory != "stamp") return true;
  const double since_ms =
      head.physiology_time_stamp[static_cast<std::size_t>(options_.respiratory_stamp)] * options_.stamp_tick_ms;
  return since_ms >= options_.respiratory_from_ms && since_ms < options_.respiratory_to_ms;
}

/// Takes the position that a k0_navigator attached.
bool CardiacBinning::takes_position(const protocol::AcquisitionHeader& head) {
  const auto slot = static_cast<std::size_t>(options_.respiratory_slot);
  const double position = head.user_float[slot];
  constexpr double kUntold = -1;
  if (position == kUntold) {
    scan_->warn(
        "cardiac_binning: respiratory: attached: breathing was not told in parts of the scan, whose readouts are left "
        "out");
    return false;
  }
  if (!(position > 0 && position <= 1))
    throw ClientError(fmt::format(
        "cardiac_binning: respiratory: attached: user_float[{}] of a readout is {:g}, which is no position "
        "in the breath (above 0, up to 1); put `k0_navigator: {{slot: {}}}` before cardiac_binning, or take "
        "`respiratory: navigator`",
        slot, position, slot));
  position_told_ = true;
  return position >= options_.navigator_from && (position < options_.navigator_to || options_.navigator_to >= 1);
}

/// Returns true if the readout's stamp tells of a new beat. Throws ClientError where stamps cannot be right.
bool CardiacBinning::add_stamp(const Readout& readout) {
  const std::string wrong = stamps_->add(readout.head());
  if (!wrong.empty()) throw ClientError("cardiac_binning: " + wrong);
  return beats_->add_stamp(
      readout.time_ms,
      readout.head().physiology_time_stamp[static_cast<std::size_t>(options_.stamp)] * options_.stamp_tick_ms);
}

/// Ends the repetitions before the new one.
void CardiacBinning::end_earlier(const FrameKey& key) {
  for (auto it = open_.begin(); it != open_.end();) {
    FrameKey other = it->first;
    other.repetition = key.repetition;
    const bool earlier = other == key && it->first.repetition != key.repetition;
    if (earlier) groups_.at(it->second).whole = true;
    it = earlier ? open_.erase(it) : std::next(it);
  }
}

/// Ends a repetition, one of whose phases comes again.
void CardiacBinning::end_when_again(const FrameKey& frame, const FrameKey& key) {
  const auto open = open_.find(key);
  if (open == open_.end()) return;
  Group& group = groups_.at(open->second);
  const auto phase = group.phases.find(frame.phase);
  if (phase == group.phases.end() || !phase->second.ended) return;
  group.whole = true;
  open_.erase(open);
}

bool CardiacBinning::take_aside(Item& item, const Emit<Readouts>& emit) {
  const auto* waveform = std::get_if<Waveform>(&item);
  if (waveform != nullptr && options_.beats == "ecg" &&
      beats_->add(waveform->message, clock_->ms(waveform->message.head.time_stamp))) {
    find_intervals();
    settle(0, false, emit);
  }
  return false;  // other gadgets may use the waveform, too
}

void CardiacBinning::finish(End how, const Emit<Readouts>& emit) {
  if (how == End::truncated) {
    groups_.clear();
    unplaced_.clear();
    return;
  }
  if (beats_->finish()) find_intervals();
  if (!groups_.empty() && regular_count_ == 0 && !by_index()) refuse_without_beats();
  if (breathing_) breathing_->finish();
  for (auto& [number, group] : groups_) group.whole = true;
  settle(0, true, emit);
  if (const std::string wrong = breathing_ ? breathing_->nothing_told() : ""; !wrong.empty()) throw ClientError(wrong);
  if (options_.respiratory == "attached" && next_group_ > 0 && !position_told_)
    throw ClientError(
        "cardiac_binning: respiratory: attached: no readout has a position in the breath; k0_navigator's warning says "
        "why");
}

void CardiacBinning::refuse_without_beats() const {
  if (stamps_) throw ClientError("cardiac_binning: " + stamps_->no_interval(beats_->triggers().size()));
  throw ClientError(
      beats_->samples() == 0
          ? std::string(
                "cardiac_binning needs an ECG, but the scan came without one (waveform messages with "
                "waveform_id 0); for readouts with a physiology_time_stamp take `beats: stamps`, for scans whose "
                "idx.phase counts the cardiac phase use cartesian_cine")
          : fmt::format("cardiac_binning found {} heartbeats in {} samples of ECG, which make no interval; see its "
                        "parameters trigger_channel, lead and min_interval_ms",
                        beats_->triggers().size(), beats_->samples()));
}

/// The share of the cycle, 0 to 1, at `since_ms` after the R wave that begins an interval.
double CardiacBinning::phase_of(double since_ms, double interval_ms) const {
  if (options_.systole == "linear") return since_ms / interval_ms;
  const double systole = systole_ms(interval_ms), share = systole_ms(first_regular_ms_) / first_regular_ms_;
  return since_ms < systole ? share * since_ms / systole
                            : share + (1 - share) * (since_ms - systole) / (interval_ms - systole);
}

/// Finds out which of the intervals known so far are regular.
void CardiacBinning::find_intervals() {
  const auto& times = beats_->triggers();
  while (regular_.size() + 1 < times.size()) {
    const std::size_t i = regular_.size();
    std::vector<double> recent;
    for (std::size_t j = i - std::min(i, kIntervalsCompared); j <= i; ++j) recent.push_back(times[j + 1] - times[j]);
    const double length = recent.back(), usual = median(recent);
    const bool regular = options_.reject == 0 || std::abs(length - usual) <= options_.reject * usual;
    regular_.push_back(regular);
    if (!regular) {
      rejected_.emplace(
          i, fmt::format("beat {} ({:.0f} ms after the first) is left out: it lasts {:.0f} ms, and {:.0f} ms "
                         "are usual",
                         i + 1, times[i] - times[0], length, usual));
      continue;
    }
    if (regular_count_ == 0) first_regular_ms_ = length;
    sum_ms_ += length;
    ++regular_count_;
  }
}

double CardiacBinning::median_interval() const {
  const auto& times = beats_->triggers();
  std::vector<double> lengths;
  for (std::size_t i = 0; i + 1 < times.size(); ++i) lengths.push_back(times[i + 1] - times[i]);
  return median(std::move(lengths));
}

/// The number of the beat at a time that is not before the first, from 0.
std::size_t CardiacBinning::beat_at(double time_ms) const {
  const auto& times = beats_->triggers();
  return static_cast<std::size_t>(std::upper_bound(times.begin(), times.end(), time_ms) - times.begin()) - 1;
}

/// Assigns a readout to a phase of its heartbeat. `usual_ms`: once the scan has ended, the length of the interval that
/// the last beat begins.
CardiacBinning::Assignment CardiacBinning::assign(Readout& readout, bool scan_ended, double usual_ms) {
  if (const Assignment breath = assign_breath(readout, scan_ended); breath != Assignment::known) return breath;
  if (by_index()) {
    take_index(readout);
    return Assignment::known;
  }
  const auto& times = beats_->triggers();
  const auto after = std::upper_bound(times.begin(), times.end(), readout.time_ms);
  if (after == times.begin()) return times.empty() && !scan_ended ? Assignment::unknown : Assignment::nowhere;
  const double begin = *std::prev(after);
  if (after == times.end()) {
    if (!scan_ended) return Assignment::unknown;
    readout.phase = phase_of(readout.time_ms - begin, usual_ms);
    return readout.phase < 1 ? Assignment::known : Assignment::nowhere;
  }
  if (!regular_[beat_at(readout.time_ms)]) return Assignment::rejected_beat;
  readout.phase = phase_of(readout.time_ms - begin, *after - begin);
  return Assignment::known;
}

/// Takes the phase that the sender has counted.
void CardiacBinning::take_index(Readout& readout) {
  const std::int64_t phase = readout.head().idx.phase;
  if (phase >= options_.phases && announces_phases_)
    throw ClientError(
        fmt::format("cardiac_binning: beats: index: idx.phase of a readout is {}, but the header's limits announce {} "
                    "phases",
                    phase, options_.phases));
  if (phase >= kMostPhases)
    throw ClientError(
        fmt::format("cardiac_binning: beats: index: idx.phase of a readout is {}; at most {} phases are sorted", phase,
                    kMostPhases));
  options_.phases = std::max(options_.phases, phase + 1);
  readout.phase = static_cast<double>(phase) + 0.5;
}

/// Assigns a readout by breathing. `known`: it was acquired in a wanted state of breathing, as far as a navigator
/// judges that.
CardiacBinning::Assignment CardiacBinning::assign_breath(Readout& readout, bool scan_ended) const {
  if (!breathing_ || readout.breath_known) return Assignment::known;
  switch (breathing_->answer(groups_.at(readout.batch->group).key, readout.time_ms)) {
    case BreathingGate::Answer::wanted:
      break;
    case BreathingGate::Answer::unwanted:
      return Assignment::other_breath;
    case BreathingGate::Answer::unknown:
      return scan_ended ? Assignment::other_breath : Assignment::unknown;
  }
  readout.breath_known = true;
  return Assignment::known;
}

void CardiacBinning::add(Readout&& readout) {
  Group& group = groups_.at(readout.batch->group);
  const double parts = by_index() ? 1 : static_cast<double>(options_.phases);
  const auto number = std::min(static_cast<std::int64_t>(readout.phase * parts), options_.phases - 1);
  const Line line{readout.head().idx.kspace_encode_step_1, readout.head().idx.kspace_encode_step_2};
  Phase& phase = group.phases[number];
  phase.lines.insert(line);
  if (options_.fill != "none" && !has_trajectory_) group.kept[line].push_back(readout);
  changed_.emplace(readout.batch->group, number);
  phase.waiting.push_back(std::move(readout));
}

/// Assigns the readouts from number `from` on, as far as the beats known now allow, hands them on, and closes whole
/// groups.
void CardiacBinning::settle(std::size_t from, bool scan_ended, const Emit<Readouts>& emit) {
  constexpr std::size_t kBetweenLooks = 4096;
  const double usual_ms = scan_ended && beats_->triggers().size() > 1 ? median_interval() : 0;
  std::size_t still = from;
  for (std::size_t i = from; i < unplaced_.size(); ++i) {
    if (i % kBetweenLooks == 0) scan_->compute.check_stop();
    Readout readout = std::move(unplaced_[i]);
    const Assignment where = assign(readout, scan_ended, usual_ms);
    if (where == Assignment::unknown) {
      unplaced_[still++] = std::move(readout);
      continue;
    }
    Group& group = groups_.at(readout.batch->group);
    --group.pending;
    if (where == Assignment::other_breath) ++group.breathing;
    if (where == Assignment::rejected_beat) ++group.rejected[beat_at(readout.time_ms)];
    if (where == Assignment::known)
      add(std::move(readout));
    else
      ++group.left_out;
  }
  unplaced_.resize(still);
  for (const auto& [group, phase] : std::exchange(changed_, {})) flush(groups_.at(group), phase, emit);
  close_whole(emit);
}

void CardiacBinning::flush(Group& group, std::int64_t number, const Emit<Readouts>& emit) {
  Phase& phase = group.phases.at(number);
  if (phase.waiting.empty()) return;
  if (!phase.frame) {
    phase.frame = std::make_shared<Frame>();
    phase.frame->id = next_frame_++;
    phase.frame->key = group.key;
    phase.frame->key.phase = static_cast<std::uint16_t>(number);
    phase.frame->reference = phase.waiting.front().head();
    phase.frame->reference.idx.phase = static_cast<std::uint16_t>(number);
  }
  phase.frame->readouts += static_cast<std::int64_t>(phase.waiting.size());
  hand_on(phase, false, emit);
}

void CardiacBinning::close_whole(const Emit<Readouts>& emit) {
  for (auto it = groups_.begin(); it != groups_.end();) {
    Group& group = it->second;
    if (!group.whole || group.pending > 0) {
      ++it;
      continue;
    }
    fill(group);
    for (const auto& [p, phase] : group.phases) flush(group, p, emit);
    if (group.left_out > 0)
      scan_->info(
          group.breathing == 0
              ? "some readouts belong to no regular heartbeat and are left out: before the first trigger, after "
                "the last beat, or in a beat of unusual length"
              : "some readouts are left out: of another state of breathing, before the first trigger, after the last "
                "beat, or in a beat of unusual length");
    if (static_cast<std::int64_t>(group.phases.size()) < options_.phases && !by_index())
      scan_->warn("some cardiac phases got no readouts; they give no image");
    const std::vector<std::string> rejected = tell_rejected(group);
    for (auto& [p, phase] : group.phases)
      if (!phase.closed) close(group, phase, rejected, emit);
    it = groups_.erase(it);
  }
}

void CardiacBinning::close(Group& group, Phase& phase, const std::vector<std::string>& rejected,
                           const Emit<Readouts>& emit) {
  phase.closed = true;
  auto& notes = phase.frame->notes;
  notes = group.notes;
  if (!by_index()) {
    notes["heartbeats"] = std::to_string(beats_->triggers().size());
    notes["mean_rr_ms"] =
        fmt::format("{:.3f}", sum_ms_ / static_cast<double>(std::max<std::int64_t>(regular_count_, 1)));
    notes["ungated_readouts"] = std::to_string(group.left_out);
  }
  if (!rejected.empty()) notes["rejected_beats"] = note_of(rejected);
  if (options_.respiratory != "none") notes["breathing_readouts"] = std::to_string(group.breathing);
  notes["borrowed_lines"] = std::to_string(phase.borrowed);
  hand_on(phase, true, emit);
}

/// Tells the client of each beat that a group lacks, and returns the texts.
std::vector<std::string> CardiacBinning::tell_rejected(const Group& group) const {
  constexpr std::size_t kMostTold = 100;
  std::vector<std::string> texts;
  for (const auto& [beat, readouts] : group.rejected) {
    if (texts.size() == kMostTold) {
      texts.push_back(fmt::format("{} more beats are left out", group.rejected.size() - kMostTold));
      scan_->info("cardiac_binning: " + texts.back());
      break;
    }
    texts.push_back(fmt::format("{}; readouts of slice {}: {}", rejected_.at(beat), group.key.slice, readouts));
    scan_->info("cardiac_binning: " + texts.back());
  }
  return texts;
}

/// True if both may be in one batch.
bool CardiacBinning::same_shape(const Readout& a, const Readout& b) {
  const numerics::Shape &of_a = a.batch->data.shape(), &of_b = b.batch->data.shape();
  return of_a[1] == of_b[1] && of_a[2] == of_b[2] &&
         a.batch->trajectory.size() / std::max<std::int64_t>(1, of_a[0]) ==
             b.batch->trajectory.size() / std::max<std::int64_t>(1, of_b[0]);
}

void CardiacBinning::hand_on(Phase& phase, bool last, const Emit<Readouts>& emit) {
  const std::vector<Readout> waiting = std::exchange(phase.waiting, {});
  for (std::size_t begin = 0; begin < waiting.size() || last;) {
    std::size_t end = begin;
    while (end < waiting.size() && same_shape(waiting[begin], waiting[end])) ++end;
    Readouts out = gather(std::span(waiting).subspan(begin, end - begin));
    out.frame = phase.frame;
    for (auto& head : out.heads) head.idx.phase = phase.frame->key.phase;
    out.first = !std::exchange(phase.started, true);
    out.last = last && end == waiting.size();
    emit(std::move(out));
    if (end == waiting.size()) return;
    begin = end;
  }
}

Readouts CardiacBinning::gather(std::span<const Readout> readouts) {
  Readouts out;
  if (readouts.empty()) return out;
  numerics::Context& compute = scan_->compute;
  const auto count = static_cast<std::int64_t>(readouts.size());
  const auto& shape = readouts[0].batch->data.shape();
  const std::int64_t channels = shape[1], samples = shape[2];
  out.data = compute.allocate<cfloat>({count, channels, samples});
  const std::int64_t positions = readouts[0].batch->trajectory.size() / std::max<std::int64_t>(1, shape[0]);
  if (positions > 0) out.trajectory = compute.allocate_host<float>({count, samples, positions / samples});
  for (std::int64_t i = 0; i < count; ++i) {
    const Readout& readout = readouts[static_cast<std::size_t>(i)];
    const Batch& from = *readout.batch;
    out.heads.push_back(readout.head());
    compute.copy<cfloat>(from.data.cview().slice(readout.row), out.data.view().slice(i));
    if (positions > 0)
      std::copy_n(from.trajectory.data() + readout.row * positions, positions, out.trajectory.data() + i * positions);
  }
  return out;
}

}  // namespace echotrain
