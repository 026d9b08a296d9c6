// CardiacBinning does retrospective gating: it sorts the readouts of many heartbeats into phases of one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/readouts/gating/breathing_gate.h"
#include "gadgets/readouts/gating/day_clock.h"
#include "gadgets/readouts/gating/stamp_check.h"
#include "gadgets/readouts/heartbeats.h"

namespace echotrain {

/// Makes frames of cardiac phases from a scan that ran on through heartbeats. Each interval between two triggers of the
/// ECG, or between two R waves in the readouts' stamps (`beats: stamps`: physiology_time_stamp[stamp] counts from the R
/// wave before a readout), is divided into `phases` equal parts, at any length; a readout belongs to the part that its
/// time stamp falls into. All incoming readouts that agree in encoding, slice, contrast, repetition and set, with any
/// idx.phase, become `phases` frames, whose FrameKey::phase is 0 .. phases - 1.
///
/// In:  Readouts of frames that last through the beats (`frame: {until: last_in_repetition}`), and the waveforms that
///      pass by (gadgets/readouts/heartbeats.h finds the triggers). Readouts of other kinds pass by.
/// Out: Readouts of the phases' frames.
///
/// A readout goes on as soon as the trigger that ends its interval is known. Readouts before the first trigger belong
/// to no interval and are left out; after the last trigger, an interval of the median length is assumed and later
/// readouts are left out. An interval whose length differs from the median of itself and the eight before it by more
/// than `reject` times that median is a missed trigger or an extrasystole: its readouts are left out. Several readouts
/// of one line in one phase are all handed on: cartesian_kspace averages them. With `fill: linear`, a line that a
/// phase lacks and others have is interpolated to the phase's middle between the readouts before and after it, around
/// the cycle; with `nearest` it is the nearer one (not for readouts with a trajectory: their line numbers are not
/// positions). Of accelerated scans of slices, only one lattice of lines is filled, the one that lies nearest in time;
/// `grappa` makes the others (cartesian_kspace: `calibration: average`). Meta attributes of the images: heartbeats,
/// mean_rr_ms, borrowed_lines, rejected_beats (a text for each, which the client is told, too), ungated_readouts (left
/// out of the repetition), and breathing_readouts (those of them left out because of breathing).
///
/// `systole: weissler`: systole shortens less than diastole when a heart beats faster. It takes 546 ms - 2.1 ms times
/// the beats a minute (Weissler, Harris, Schoenfeld, Circulation 37:149, 1968; between 0.2 and 0.8 of the interval),
/// and the scan's first regular interval is divided into equal parts: in other intervals, systole and diastole are
/// stretched separately.
///
/// `respiratory: stamp`: only readouts whose physiology_time_stamp[respiratory_stamp], the time since the last breath's
/// trigger, lies in [respiratory_from_ms, respiratory_to_ms) are used. `respiratory: navigator`: only those whose
/// breathing position by self-navigation (gadgets/readouts/gating/breathing_gate.h) lies in [navigator_from,
/// navigator_to); a readout then waits until 1 / navigator_low_hz after it (and up to half as long again) are in.
/// `respiratory: attached`: the same range, of the position that an earlier k0_navigator has attached.
///
/// `beats: index`: idx.phase is the phase, of as many as the header announces, or else as come (1000 at most), and no
/// beat is looked at. A phase that has all lines of a lattice ends with its own frame; one that lacks some waits until
/// all announced phases have come, or one comes again.
///
/// A repetition's images are made when the interval of its last readout is known: at once where the header's limits say
/// that there is one idx.phase, else with the next repetition or at the end of the scan.
///
/// Throws ClientError at the end of a scan in which no interval was found, or breathing was never determined; before
/// that where stamps cannot count from an R wave (gadgets/readouts/gating/stamp_check.h).
class CardiacBinning final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    std::int64_t phases = 13;
    std::string fill = "linear";
    double reject = 0.5;
    std::int64_t trigger_channel = -1;
    std::int64_t lead = 0;
    double min_interval_ms = 60;
    double tick_ms = 2.5;
    std::string beats = "ecg";
    std::int64_t stamp = 0;
    double stamp_tick_ms = 2.5;
    std::string systole = "linear";
    std::string respiratory = "none";
    std::int64_t respiratory_stamp = 1;
    double respiratory_from_ms = 0;
    double respiratory_to_ms = 1e6;
    double navigator_from = 0;
    double navigator_to = 0.5;
    double navigator_low_hz = 0.1;
    double navigator_high_hz = 0.5;
    std::int64_t respiratory_slot = 5;
  };
  static constexpr std::string_view kName = "cardiac_binning";
  static constexpr std::string_view kSummary =
      "Sorts readouts into cardiac phases by the ECG or by time stamps: frames of one heartbeat from many.";
  static constexpr Delivery kDelivery = Delivery::windows;
  static Parameters<Options> parameters();

  explicit CardiacBinning(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;
  bool take_aside(Item& item, const Emit<Readouts>& emit) override;
  void finish(End how, const Emit<Readouts>& emit) override;

 private:
  using Line = std::tuple<std::uint16_t, std::uint16_t>;  // encoding steps 1 and 2
  /// A batch as it came in; shared by its readouts.
  struct Batch {
    std::uint64_t group = 0;
    HostArray<protocol::AcquisitionHeader> heads;
    Array<cfloat> data;
    HostArray<float> trajectory;
  };
  /// One readout of a batch that came in. Scans of tiny readouts keep millions.
  struct Readout {
    std::shared_ptr<const Batch> batch;
    std::int64_t row = 0;
    const protocol::AcquisitionHeader& head() const { return batch->heads.data()[row]; }
    double time_ms = 0;
    double phase = 0;           // 0 .. 1, once known; with `beats: index` 0 .. phases, until lines are filled
    bool breath_known = false;  // breathing was judged as wanted
  };
  struct Phase {
    std::shared_ptr<Frame> frame;
    std::set<Line> lines;
    std::vector<Readout> waiting;                         // to be handed on with the next emission
    bool started = false, ended = false, closed = false;  // ended, with `beats: index`: its own readouts are in
    std::int64_t borrowed = 0;
  };
  struct Group {
    explicit Group(const FrameKey& of) : key(of) {}
    FrameKey key;
    std::map<std::string, std::string> notes;   // notes of the frames that its readouts came in
    std::map<std::int64_t, Phase> phases;       // phases with their own or borrowed readouts
    std::map<Line, std::vector<Readout>> kept;  // readouts of each line, for the phases that lack it
    std::int64_t pending = 0;                   // readouts whose interval is not known yet
    std::int64_t left_out = 0;
    std::int64_t breathing = 0;                    // readouts left out by breathing
    std::map<std::size_t, std::int64_t> rejected;  // readouts left out of each beat of unusual length
    std::int64_t ended = 0;                        // phases that have
    bool whole = false;                            // all its frames are whole
  };
  /// What fills a line: the readouts before and after the moment.
  struct Between {
    const Readout *before, *after;
    double share;     // of the second
    double distance;  // of the nearer one, as a share of the beat
  };
  /// The outcome of assigning a readout to a phase; `nowhere`: it belongs to none.
  enum class Assignment { known, unknown, nowhere, rejected_beat, other_breath };

  void check_options() const;
  bool takes_breath(const protocol::AcquisitionHeader& head);
  bool takes_position(const protocol::AcquisitionHeader& head);
  bool add_stamp(const Readout& readout);
  double phase_of(double since_ms, double interval_ms) const;
  [[noreturn]] void refuse_without_beats() const;
  void find_intervals();
  std::size_t beat_at(double time_ms) const;
  std::vector<std::string> tell_rejected(const Group& group) const;
  Assignment assign(Readout& readout, bool scan_ended, double usual_ms);
  void take_index(Readout& readout);
  Assignment assign_breath(Readout& readout, bool scan_ended) const;
  void add(Readout&& readout);
  void settle(std::size_t from, bool scan_ended, const Emit<Readouts>& emit);
  void end_earlier(const FrameKey& key);
  void end_when_again(const FrameKey& frame, const FrameKey& key);
  void flush(Group& group, std::int64_t number, const Emit<Readouts>& emit);
  void fill(Group& group);
  Between around(const std::vector<Readout>& by_phase, double phase) const;
  std::vector<Between> lacking(const Group& group, const Phase& phase, double middle) const;
  bool has_lattice(const Group& group, const Phase& phase) const;
  void interpolate(std::span<const Between> pairs, Phase& phase);
  void end_phase(std::uint64_t number, const FrameKey& key, const Emit<Readouts>& emit);
  bool by_index() const { return options_.beats == "index"; }
  void close(Group& group, Phase& phase, const std::vector<std::string>& rejected, const Emit<Readouts>& emit);
  void close_whole(const Emit<Readouts>& emit);
  static bool same_shape(const Readout& a, const Readout& b);
  void hand_on(Phase& phase, bool last, const Emit<Readouts>& emit);
  Readouts gather(std::span<const Readout> readouts);
  double median_interval() const;

  Options options_;
  Scan* scan_ = nullptr;
  std::optional<Heartbeats> beats_;
  std::optional<StampCheck> stamps_;             // with `beats: stamps`
  std::optional<DayClock> clock_;                // clock of readouts and waveforms
  std::optional<BreathingGate> breathing_;       // with `respiratory: navigator`
  std::map<std::size_t, std::string> rejected_;  // what is told of each interval that is not regular
  std::vector<bool> regular_;                    // true for regular intervals between triggers
  double sum_ms_ = 0;                            // sum of the regular ones
  std::int64_t regular_count_ = 0;
  double first_regular_ms_ = 0;             // length of the first regular interval
  std::map<FrameKey, std::uint64_t> open_;  // groups that more frames may belong to, by key without phase
  std::map<std::uint64_t, Group> groups_;   // by number, in the order in which they began
  std::vector<Readout> unplaced_;           // in order of arrival
  std::set<std::pair<std::uint64_t, std::int64_t>> changed_;  // groups and phases with readouts to be handed on
  bool announces_phases_ = false;                             // with `beats: index`: the header does
  std::uint64_t next_group_ = 0, next_frame_ = 0;
  bool has_trajectory_ = false, position_told_ = false;
  struct Announced {
    std::array<std::int64_t, 2> first, last;  // y, z
  };
  std::vector<Announced> announced_;  // for each encoding: lines
  std::vector<std::int64_t> steps_;   // for each encoding: R, by which lattices of lines differ
  std::vector<bool> one_phase_;       // for each encoding: the header says that idx.phase does not change
};

}  // namespace echotrain
