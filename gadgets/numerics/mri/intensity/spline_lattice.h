// A SplineLattice is a smooth function on a regular grid, by cubic B-splines.
#pragma once

#include <array>
#include <vector>

#include "gadgets/numerics/core/extents.h"

namespace echotrain::numerics {

/// A sum of cubic B-splines on equal spans of the grid [z, y, x], from the first to the last point of each axis. An
/// axis of one point is constant. Axes are done one after another, in float64, so that runs have the same bits.
class SplineLattice {
 public:
  /// One span along each axis; zero everywhere. inside: [z, y, x], 1 at points that approximations are made of, else 0.
  SplineLattice(const Extents& grid, std::vector<double> inside);

  /// Adds the approximation of scattered data by Lee, Wolberg & Shin (IEEE TVCG 3(3), 1997), equations 3 to 5, to the
  /// points inside: `values` [z, y, x], 0 at all others. Coefficients that no point meets stay.
  void add_approximation(const std::vector<double>& values);
  /// Halves the spans. The function stays the same.
  void refine();
  /// The function at the points of a grid [z, y, x] that covers the same place as the lattice's own one: its first and
  /// last points lie (first, last) points of the own grid behind its first one.
  struct Place {
    double first, last;
  };
  void evaluate(const Extents& on, const std::array<Place, 3>& at, std::vector<double>& to) const {
    std::vector<double> spare;
    evaluate(on, at, to, spare);
  }
  /// The function on its own grid.
  void evaluate(std::vector<double>& to);

 private:
  Extents lattice() const;
  void gather(int power, bool normed, std::vector<double>& values);
  void evaluate(const Extents& on, const std::array<Place, 3>& at, std::vector<double>& to,
                std::vector<double>& spare) const;

  const Extents grid_;
  const std::vector<double> inside_;
  Extents spans_{};
  std::vector<double> coefficients_,
      squares_;                       // [z, y, x] of lattice(); sums of squared splines over the points inside
  std::vector<double> sums_, spare_;  // kept, as a fit needs them hundreds of times
};

}  // namespace echotrain::numerics
