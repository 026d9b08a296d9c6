// Reductions on each backend; arguments were checked, and there is at least one value.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/reduce/reductions.h"

namespace echotrain::numerics {

/// Sums side by side. A result starts as its type's default, and join() adds another part.
template <int N>
struct Sums {
  double of[N] = {};
  ECHOTRAIN_HOST_DEVICE void join(const Sums& other) {
    for (int i = 0; i < N; ++i) of[i] += other.of[i];
  }
};

/// The sums of a Comparison.
struct ComparisonSums {
  double error_power = 0, power = 0, reference_power = 0, inner_re = 0, inner_im = 0;
  double square_peak = 0;  ///< largest |b|^2
  ECHOTRAIN_HOST_DEVICE void join(const ComparisonSums& other) {
    error_power += other.error_power;
    power += other.power;
    reference_power += other.reference_power;
    inner_re += other.inner_re;
    inner_im += other.inner_im;
    square_peak = other.square_peak > square_peak ? other.square_peak : square_peak;
  }
  /// Adds a pair of values and the factor's parts; real values have no imaginary part.
  ECHOTRAIN_HOST_DEVICE void take(double a_re, double a_im, double b_re, double b_im, double s_re, double s_im) {
    const double e_re = s_re * a_re - s_im * a_im - b_re, e_im = s_re * a_im + s_im * a_re - b_im;
    const double square = b_re * b_re + b_im * b_im;
    error_power += e_re * e_re + e_im * e_im;
    power += a_re * a_re + a_im * a_im;
    reference_power += square;
    inner_re += a_re * b_re + a_im * b_im;
    inner_im += a_re * b_im - a_im * b_re;
    square_peak = square > square_peak ? square : square_peak;
  }
};

inline Comparison comparison(const ComparisonSums& sums, std::int64_t count) {
  return {.count = count,
          .error_power = sums.error_power,
          .power = sums.power,
          .reference_power = sums.reference_power,
          .peak = std::sqrt(sums.square_peak),
          .inner = {sums.inner_re, sums.inner_im}};
}

/// The rank of a quantile among `count` > 0 values.
ECHOTRAIN_HOST_DEVICE inline std::int64_t quantile_rank(double q, std::int64_t count) {
  return static_cast<std::int64_t>(q * static_cast<double>(count - 1));
}

// Complex arrays are passed as arrays of twice as many floats where only their parts matter.
// clang-format off
ECHOTRAIN_BACKENDS(
void sum(Context& context, DeviceView<const float> values, DeviceView<double> to);
void power(Context& context, DeviceView<const float> values, DeviceView<double> to);
void inner_products(Context& context, DeviceView<const float> u, DeviceView<const float> v, DeviceView<double> to);
void add_weighted_power(Context& context, DeviceView<const cfloat> samples, DeviceView<const float> weights, DeviceView<double> to);
void extremes(Context& context, DeviceView<const float> values, DeviceView<float> to);
void extremes(Context& context, DeviceView<const cfloat> values, DeviceView<float> to);
void quantile(Context& context, DeviceView<const float> values, double q, DeviceView<float> to);
ComparisonSums compare(Context& context, DeviceView<const float> a, DeviceView<const float> b, cdouble s);
ComparisonSums compare(Context& context, DeviceView<const cfloat> a, DeviceView<const cfloat> b, cdouble s);
)
// clang-format on

}  // namespace echotrain::numerics
