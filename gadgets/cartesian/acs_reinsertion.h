// AcsReinsertion puts reference lines into the frames that they were acquired with.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/cartesian/cartesian_lines.h"
#include "gadgets/cartesian/reference_options.h"
#include "gadgets/numerics/core/memory_budget.h"

namespace echotrain {

/// Puts calibration readouts (flag 20 without 21) back into the frame that they were acquired with: where the header's
/// calibrationMode or the options say that lines are embedded, into accelerated frames with the same counters, into
/// rows that no imaging readout has brought. Lines that come several times are averaged like others. Only the samples
/// that all of the frame's rows have are used of a line, and a line that lacks some of them is left out.
class AcsReinsertion {
 public:
  void start(const protocol::Header& header, const std::vector<CartesianSpace>& spaces, const ReferenceOptions& options,
             Scan& scan);
  bool wanted(std::uint16_t encoding) const { return wanted_.at(encoding); }
  /// Keeps calibration readouts, and their memory, until their frame ends, or until that of the repetition after the
  /// next may begin; ignores other readouts, and all where it is not wanted(). Readouts that do not fit the matrix are
  /// left out with a warning.
  void keep(const Readouts& readouts);

  /// Adds lines. readouts: [readout, coil, sample]; rows: one per readout, z * ny + y, -1 for one that is left out.
  using Add = std::function<void(numerics::DeviceView<const cfloat> readouts, const std::vector<std::int32_t>& rows,
                                 const numerics::LinePlacement& placement)>;
  /// Calls `add` with the lines that belong to the frame, whose last readout has come, after counting them in `hits`
  /// (per row, as rows_of() does). Returns the number of rows that they fill. Throws ClientError when they do not have
  /// `coils` coils.
  std::int64_t give(const Frame& frame, const CartesianSpace& space, std::int64_t coils, const SampleRange& samples,
                    std::vector<std::int32_t>& hits, const Add& add);
  /// Counts in `hits` the lines that have come for the frame so far, as give() would.
  void count(const Frame& frame, const CartesianSpace& space, const SampleRange& samples,
             std::vector<std::int32_t>& hits) const;

 private:
  struct Kept {
    std::vector<Readouts> readouts;
  };

  Scan* scan_ = nullptr;
  std::vector<CartesianSpace> spaces_;
  std::vector<bool> wanted_;  // per encoding
  std::map<FrameKey, Kept> kept_;
};

}  // namespace echotrain
