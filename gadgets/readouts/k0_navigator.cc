#include "gadgets/readouts/k0_navigator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/mri/epi/line_changes.h"

namespace echotrain {
namespace {

using protocol::ReadoutKind;

constexpr std::int64_t kMostAtOnce = 4096;  // readouts with one time stamp
constexpr std::size_t kMostDrifts = 1024, kMostOnes = 4;
constexpr double kWidest = 20;
constexpr std::int64_t kSideItems = 3;

}  // namespace

Parameters<K0Navigator::Options> K0Navigator::parameters() {
  return Parameters<Options>()
      .choice("centre", &Options::centre, {"readouts", "navigators"},
              "which readouts tell: imaging ones that pass the centre of k-space, or navigators (flag 23), at "
              "center_sample")
      .flag("breathing", &Options::breathing, "whether breathing is looked for; false: only drift")
      .number("navigator_from", &Options::navigator_from, 0, 1,
              "readouts nearer to expiration than this share of all moments are left out")
      .number("navigator_to", &Options::navigator_to, 0, 1,
              "readouts nearer to inspiration than this share of all moments are left out; 1 leaves out none")
      .number("navigator_low_hz", &Options::navigator_low_hz, 0.02, 10,
              "frequency of the slowest breathing; a mouse: 0.5")
      .unit("Hz")
      .number("navigator_high_hz", &Options::navigator_high_hz, 0.02, 10,
              "frequency of the fastest breathing, below the heart's; a mouse: 4")
      .unit("Hz")
      .choice("drift", &Options::drift, {"measure", "remove", "none"},
              "the centre's phase as the field drifts: measure attaches it, remove also takes it out of the readouts")
      .number("drift_s", &Options::drift_s, 0.01, 1000,
              "the stretch of the scan that tells the drift at its middle; a breath or longer")
      .unit("s")
      .integer("slot", &Options::slot, 0, 8 - kSideItems,
               "position, signal and drift are attached as user_float[slot] and the two after it")
      .number("tick_ms", &Options::tick_ms, 1e-6, 1e6,
              "unit of acquisition_time_stamp; ISMRMRD leaves it to the vendor")
      .unit("ms");
}

K0Navigator::K0Navigator(Options options) : options_(std::move(options)) {
  const Options& o = options_;
  if (!(o.navigator_from < o.navigator_to))
    throw std::invalid_argument(
        fmt::format("no breath lies between navigator_from {} and navigator_to {}", o.navigator_from, o.navigator_to));
  if (!(o.navigator_low_hz < o.navigator_high_hz && o.navigator_high_hz <= kWidest * o.navigator_low_hz))
    throw std::invalid_argument(
        fmt::format("navigator_low_hz {} has to lie below navigator_high_hz {}, and above a {}th of it",
                    o.navigator_low_hz, o.navigator_high_hz, kWidest));
  if (!o.breathing && gates())
    throw std::invalid_argument("navigator_from and navigator_to keep a range of the breath, but breathing is false");
  if (!o.breathing && o.drift == "none") throw std::invalid_argument("breathing is false and drift is none");
}

void K0Navigator::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  clock_.emplace(options_.tick_ms);
  centres_.emplace(std::string(kName), header, scan);
  if (options_.breathing)
    breathing_.emplace(
        BreathingGate::Options{.from = options_.navigator_from,
                               .to = options_.navigator_to,
                               .low_hz = options_.navigator_low_hz,
                               .high_hz = options_.navigator_high_hz,
                               .tick_ms = options_.tick_ms,
                               .who = std::string(kName),
                               .fate = gates() ? "whose readouts are left out" : "whose readouts get position -1"},
        header, scan);
}

/// The anatomy of readout i: all navigators are one.
CentreSamples::Anatomy K0Navigator::anatomy_of(const Readouts& readouts, std::size_t i) const {
  if (options_.centre == "navigators") return {};
  if (readouts.frame) return CentreSamples::anatomy_of(readouts.frame->key);
  const auto& head = readouts.heads[i];
  return {head.encoding_space_ref, head.idx.slice, head.idx.contrast, head.idx.set};
}

void K0Navigator::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  const bool imaging = readouts.kind == ReadoutKind::imaging;
  if (imaging && readouts.frame->window != 0)
    throw ClientError(
        "k0_navigator works on frames that do not overlap, but the pipeline's `frame:` makes sliding windows; leave "
        "out `stride` there");
  Held held;
  // Calibration before the first imaging readout has the phase from which drift counts.
  const bool corrects = options_.drift == "remove" && imaging_came_;
  held.navigated = imaging || (readouts.kind == ReadoutKind::calibration && corrects);
  if (imaging && !readouts.heads.empty()) imaging_came_ = true;
  if (held.navigated || readouts.kind == ReadoutKind::navigator) {
    check_times(readouts);
    for (const auto& head : readouts.heads) held.times_ms.push_back(time_of(head));
    if (imaging && breathing_)
      for (std::size_t i = 0; i < held.times_ms.size(); ++i)
        breathing_->expect(anatomy_of(readouts, i), held.times_ms[i]);
    if (readouts.kind == (options_.centre == "navigators" ? ReadoutKind::navigator : ReadoutKind::imaging))
      centres_->add(readouts, held.times_ms);
  }
  held.readouts = std::move(readouts);
  held_.push_back(std::move(held));
  judge(false);
  release(emit);
}

/// The time [ms]; it ascends, except for readouts that come a little late. Stamps may begin anew: with each repetition,
/// with each slice of a scan sorted by slices, where 32 bits end. Later readouts are then placed farther from earlier
/// ones than any window reaches.
double K0Navigator::time_of(const protocol::AcquisitionHeader& head) {
  const double beyond_ms = std::max(1000 * options_.drift_s, 1500 / options_.navigator_low_hz);
  double time_ms = clock_->ms(head.acquisition_time_stamp) + anew_ms_;
  if (time_ms < now_ms_ - beyond_ms) {
    scan_->warn(
        fmt::format("k0_navigator: acquisition_time_stamp goes back by more than {:g} s; what follows is taken for "
                    "later than what came before",
                    beyond_ms / 1000));
    anew_ms_ += now_ms_ + beyond_ms - time_ms;
    time_ms = now_ms_ + beyond_ms;
  }
  now_ms_ = std::max(now_ms_, time_ms);
  return time_ms;
}

/// Checks that time advances; otherwise readouts would wait for ever.
void K0Navigator::check_times(const Readouts& readouts) {
  for (const auto& head : readouts.heads) {
    same_stamp_ = head.acquisition_time_stamp == last_stamp_ ? same_stamp_ + 1 : 1;
    last_stamp_ = head.acquisition_time_stamp;
    if (same_stamp_ > kMostAtOnce)
      throw ClientError(
          fmt::format("k0_navigator follows the centre of k-space in time, but acquisition_time_stamp is {} in {} "
                      "readouts one after the other; write ticks of tick_ms ({:g}), or leave the gadget out",
                      last_stamp_, same_stamp_ - 1, options_.tick_ms));
  }
}

/// Passes new centres to the judges, if one of them can judge.
void K0Navigator::judge(bool ended) {
  const bool drift_ready =
      follows_drift() && (drifts_.empty() || std::any_of(drifts_.begin(), drifts_.end(),
                                                         [&](const auto& each) { return each.second.ready(now_ms_); }));
  if (!ended && !drift_ready && !(breathing_ && breathing_->ready())) return;
  centres_->take([&](const Anatomy& anatomy, double time_ms, std::span<const cfloat> centre) {
    const Anatomy whose = options_.centre == "navigators" ? Anatomy{} : anatomy;
    if (breathing_) breathing_->take(whose, time_ms, centre);
    // A drift counts from the first centre that has a phase.
    const bool dark = std::all_of(centre.begin(), centre.end(), [](cfloat value) { return value == cfloat(0); });
    if (!follows_drift() || (dark && !drifts_.contains(whose))) return;
    if (drifts_.size() >= kMostDrifts && !drifts_.contains(whose))
      throw ClientError(fmt::format(
          "k0_navigator follows the drift of at most {} slices, contrasts and sets, each by itself; the scan has more",
          kMostDrifts));
    drifts_.try_emplace(whose, options_.drift_s * 1000).first->second.add(time_ms, centre);
  });
  if (breathing_ && (ended || breathing_->ready())) breathing_->judge(ended);
  for (auto& [anatomy, drift] : drifts_) drift.judge(ended ? std::numeric_limits<double>::infinity() : now_ms_);
}

/// The drift [rad]; empty: not judged yet. If no centre came within a window, it is 0.
std::optional<double> K0Navigator::drift_at(const Anatomy& anatomy, double time_ms) const {
  const auto found = drifts_.find(anatomy);
  std::optional<double> drift;
  if (found != drifts_.end())
    drift = found->second.phase(time_ms);
  else if (now_ms_ >= time_ms + options_.drift_s * 1000)
    drift = 0;
  if (!drift && ended_) drift = 0;
  if (found == drifts_.end() && drift)
    scan_->warn(
        fmt::format("k0_navigator: {} pass the centre of k-space with a signal in parts of the scan, whose drift is "
                    "not told and taken for 0",
                    options_.centre == "navigators" ? "no navigators (flag 23)" : "no readouts"));
  return drift;
}

/// True if the breath of all of its readouts is known now.
bool K0Navigator::learn_breath(Held& held) const {
  if (!breathing_ || !held.navigated || held.readouts.kind != ReadoutKind::imaging) return true;
  for (std::size_t i = held.breath.size(); i < held.times_ms.size(); ++i) {
    const auto state = breathing_->state(anatomy_of(held.readouts, i), held.times_ms[i]);
    if (!state && !ended_) return false;
    held.breath.push_back(state.value_or(SelfNavigator::State{}));
  }
  return true;
}

/// True if the drift of all of its readouts is known now.
bool K0Navigator::learn_drift(Held& held) const {
  if (!follows_drift() || !held.navigated) return true;
  for (std::size_t i = held.drift.size(); i < held.times_ms.size(); ++i) {
    const auto drift = drift_at(anatomy_of(held.readouts, i), held.times_ms[i]);
    if (!drift) return false;
    held.drift.push_back(*drift);
  }
  return true;
}

/// Hands on batches that need not wait.
void K0Navigator::release(const Emit<Readouts>& emit) {
  while (breath_learned_ < held_.size() && learn_breath(held_[breath_learned_])) ++breath_learned_;
  while (drift_learned_ < held_.size() && learn_drift(held_[drift_learned_])) ++drift_learned_;
  while (breath_learned_ > 0 && drift_learned_ > 0) {
    Held held = std::move(held_.front());
    held_.pop_front();
    --breath_learned_;
    --drift_learned_;
    give(std::move(held), emit);
  }
}

void K0Navigator::give(Held&& held, const Emit<Readouts>& emit) {
  Readouts& readouts = held.readouts;
  if (!held.navigated) return emit(std::move(readouts));
  const bool remove = options_.drift == "remove";
  if (readouts.kind != ReadoutKind::imaging) {
    if (remove) remove_drift(readouts, held.drift);
    return emit(std::move(readouts));
  }
  attach(held);
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < readouts.heads.size(); ++i) {
    if (gates()) {
      const SelfNavigator::State& breath = held.breath[i];
      const bool wanted = breath.verdict == SelfNavigator::Verdict::told &&
                          breath.position >= options_.navigator_from &&
                          (breath.position < options_.navigator_to || options_.navigator_to >= 1);
      if (!wanted) continue;
    }
    kept.push_back(i);
  }
  Open& frame = open_[readouts.frame->id];
  frame.left_out += static_cast<std::int64_t>(readouts.heads.size() - kept.size());
  if (kept.size() < readouts.heads.size()) {
    std::vector<double> drift;
    for (const std::size_t i : kept)
      if (!held.drift.empty()) drift.push_back(held.drift[i]);
    held.drift = std::move(drift);
    select(readouts, kept);
  }
  for (const double drift : held.drift) frame.drift += drift;
  frame.kept += static_cast<std::int64_t>(kept.size());
  if (remove) remove_drift(readouts, held.drift);
  hand_on(std::move(readouts), frame, emit);
}

/// Hands readouts on. The frame is counted anew: it may lose readouts, and its image gets the side items of its first
/// one.
void K0Navigator::hand_on(Readouts&& readouts, Open& open, const Emit<Readouts>& emit) {
  const std::uint64_t id = readouts.frame->id;
  const bool last = readouts.last, nothing = readouts.heads.empty();
  if (!open.frame && !nothing) {
    open.frame = std::make_shared<Frame>(*readouts.frame);
    open.frame->reference = readouts.heads.front();
    if (gates()) open.frame->expected_readouts = 0;
  }
  if (!open.frame) {  // no readout of the frame has come yet
    if (last) {
      open_.erase(id);
      if (gates()) return refuse_empty();
      emit(std::move(readouts));
    }
    return;
  }
  open.frame->readouts = open.kept;
  open.frame->arrival = readouts.frame->arrival;
  open.frame->notes = readouts.frame->notes;
  if (nothing && !last) return;
  if (last) {
    auto& notes = open.frame->notes;
    if (breathing_) notes["breathing_readouts"] = std::to_string(open.left_out);
    if (follows_drift()) notes["k0_drift"] = fmt::format("{:.4f}", open.drift / static_cast<double>(open.kept));
  }
  readouts.first = !std::exchange(open.started, true);
  readouts.frame = open.frame;
  if (last) open_.erase(id);
  emit(std::move(readouts));
}

void K0Navigator::refuse_empty() {
  scan_->warn(
      "k0_navigator: frames of which no readout was acquired in the wanted breath give no image; longer frames hold "
      "whole breaths");
  ++scan_->numbers.frames_refused;
}

/// Attaches the side items.
void K0Navigator::attach(Held& held) {
  const auto slot = static_cast<std::size_t>(options_.slot);
  for (std::size_t i = 0; i < held.readouts.heads.size(); ++i) {
    protocol::AcquisitionHeader& head = held.readouts.heads[i];
    const bool taken = head.user_float[slot] != 0 || head.user_float[slot + 1] != 0 || head.user_float[slot + 2] != 0;
    if (taken)
      scan_->warn(
          fmt::format("k0_navigator: readouts bring user_float[{}] to [{}] of their own, which position, signal and "
                      "drift replace; choose another `slot`",
                      slot, slot + 2));
    const bool told = breathing_ && held.breath[i].verdict == SelfNavigator::Verdict::told;
    head.user_float[slot] = told ? static_cast<float>(held.breath[i].position) : -1;
    head.user_float[slot + 1] = told ? static_cast<float>(held.breath[i].signal) : 0;
    head.user_float[slot + 2] = held.drift.empty() ? 0 : static_cast<float>(held.drift[i]);
  }
}

/// Keeps these readouts, whose numbers ascend.
void K0Navigator::select(Readouts& readouts, const std::vector<std::size_t>& kept) {
  numerics::Context& compute = scan_->compute;
  const numerics::Shape& shape = readouts.data.shape();
  const auto count = static_cast<std::int64_t>(kept.size());
  std::vector<protocol::AcquisitionHeader> heads;
  for (const std::size_t i : kept) heads.push_back(readouts.heads[i]);
  readouts.heads = std::move(heads);
  Array<cfloat> data;
  HostArray<float> trajectory;
  const std::int64_t each = shape[1] * shape[2];
  const std::int64_t positions = readouts.trajectory.size() / std::max<std::int64_t>(1, shape[0]);
  if (count > 0) data = compute.allocate<cfloat>({count, shape[1], shape[2]});
  if (count > 0 && positions > 0) trajectory = compute.allocate_host<float>({count, shape[2], positions / shape[2]});
  for (std::int64_t to = 0; to < count;) {
    // Adjacent readouts are copied at once.
    const auto from = static_cast<std::int64_t>(kept[static_cast<std::size_t>(to)]);
    std::int64_t run = 1;
    while (to + run < count && static_cast<std::int64_t>(kept[static_cast<std::size_t>(to + run)]) == from + run) ++run;
    const numerics::Shape part{run, shape[1], shape[2]};
    compute.copy<cfloat>(readouts.data.view().part(from * each, part), data.view().part(to * each, part));
    if (positions > 0)
      std::copy_n(readouts.trajectory.data() + from * positions, run * positions, trajectory.data() + to * positions);
    to += run;
  }
  readouts.data = std::move(data);
  readouts.trajectory = std::move(trajectory);
}

void K0Navigator::remove_drift(Readouts& readouts, const std::vector<double>& drift) {
  if (drift.empty()) return;
  numerics::Context& compute = scan_->compute;
  const std::int64_t samples = readouts.data.shape()[2];
  auto ones = ones_.find(samples);
  if (ones == ones_.end()) {
    if (ones_.size() >= kMostOnes) ones_.clear();
    const std::vector<cfloat> values(static_cast<std::size_t>(samples), cfloat(1));
    ones = ones_.emplace(samples, compute.upload<cfloat>({values.data(), {1, 1, samples}})).first;
  }
  std::vector<numerics::LineChange> changes(drift.size());
  for (std::size_t i = 0; i < drift.size(); ++i) changes[i].factor = cfloat(std::polar(1.0, -drift[i]));
  Array<cfloat> changed = compute.allocate<cfloat>(readouts.data.shape());
  numerics::change_lines(compute, {changes.data(), {static_cast<std::int64_t>(changes.size())}}, ones->second.cview(),
                         readouts.data.cview(), changed.view());
  readouts.data = std::move(changed);
}

void K0Navigator::finish(End how, const Emit<Readouts>& emit) {
  if (how == End::complete) {
    judge(true);
    ended_ = true;
    release(emit);
  }
  held_.clear();
  open_.clear();
  breath_learned_ = drift_learned_ = 0;
  const std::string wrong = how == End::complete && breathing_ ? breathing_->nothing_told() : "";
  if (wrong.empty()) return;
  if (gates()) throw ClientError(wrong);
  scan_->warn(wrong);
}

}  // namespace echotrain
