// CentreSamples extracts the samples in which readouts pass the centre of k-space, on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gadgets/api/errors.h"
#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "protocol/data/header.h"

namespace echotrain {

/// Cartesian readouts pass the centre where both encoding steps are the header's central ones, at center_sample; others
/// at the position nearest to zero, if that is no farther from zero than from the next position. Steps along z of a
/// stack of stars or of spirals count too. Navigator readouts are not phase encoded: they pass the centre at
/// center_sample.
///
/// On CUDA, samples are copied to the host as they come; take() waits for them.
class CentreSamples {
 public:
  /// An anatomy is navigated separately: encoding, slice, contrast, set. All navigator readouts are one.
  using Anatomy = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t>;
  static Anatomy anatomy_of(const FrameKey& key) { return {key.encoding, key.slice, key.contrast, key.set}; }

  /// `who` begins messages.
  CentreSamples(std::string who, const protocol::Header& header, Scan& scan);

  /// Adds the readouts of a batch, imaging or navigators, with the time of each [ms]. Throws ClientError when the
  /// number of channels changes.
  void add(const Readouts& readouts, std::span<const double> times_ms);
  std::int64_t coils() const { return coils_; }
  /// Calls f(anatomy, time_ms, samples of all coils) for each centre since the last call, in their order.
  template <class F>
  void take(const F& f) {
    if (!copies_.empty()) scan_.compute.synchronize();
    for (const Copy& copy : std::exchange(copies_, {}))
      for (std::size_t i = 0; i < copy.times_ms.size(); ++i)
        f(copy.anatomy, copy.times_ms[i],
          std::span<const cfloat>(copy.samples.data() + static_cast<std::int64_t>(i) * coils_,
                                  static_cast<std::size_t>(coils_)));
  }

 private:
  struct Encoding {
    bool cartesian = true;
    bool volume = false;                  // the trajectory has a z, and steps 2 do not
    std::int64_t step_1 = 0, step_2 = 0;  // the central steps
    bool steps_2 = false;                 // there are several steps 2
  };
  struct Copy {
    Anatomy anatomy;
    std::vector<double> times_ms;
    HostArray<cfloat> samples;  // [readout, coil]
  };
  std::optional<std::int64_t> centre_of(const Readouts& readouts, std::size_t i) const;
  void copy(const Readouts& readouts, std::span<const double> times_ms, std::size_t begin, std::int64_t sample);
  void copy_navigators(const Readouts& readouts, std::span<const double> times_ms);

  const std::string who_;
  Scan& scan_;
  std::vector<Encoding> encodings_;
  std::vector<Copy> copies_;  // not taken yet
  std::int64_t coils_ = 0;
};

}  // namespace echotrain
