// K0Navigator uses the centre of k-space as a navigator: breathing and drift, readout by readout, for later gadgets.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/readouts/gating/breathing_gate.h"
#include "gadgets/readouts/gating/centre_samples.h"
#include "gadgets/readouts/gating/day_clock.h"
#include "gadgets/readouts/gating/phase_drift.h"

namespace echotrain {

/// Follows the sample in the centre of k-space (gadgets/readouts/gating/centre_samples.h) of imaging readouts, or of
/// navigator readouts, and gives each imaging readout three side items, in user_float[slot], [slot + 1], [slot + 2]:
///   position  0 .. 1: the share of the moments about it that lie nearer to expiration; -1: unknown
///   signal    of breathing, in standard deviations, rising towards inspiration; 0: unknown
///   drift     of the centre's phase since the scan's first centres [rad]; 0: unknown
/// Heads stay with readouts, so any later gadget can use them (cardiac_binning: `respiratory: attached`), and steps in
/// Python too. gating/self_navigator.h describes the estimate of breathing, gating/phase_drift.h that of the drift.
/// With another band, such as 0.6 to 2.5 Hz, the signal is the heart's.
///
/// Readouts whose position is not in [navigator_from, navigator_to) are left out of their frames; a frame without any
/// readout left gives no image. `drift: remove` removes the drift from imaging readouts, and of calibration readouts
/// that come after the first of these.
///
/// A readout waits until 1 / navigator_low_hz after it (and up to half as long again) are in; without breathing, until
/// half of drift_s is. Readouts of all kinds keep their order.
///
/// In:  Readouts of frames without sliding windows, with acquisition_time_stamp.
/// Out: the same readouts, or some of them.
/// Meta attributes: breathing_readouts (number left out of the frame), k0_drift [rad] (mean over the frame). Images
/// have the side items of their first readout.
///
/// Time stamps that go back by more than any window begin anew, with a warning.
///
/// Throws ClientError when navigator_from or navigator_to leaves readouts out and breathing can be determined nowhere,
/// when time stamps stand still, and for sliding windows.
class K0Navigator final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    std::string centre = "readouts";
    bool breathing = true;
    double navigator_from = 0;
    double navigator_to = 1;
    double navigator_low_hz = 0.1;
    double navigator_high_hz = 0.5;
    std::string drift = "measure";
    double drift_s = 10;
    std::int64_t slot = 5;
    double tick_ms = 2.5;
  };
  static constexpr std::string_view kName = "k0_navigator";
  static constexpr std::string_view kSummary =
      "Tells breathing and drift by the centre of k-space: a side item of each readout; keeps a range of the breath.";
  static constexpr Delivery kDelivery = Delivery::parts;
  static Parameters<Options> parameters();

  explicit K0Navigator(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;
  void finish(End how, const Emit<Readouts>& emit) override;

 private:
  using Anatomy = CentreSamples::Anatomy;
  /// A batch that waits, and the times of its readouts.
  struct Held {
    Readouts readouts;
    std::vector<double> times_ms;
    bool navigated = false;                    // imaging or calibration that waits for answers
    std::vector<SelfNavigator::State> breath;  // for its first readouts, as far as known
    std::vector<double> drift;                 // drift likewise [rad]
  };
  /// A frame that is handed on.
  struct Open {
    std::shared_ptr<Frame> frame;
    std::int64_t kept = 0, left_out = 0;
    double drift = 0;  // sum over readouts
    bool started = false;
  };

  bool gates() const { return options_.navigator_from > 0 || options_.navigator_to < 1; }
  bool follows_drift() const { return options_.drift != "none"; }
  Anatomy anatomy_of(const Readouts& readouts, std::size_t i) const;
  void check_times(const Readouts& readouts);
  double time_of(const protocol::AcquisitionHeader& head);
  void judge(bool ended);
  bool learn_breath(Held& held) const;
  bool learn_drift(Held& held) const;
  std::optional<double> drift_at(const Anatomy& anatomy, double time_ms) const;
  void release(const Emit<Readouts>& emit);
  void give(Held&& held, const Emit<Readouts>& emit);
  void refuse_empty();
  void attach(Held& held);
  void hand_on(Readouts&& readouts, Open& open, const Emit<Readouts>& emit);
  void select(Readouts& readouts, const std::vector<std::size_t>& kept);
  void remove_drift(Readouts& readouts, const std::vector<double>& drift);

  Options options_;
  Scan* scan_ = nullptr;
  std::optional<DayClock> clock_;
  std::optional<CentreSamples> centres_;
  std::optional<BreathingGate> breathing_;
  std::map<Anatomy, PhaseDrift> drifts_;
  std::deque<Held> held_;
  std::size_t breath_learned_ = 0, drift_learned_ = 0;  // number of these, from the first on
  std::map<std::uint64_t, Open> open_;                  // by the frame's id
  std::map<std::int64_t, Array<cfloat>> ones_;          // [1, 1, sample], by samples
  double now_ms_ = 0, anew_ms_ = 0;
  std::uint32_t last_stamp_ = 0;
  std::int64_t same_stamp_ = 0;
  bool imaging_came_ = false, ended_ = false;
};

}  // namespace echotrain
