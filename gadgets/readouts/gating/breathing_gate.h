// A BreathingGate selects the readouts that were acquired in a wanted state of breathing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "gadgets/readouts/gating/centre_samples.h"
#include "gadgets/readouts/gating/self_navigator.h"
#include "protocol/data/header.h"

namespace echotrain {

/// Uses the readouts that pass the centre of k-space as navigators (CentreSamples, SelfNavigator), for each anatomy
/// separately. On CUDA, the scan's thread waits for their samples once for each stretch that is judged.
class BreathingGate {
 public:
  struct Options {
    double from = 0, to = 0.5;  ///< positions [from, to) are wanted: 0 is expiration, 1 inspiration; 1 is included
    double low_hz = 0.1, high_hz = 0.5;
    double tick_ms = 2.5;                                         ///< unit of time stamps, for messages
    std::string who = "cardiac_binning: respiratory: navigator";  ///< begins messages
    std::string fate = "whose readouts are left out";             ///< fate of the parts where breathing cannot be
                                                                  ///< determined, for messages
  };
  using Anatomy = CentreSamples::Anatomy;
  enum class Answer { unknown, wanted, unwanted };

  BreathingGate(Options options, const protocol::Header& header, Scan& scan);

  /// Adds the imaging readouts of a batch, with the time of each [ms]. Returns true if answers changed.
  bool add(const Readouts& readouts, std::span<const double> times_ms);
  /// Ends the scan: no more readouts come.
  void finish();

  /// The steps of add() and finish(), for a gadget that uses the centres for other purposes, too: a readout of
  /// `anatomy` wants to be judged, a centre came, and judge() judges the part that ready() allows.
  void expect(const Anatomy& anatomy, double time_ms);
  void take(const Anatomy& anatomy, double time_ms, std::span<const cfloat> centre);
  bool ready() const;
  void judge(bool ended);

  /// The answer for a readout that was added. Parts of the scan where breathing cannot be determined are unwanted, with
  /// a warning.
  Answer answer(const FrameKey& key, double time_ms) const { return answer(CentreSamples::anatomy_of(key), time_ms); }
  Answer answer(const Anatomy& anatomy, double time_ms) const;
  /// The breath at that moment; empty: not judged yet. Warns likewise.
  std::optional<SelfNavigator::State> state(const Anatomy& anatomy, double time_ms) const;
  /// Returns why breathing could not be determined anywhere in the scan; empty if it could somewhere, or no readout
  /// asked.
  std::string nothing_told() const;

 private:
  using Verdict = SelfNavigator::Verdict;
  SelfNavigator& navigator(const Anatomy& anatomy);
  std::string reason(Verdict verdict) const;

  Options options_;
  Scan& scan_;
  CentreSamples centres_;  // for add()
  std::map<Anatomy, SelfNavigator> navigators_;
  std::size_t coils_ = 0;
  double now_ms_ = 0;
  mutable std::set<Verdict> verdicts_;  // verdicts on readouts so far
};

}  // namespace echotrain
