// Reductions of many values to one: sums, norms, dot products, extremes, quantiles and the distance of two arrays.
// Images and samples are reduced here and nowhere else. Two kinds of code keep loops of their own and join values with
// this service's functions (reductions_cpu.h, reductions_cuda.cuh): those that compute the values they sum, which a
// separate pass would read again (pcg_*, whose products are part of a CUDA graph; density_pipe_menon_*; toeplitz_*),
// and those of many small sums (coil_maps_*, direct_transform_tensor_cuda.cu). Matrix products, interpolation, and
// loops over geometry or a handful of numbers are no reductions.
#pragma once

#include <cmath>
#include <limits>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

// Sums are taken in float64. With n terms their error is at most (300 + n / 4096) 2^-53 times the sum of the terms'
// magnitudes on the CPU, and (60 + n / 262144) 2^-53 times it on CUDA: the longest chain of roundings that a term goes
// through. They have the same bits in every run, for any number of CPU threads and on any CUDA device; the two backends
// differ by rounding. Empty sums are 0, and values that are not finite make sums not finite. Extremes and quantiles
// ignore values that are not finite.
//
// Functions with a `to` are asynchronous on CUDA: values and result are where the context computes. Those that return
// numbers wait for them. Throws std::invalid_argument when sizes do not fit.

/// to[0] = sum of the values.
void sum(Context& context, DeviceView<const float> values, DeviceView<double> to);
double sum(Context& context, DeviceView<const float> values);

/// to[0] = sum of |v|^2; its root is the norm.
void power(Context& context, DeviceView<const float> values, DeviceView<double> to);
void power(Context& context, DeviceView<const cfloat> values, DeviceView<double> to);
double norm(Context& context, DeviceView<const float> values);
double norm(Context& context, DeviceView<const cfloat> values);

/// to[0] = <u, v>, to[1] = |v|^2. For complex vectors, the real part of <u, v>.
void inner_products(Context& context, DeviceView<const float> u, DeviceView<const float> v, DeviceView<double> to);
void inner_products(Context& context, DeviceView<const cfloat> u, DeviceView<const cfloat> v, DeviceView<double> to);
double dot(Context& context, DeviceView<const float> u, DeviceView<const float> v);
double dot(Context& context, DeviceView<const cfloat> u, DeviceView<const cfloat> v);

/// to[0] += sum over samples and coils of weights[s] |samples[s, c]|^2; samples of weight 0 may be anything. samples:
/// [sample, coil]; weights: [sample] or empty (all 1).
void add_weighted_power(Context& context, DeviceView<const cfloat> samples, DeviceView<const float> weights,
                        DeviceView<double> to);

/// The smallest and the largest finite value; infinity and -infinity when there is none.
struct Extremes {
  float least = std::numeric_limits<float>::infinity();
  float most = -std::numeric_limits<float>::infinity();
};
/// to[0] = the smallest, to[1] = the largest value; for complex values, of their magnitudes.
void extremes(Context& context, DeviceView<const float> values, DeviceView<float> to);
void extremes(Context& context, DeviceView<const cfloat> values, DeviceView<float> to);
Extremes extremes(Context& context, DeviceView<const float> values);
Extremes extremes(Context& context, DeviceView<const cfloat> values);

/// The value of rank floor(q (n - 1)) among the n finite values, sorted from rank 0 on; NaN when there is none. q:
/// 0..1.
void quantile(Context& context, DeviceView<const float> values, double q, DeviceView<float> to);
float quantile(Context& context, DeviceView<const float> values, double q);

/// The distance of s a from a reference b, for a factor s.
struct Comparison {
  std::int64_t count = 0;
  double error_power = 0;      ///< |s a - b|^2
  double power = 0;            ///< |a|^2
  double reference_power = 0;  ///< |b|^2
  double peak = 0;             ///< largest |b|; NaN counts as none
  cdouble inner = 0;           ///< <a, b>: a fits b best with s = inner / power

  double mse() const { return error_power / static_cast<double>(count); }
  double nrmse() const { return error_power == 0 ? 0 : std::sqrt(error_power / reference_power); }
  /// 20 log10(peak / sqrt(mse)) [dB]; infinite when s a = b.
  double psnr() const {
    return error_power == 0 ? std::numeric_limits<double>::infinity() : 20 * std::log10(peak / std::sqrt(mse()));
  }
};
Comparison compare(Context& context, DeviceView<const float> a, DeviceView<const float> b, double s = 1);
Comparison compare(Context& context, DeviceView<const cfloat> a, DeviceView<const cfloat> b, cdouble s = 1);

/// Reductions of values on the host, by the threads of a pool.
namespace on_host {
double sum(ThreadPool& threads, HostView<const float> values);
double power(ThreadPool& threads, HostView<const float> values);
double power(ThreadPool& threads, HostView<const cfloat> values);
Extremes extremes(ThreadPool& threads, HostView<const float> values);
Extremes extremes(ThreadPool& threads, HostView<const cfloat> values);
float quantile(HostView<const float> values, double q);
Comparison compare(ThreadPool& threads, HostView<const float> a, HostView<const float> b, double s = 1);
Comparison compare(ThreadPool& threads, HostView<const cfloat> a, HostView<const cfloat> b, cdouble s = 1);
Comparison compare(ThreadPool& threads, HostView<const cdouble> a, HostView<const cdouble> b, cdouble s = 1);
}  // namespace on_host

}  // namespace echotrain::numerics
