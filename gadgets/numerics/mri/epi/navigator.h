// EPI navigators: lines without phase encoding that give the phase difference between odd and even echoes, and the
// precession from echo to echo.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/array.h"

namespace echotrain::numerics {

/// Lines of one echo train, one echo apart, in the order of time; all run the same way (reversed ones were turned).
struct Navigators {
  std::int64_t coils = 0, n = 0;
  std::vector<std::vector<cdouble>> profiles;  ///< [line], each [coil, x]
  std::vector<bool> reversed;                  ///< [line]
};

/// Profiles [coil, x] of lines [coil, k]: sum_k line[k] exp(+2 pi i (k - floor(n/2)) (x - floor(n/2)) / n) / n, in
/// float64.
class ProfileTransform {
 public:
  explicit ProfileTransform(std::int64_t n);
  std::int64_t points() const { return n_; }
  /// `turned`: the line is stored the other way round.
  std::vector<cdouble> operator()(HostView<const cfloat> line, bool turned) const;

 private:
  std::int64_t n_;
  std::vector<double> re_, im_;  // [k, x]
};

/// The phase by which spins precess from echo to echo [rad], -pi/2 to pi/2, from lines of the same direction; 0 when
/// there are no two.
double precession(const Navigators& lines);

/// [coil, x]: the sum over reversed lines of conj(p) times the line itself, where p is the line predicted without
/// odd/even errors. p is the mean of both neighbours, with the precession taken out, where both are there; else the one
/// neighbour, turned by one echo's precession. Empty when no line has a neighbour of the other direction.
std::vector<cdouble> odd_even_products(const Navigators& lines);

/// [coil, x]: the product of reversed line `line` alone, by the mean of both neighbours and the precession between
/// these, of the two that differ by pi the one nearer to precession(); empty where they do not both run the other way.
std::vector<cdouble> odd_even_products(const Navigators& lines, std::size_t line);

/// True if reversed lines look like mirrored ones: the flags are the wrong way round, or belong to other lines.
bool looks_mirrored(const Navigators& lines);

/// A phase of constant + slope * (x - floor(n/2)) [rad].
struct LinearPhase {
  double constant = 0, slope = 0;
};

/// The linear phase of `products` [x], weighted by their power: the slope by the products of neighbours, then two steps
/// of weighted least squares for both. Source of the first step: Ahn & Cho, IEEE TMI 6, 1987.
LinearPhase linear_phase(const std::vector<cdouble>& products);

/// The phase of `products` [x] at each point: the linear phase plus the residual, smoothed over 5 points, where the
/// signal is above `floor` times the largest.
std::vector<double> pointwise_phase(const std::vector<cdouble>& products, const LinearPhase& line, double floor = 0.1);

/// The remaining ghost, relative to the object: sum |products| |tan(r / 2)| / sum |products|, r the difference of the
/// phase of `products` from `phases`.
double ghost_level(const std::vector<cdouble>& products, const std::vector<double>& phases);

}  // namespace echotrain::numerics
