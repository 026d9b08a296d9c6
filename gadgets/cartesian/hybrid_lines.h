// HybridLines transforms the lines of frames along x as they come.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/cartesian/acs_reinsertion.h"
#include "gadgets/cartesian/cartesian_lines.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/shared/hybrid_frames.h"

namespace echotrain {

/// Does for the gadgets that transform early what CartesianKSpace does with k-space: lines are placed by their encoding
/// steps, repeated ones averaged, embedded reference lines put back. On the CPU.
class HybridLines {
 public:
  /// Prepares for a scan, as CartesianKSpace::start(). Throws ClientError when the measurement is not Cartesian or its
  /// limits do not fit.
  void start(const protocol::Header& header, numerics::Direction direction, const ReferenceOptions& options,
             Scan& scan);
  const std::vector<CartesianSpace>& spaces() const { return spaces_; }
  bool puts_back(std::uint16_t encoding) const { return put_back_.wanted(encoding); }
  /// Takes calibration readouts that are to be put back.
  void keep(const Readouts& readouts) { put_back_.keep(readouts); }
  /// Takes imaging readouts. Throws ClientError when samples do not fit.
  void add(const Readouts& readouts);
  /// Ends the frame, whose last readout has been added. The result has no calibration; its `half` is empty when no
  /// readout came.
  HybridFrame end(const Frame& frame);
  /// Predicts the result of end() for an open frame, without `frame` and `half`, if the other rows that the header
  /// announces come too, on the lattice that most of those here agree with. Predicted once for each frame, for volumes
  /// when half of their rows have come, which show a shift; before and after that, and where there is no lattice,
  /// `lines` is null.
  HybridFrame expected(const Frame& frame);

 private:
  struct Buffer {
    Array<cfloat> half;              // [coil, z * y, x of the image]
    std::vector<std::int32_t> hits;  // per line: how often it came
    SampleRange samples;
    std::int64_t readouts = 0;
    bool white = true;  // all readouts are
    bool foretold = false;
  };
  numerics::LineGeometry geometry(const CartesianSpace& space) const;
  void transform(Buffer& buffer, const CartesianSpace& space, numerics::DeviceView<const cfloat> readouts,
                 numerics::HostView<const std::int32_t> rows, numerics::HostView<const std::uint8_t> repeated,
                 const numerics::LinePlacement& placement);

  Scan* scan_ = nullptr;
  numerics::Direction direction_ = numerics::Direction::inverse;
  std::vector<CartesianSpace> spaces_;
  AcsReinsertion put_back_;
  std::map<std::uint64_t, Buffer> open_;  // by frame
};

}  // namespace echotrain
