// The k-space picture shows which parts of k-space a scan has sent.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "config/pipeline_spec.h"
#include "protocol/data/header.h"
#include "protocol/data/messages.h"

namespace echotrain::server {

/// Lines on a grid (rows: phase encoding step 1; columns: step 2, or slices) where the trajectory is Cartesian or EPI,
/// else the samples' positions kx, ky. Allocates nothing after construction. Not thread-safe.
class KspacePicture {
 public:
  static constexpr int kMost = 96;  ///< cells along an axis
  /// The picture is of one scan. A header without encodings (images only) gives an empty picture.
  KspacePicture(const protocol::Header& header, config::TrajectoryUnit unit);

  /// Adds an imaging readout. Those of other encoding spaces than the first leave the picture as it is.
  void add(const protocol::Acquisition& readout);

  int width() const { return width_; }    ///< cells; 1 where a line is a row
  int height() const { return height_; }  ///< 0: there is no picture
  bool lines() const { return lines_; }   ///< of lines, not of positions
  /// One character per cell, row by row: '0' has not come, '1' came in an earlier repetition, '2' in this one.
  const std::string& cells() const { return cells_; }
  /// Cells that have come in this repetition.
  std::int64_t filled() const { return filled_; }
  /// The newest readout's path [kx, ky, kx, ky, ...] in cycles/pixel, at most kPath points; empty for lines.
  static constexpr int kPath = 64;
  const std::vector<float>& path() const { return path_; }

 private:
  void mark(int row, int column);
  void add_positions(const protocol::Acquisition& readout);

  bool lines_ = true, slices_ = false;
  int width_ = 0, height_ = 0, rows_ = 1, columns_ = 1;
  std::array<float, 2> scale_{1, 1};  // to cycles/pixel
  std::string cells_;
  std::vector<float> path_;
  std::int64_t filled_ = 0;
  std::uint16_t repetition_ = 0;
};

/// Returns the number of imaging lines that a header announces: the product of its limits, divided by the
/// accelerations, over all encoding spaces; 0: the header says nothing of lines. Reference lines beside an accelerated
/// scan are not in it.
std::uint64_t lines_announced(const protocol::Header& header);

}  // namespace echotrain::server
