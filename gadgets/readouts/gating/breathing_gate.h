// Which readouts were acquired in a wanted state of breathing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "gadgets/readouts/gating/self_navigator.h"
#include "protocol/data/header.h"

namespace echotrain {

/// Navigates by the readouts that pass the centre of k-space (SelfNavigator), each slice, contrast, set and encoding by
/// itself. Cartesian readouts pass it where both encoding steps are the header's central ones, at center_sample; others
/// at the position nearest to zero, if that is no farther from it than from the position beside it. Steps along z of a
/// stack of stars or of spirals count too.
///
/// On CUDA, the centre's samples are copied to the host as they come; the scan's thread waits for them once for each
/// stretch that is judged.
class BreathingGate {
 public:
  struct Options {
    double from = 0, to = 0.5;  ///< positions [from, to) are wanted: 0 is expiration, 1 inspiration; 1 is included
    double low_hz = 0.1, high_hz = 0.5;
    double tick_ms = 2.5;  ///< of time stamps, for messages
  };
  enum class Answer { unknown, wanted, unwanted };

  BreathingGate(const Options& options, const protocol::Header& header, Scan& scan);

  /// The imaging readouts of a batch, and when each was acquired [ms]. Returns whether answers changed.
  bool add(const Readouts& readouts, std::span<const double> times_ms);
  /// No more come.
  void finish();
  /// Of a readout that was added. Parts of the scan where breathing cannot be told are unwanted, with a warning.
  Answer answer(const FrameKey& key, double time_ms) const;
  /// Why breathing could not be told anywhere in the scan; empty: it could somewhere, or nothing was asked.
  std::string nothing_told() const;

 private:
  using Verdict = SelfNavigator::Verdict;
  using Anatomy = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t>;
  struct Encoding {
    bool cartesian = true;
    bool volume = false;                  // the trajectory has a z, and steps 2 do not
    std::int64_t step_1 = 0, step_2 = 0;  // the central ones
    bool steps_2 = false;                 // there are several
  };
  struct Copy {
    Anatomy anatomy;
    std::vector<double> times_ms;
    HostArray<cfloat> samples;  // [readout, coil]
  };
  static Anatomy anatomy_of(const FrameKey& key) { return {key.encoding, key.slice, key.contrast, key.set}; }
  std::optional<std::int64_t> centre_of(const Readouts& readouts, std::size_t i) const;
  void copy(const Readouts& readouts, std::span<const double> times_ms, std::size_t begin, std::size_t end,
            std::int64_t sample);
  bool judge(double now_ms);
  std::string reason(Verdict verdict) const;

  Options options_;
  Scan& scan_;
  std::vector<Encoding> encodings_;
  std::map<Anatomy, SelfNavigator> navigators_;
  std::vector<Copy> copies_;  // not given to the navigators yet
  std::int64_t coils_ = 0;
  double now_ms_ = 0;
  mutable std::set<Verdict> verdicts_;  // that readouts got
};

}  // namespace echotrain
