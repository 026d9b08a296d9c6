// The odd/even phase that an image itself tells: the one that leaves least ghost.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/thread_pool.h"
#include "gadgets/numerics/epi/navigator.h"

namespace echotrain::numerics {

/// The images that a frame's lines of each direction make alone, in float64: of a pixel, the sum of their powers over
/// coils, and of their products, are all that a common phase asks for.
class GhostSearch {
 public:
  /// `account` pays for bytes(); OverBudget when it cannot.
  GhostSearch(std::shared_ptr<MemoryAccount> account, std::int64_t coils, std::int64_t rows, std::int64_t points);
  static std::uint64_t bytes(std::int64_t coils, std::int64_t rows, std::int64_t points);
  /// Adds a line's profile [coil, x] at row `row`, 0 to rows - 1, of k-space.
  void add(std::int64_t row, bool reversed, const std::vector<cdouble>& profile);

  /// The phase of reversed lines at which the root sum of squares of all coils has least entropy. Without `widely`,
  /// near 0; else with a constant within pi / 2 and a slope within 0.4 rad a point: a constant that differs by pi moves
  /// the image by half a field of view, and leaves the same entropy. Each step tries eight neighbours. Source: Clare,
  /// ISMRM 2003, 1041. 0 when there are no lines of one direction. On all threads, the same bits for any number of
  /// them. Stopped.
  LinearPhase find(ThreadPool& threads, bool widely);
  /// Of each phase: sum of -(m / s) log(m / s) over the image's magnitudes m, s the root of the sum of their squares,
  /// with the phase taken from the reversed lines. After find().
  std::vector<double> entropies(ThreadPool& threads, const std::vector<LinearPhase>& phases) const;

 private:
  void transform(ThreadPool& threads);

  MemoryShare paid_;
  std::int64_t coils_, rows_, points_;
  std::vector<cdouble> lines_[2];  // [coil, row, x]: forward, reversed
  std::vector<double> power_;      // [y, x]: sum over coils of |forward|^2 + |reversed|^2
  std::vector<cdouble> product_;   // [y, x]: sum over coils of 2 forward conj(reversed)
  bool came_[2] = {false, false};
};

}  // namespace echotrain::numerics
