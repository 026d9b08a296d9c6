// Referenceless Nyquist ghost correction: finds the odd/even phase that leaves the least ghost in the image itself.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/thread_pool.h"
#include "gadgets/numerics/mri/epi/navigator.h"

namespace echotrain::numerics {

/// Holds, in float64, the images that a frame's lines of either direction make alone. A common phase depends only on
/// two values per pixel: the sum over coils of their powers, and that of their products.
class GhostSearch {
 public:
  /// Throws OverBudget when `account` has no room for bytes().
  GhostSearch(const std::shared_ptr<MemoryAccount>& account, std::int64_t coils, std::int64_t rows,
              std::int64_t points);
  static std::uint64_t bytes(std::int64_t coils, std::int64_t rows, std::int64_t points);
  /// Adds a line's profile [coil, x] at row `row`, 0 to rows - 1, of k-space.
  void add(std::int64_t row, bool reversed, const std::vector<cdouble>& profile);

  /// The phase of reversed lines at which the root sum of squares of all coils has least entropy. Without `widely`,
  /// near 0; else with a constant within pi / 2 and a slope within 0.4 rad a point: a constant that differs by pi moves
  /// the image by half a field of view, and leaves the same entropy. Each step tries eight neighbours. Source: Clare,
  /// ISMRM 2003, 1041. Returns 0 when there are no lines of one direction. Uses all threads, with the same bits for any
  /// number of them. Throws Stopped.
  LinearPhase find(ThreadPool& threads, bool widely);
  /// The entropy for each phase: sum of -(m / s) log(m / s) over the image's magnitudes m, s the root of the sum of
  /// their squares, with the phase taken from the reversed lines. Call it after find().
  std::vector<double> entropies(ThreadPool& threads, const std::vector<LinearPhase>& phases) const;

 private:
  void transform(ThreadPool& threads);

  std::int64_t coils_, rows_, points_;
  std::vector<cdouble> lines_[2];  // [coil, row, x]: forward, reversed
  std::vector<double> power_;      // [y, x]: sum over coils of |forward|^2 + |reversed|^2
  std::vector<cdouble> product_;   // [y, x]: sum over coils of 2 forward conj(reversed)
  bool came_[2] = {false, false};
};

}  // namespace echotrain::numerics
