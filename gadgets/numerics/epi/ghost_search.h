// The odd/even phase that an image itself tells: the one that leaves least ghost.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/thread_pool.h"
#include "gadgets/numerics/epi/navigator.h"

namespace echotrain::numerics {

/// The images that a frame's lines of each direction make alone, in float64.
class GhostSearch {
 public:
  GhostSearch(std::int64_t coils, std::int64_t rows, std::int64_t points);
  /// Adds a line's profile [coil, x] at row `row`, 0 to rows - 1, of k-space.
  void add(std::int64_t row, bool reversed, const std::vector<cdouble>& profile);

  /// The phase of reversed lines at which the root sum of squares of all coils has least entropy. Without `widely`,
  /// near 0; else with a constant within pi / 2 and a slope within 0.4 rad a point: a constant that differs by pi moves
  /// the image by half a field of view, and leaves the same entropy. Each step tries eight neighbours. Source: Clare,
  /// ISMRM 2003, 1041. 0 when there are no lines of one direction. Stopped.
  LinearPhase find(const ThreadPool& threads, bool widely);
  /// sum of -(m / s) log(m / s) over the image's magnitudes m, s the root of the sum of their squares, with `phase`
  /// taken from the reversed lines. After find().
  double entropy(const LinearPhase& phase) const;

 private:
  void transform(const ThreadPool& threads);

  std::int64_t coils_, rows_, points_;
  std::vector<cdouble> lines_[2], images_[2];  // [coil, row, x], [coil, y, x]: forward, reversed
  bool came_[2] = {false, false};
};

}  // namespace echotrain::numerics
