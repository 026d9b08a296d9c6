// The rows of Cartesian lines in k-space, by their encoding steps.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// One encoding space.
struct CartesianSpace {
  ImageGeometry geometry;
  std::array<std::int64_t, 3> matrix{};                           // encoded x, y, z
  std::array<std::uint16_t, 2> acceleration{1, 1};                // announced steps of y and z
  std::int64_t offset_y = 0, offset_z = 0;                        // row = step + offset
  std::int64_t first_y = 0, last_y = 0, first_z = 0, last_z = 0;  // rows the header announces
  std::int64_t rows() const { return matrix[1] * matrix[2]; }
  bool accelerated() const { return acceleration[0] > 1 || acceleration[1] > 1; }
};

/// The space of each encoding. Throws ClientError when the measurement is not Cartesian or its limits do not fit.
std::vector<CartesianSpace> cartesian_spaces(const protocol::Header& header, Scan& scan);

/// Warns the client when the header announces missing lines; for gadgets that transform the data without unmixing.
void warn_of_aliasing(const protocol::Header& header, Scan& scan);

/// Throws ClientError when imaging readouts are reversed, because these need phase correction.
void refuse_reversed(const Readouts& readouts);

/// The counters of the frame that a readout belongs to.
FrameKey frame_of(const protocol::AcquisitionHeader& head);

/// Row z * ny + y of a readout; -1 for one outside the matrix.
std::int32_t row_of(const protocol::AcquisitionHeader& head, const CartesianSpace& space);

/// The row of each readout, counted in `hits`; -1, with a warning, for one outside the matrix.
std::vector<std::int32_t> rows_of(const Readouts& readouts, const CartesianSpace& space,
                                  std::vector<std::int32_t>& hits, Scan& scan);

/// Calls run(begin, end, placement) for each stretch of readouts with the same placement on their lines. Throws
/// ClientError when samples do not fit.
void for_placements(
    const Readouts& readouts, const CartesianSpace& space,
    const std::function<void(std::int64_t begin, std::int64_t end, const numerics::LinePlacement& placement)>& run);

/// True if for_placements() takes calibration readouts; if not, the client is warned that they are left out.
bool placements_fit(const Readouts& readouts, const CartesianSpace& space, Scan& scan);

/// The samples that a frame has of its rows.
class SampleRange {
 public:
  void add(const numerics::LinePlacement& placement) {
    const std::int64_t first = placement.first_x, last = first + placement.last_sample - placement.first_sample;
    common_ = {std::max(common_[0], first), std::min(common_[1], last)};
    any_ = {std::min(any_[0], first), std::max(any_[1], last)};
  }
  /// The samples [first, last) that all rows have; [0, 0) if there are none in common.
  std::array<std::int64_t, 2> range() const {
    return common_[0] < common_[1] ? common_ : std::array<std::int64_t, 2>{};
  }
  /// True if some row has samples that another one lacks.
  bool rows_differ() const { return common_ != any_; }

 private:
  static constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  std::array<std::int64_t, 2> common_{0, kFar}, any_{kFar, 0};
};

/// The rows that came (hits > 0), and the lattice that they form.
SampledLines lines_that_came(const CartesianSpace& space, const std::vector<std::int32_t>& hits,
                             const SampleRange& samples);

/// Facts about a frame's rows once the last of them has come.
struct ClosedLines {
  std::shared_ptr<const Frame> frame;  ///< knows the acquired part, and notes the number of missing rows: of the
                                       ///< announced ones, or of the lattice if the header announces one
  std::vector<float> factors;          ///< 1 / hits of each row; empty when no row came more than once
  /// KSpace::image_noise where samples are white (Readouts::white): with 1/N before the transform, a voxel's variance
  /// is the sum of all samples' over N^2. 0: rows differ in their samples.
  double image_noise = 0;
  std::shared_ptr<const SampledLines> lines;
};
ClosedLines close_lines(const Frame& frame, const CartesianSpace& space, const std::vector<std::int32_t>& hits,
                        const SampleRange& samples);

}  // namespace echotrain
