// Where the lines of a Cartesian measurement belong.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/layout/layout.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// One encoding space.
struct CartesianSpace {
  ImageGeometry geometry;
  std::array<std::int64_t, 3> matrix{};                           // encoded x, y, z
  std::int64_t offset_y = 0, offset_z = 0;                        // row = step + offset
  std::int64_t first_y = 0, last_y = 0, first_z = 0, last_z = 0;  // rows the header announces
  std::int64_t rows() const { return matrix[1] * matrix[2]; }
};

/// The space of each encoding. ClientError when the measurement is not Cartesian or its limits do not fit.
std::vector<CartesianSpace> cartesian_spaces(const protocol::Header& header, Scan& scan);

/// ClientError when imaging readouts are reversed, because these need phase correction.
void refuse_reversed(const Readouts& readouts);

/// Row z * ny + y of each readout, counted in `hits`; -1, with a warning, for one outside the matrix.
std::vector<std::int32_t> rows_of(const Readouts& readouts, const CartesianSpace& space,
                                  std::vector<std::int32_t>& hits, Scan& scan);

/// Calls run(begin, end, placement) for each stretch of readouts with the same placement on their lines. ClientError
/// when samples do not fit.
void for_placements(
    const Readouts& readouts, const CartesianSpace& space,
    const std::function<void(std::int64_t begin, std::int64_t end, const numerics::LinePlacement& placement)>& run);

/// Facts about a frame's rows once the last of them has come.
struct ClosedLines {
  std::shared_ptr<const Frame> frame;  ///< notes how many announced rows have not come
  std::vector<float> factors;          ///< 1 / hits of each row; empty when no row came more than once
};
ClosedLines close_lines(const Frame& frame, const CartesianSpace& space, const std::vector<std::int32_t>& hits);

}  // namespace echotrain
