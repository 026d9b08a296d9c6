#include "gadgets/numerics/core/reduce/reductions_cpu.h"

#include <fmt/format.h>

#include <cmath>
#include <complex>
#include <stdexcept>

#include "gadgets/numerics/core/reduce/reductions_ops.h"

namespace echotrain::numerics {
namespace cpu {
namespace {

ECHOTRAIN_CLONES double block_sum(const float* v, std::int64_t n) {
  double sums[kSums] = {};
  for_terms(n, [&](std::int64_t l, std::int64_t i) ECHOTRAIN_INLINE_LAMBDA { sums[l] += static_cast<double>(v[i]); });
  return add_up(sums);
}

ECHOTRAIN_CLONES double block_dot(const float* u, const float* v, std::int64_t n) {
  double sums[kSums] = {};
  for_terms(n, [&](std::int64_t l, std::int64_t i)
                   ECHOTRAIN_INLINE_LAMBDA { sums[l] += static_cast<double>(u[i]) * static_cast<double>(v[i]); });
  return add_up(sums);
}

/// Joins the finite values' extremes to those in `least` and `most`, [kSums].
ECHOTRAIN_CLONES void block_extremes(const float* v, std::int64_t n, float* least, float* most) {
  for_terms(n, [&](std::int64_t l, std::int64_t i) ECHOTRAIN_INLINE_LAMBDA {
    const bool finite = v[i] - v[i] == 0;
    least[l] = finite && v[i] < least[l] ? v[i] : least[l];
    most[l] = finite && v[i] > most[l] ? v[i] : most[l];
  });
}

struct ExtremesPart : Extremes {
  void join(const Extremes& other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
};

ExtremesPart extremes_of(const float* values, std::int64_t n) {
  constexpr ExtremesPart kNone;
  float least[kSums], most[kSums];
  std::fill_n(least, kSums, kNone.least);
  std::fill_n(most, kSums, kNone.most);
  block_extremes(values, n, least, most);
  ExtremesPart part;
  for (std::int64_t l = 0; l < kSums; ++l) {
    part.least = std::min(part.least, least[l]);
    part.most = std::max(part.most, most[l]);
  }
  return part;
}

ExtremesPart extremes_of(const cfloat* values, std::int64_t n) {
  std::array<float, kReductionBlock> magnitudes;
  for (std::int64_t i = 0; i < n; ++i)
    magnitudes[static_cast<std::size_t>(i)] = std::hypot(values[i].real(), values[i].imag());
  return extremes_of(magnitudes.data(), n);
}

double real_part(float v) { return static_cast<double>(v); }
double imaginary_part(float) { return 0; }
template <class T>
double real_part(const std::complex<T>& v) {
  return static_cast<double>(v.real());
}
template <class T>
double imaginary_part(const std::complex<T>& v) {
  return static_cast<double>(v.imag());
}

template <class T>
ComparisonSums compared(ThreadPool& threads, HostView<const T> a, HostView<const T> b, cdouble s) {
  return reduce_blocks<ComparisonSums>(threads, a.size(), [&](std::int64_t begin, std::int64_t end) {
    ComparisonSums sums;
    for (std::int64_t i = begin; i < end; ++i)
      sums.take(real_part(a[i]), imaginary_part(a[i]), real_part(b[i]), imaginary_part(b[i]), s.real(), s.imag());
    return sums;
  });
}

}  // namespace

void sum(Context& context, DeviceView<const float> values, DeviceView<double> to) {
  to.data()[0] = on_host::sum(context.threads(), cpu::readable(values));
}

void power(Context& context, DeviceView<const float> values, DeviceView<double> to) {
  to.data()[0] = on_host::power(context.threads(), cpu::readable(values));
}

void inner_products(Context& context, DeviceView<const float> u, DeviceView<const float> v, DeviceView<double> to) {
  const auto sums = reduce_blocks<Sums<2>>(context.threads(), u.size(), [&](std::int64_t begin, std::int64_t end) {
    const float* part = v.data() + begin;
    return Sums<2>{{block_dot(u.data() + begin, part, end - begin), block_dot(part, part, end - begin)}};
  });
  to.data()[0] = sums.of[0];
  to.data()[1] = sums.of[1];
}

void add_weighted_power(Context& context, DeviceView<const cfloat> samples, DeviceView<const float> weights,
                        DeviceView<double> to) {
  const std::int64_t coils = samples.shape()[1];
  const auto sums =
      reduce_blocks<Sums<1>>(context.threads(), samples.shape()[0], [&](std::int64_t begin, std::int64_t end) {
        Sums<1> part;
        for (std::int64_t s = begin; s < end; ++s) {
          const double weight = weights.size() == 0 ? 1.0 : static_cast<double>(weights.data()[s]);
          if (weight == 0) continue;
          const auto* values = reinterpret_cast<const float*>(samples.data() + s * coils);
          part.of[0] += weight * block_dot(values, values, 2 * coils);
        }
        return part;
      });
  to.data()[0] += sums.of[0];
}

void extremes(Context& context, DeviceView<const float> values, DeviceView<float> to) {
  const Extremes found = on_host::extremes(context.threads(), cpu::readable(values));
  to.data()[0] = found.least;
  to.data()[1] = found.most;
}

void extremes(Context& context, DeviceView<const cfloat> values, DeviceView<float> to) {
  const Extremes found = on_host::extremes(context.threads(), cpu::readable(values));
  to.data()[0] = found.least;
  to.data()[1] = found.most;
}

void quantile(Context&, DeviceView<const float> values, double q, DeviceView<float> to) {
  to.data()[0] = on_host::quantile(cpu::readable(values), q);
}

ComparisonSums compare(Context& context, DeviceView<const float> a, DeviceView<const float> b, cdouble s) {
  return compared(context.threads(), cpu::readable(a), cpu::readable(b), s);
}
ComparisonSums compare(Context& context, DeviceView<const cfloat> a, DeviceView<const cfloat> b, cdouble s) {
  return compared(context.threads(), cpu::readable(a), cpu::readable(b), s);
}

}  // namespace cpu

namespace on_host {
namespace {

template <class T>
Comparison compare_here(ThreadPool& threads, HostView<const T> a, HostView<const T> b, cdouble s) {
  if (a.size() != b.size())
    throw std::invalid_argument(fmt::format("compare: {} and {} do not fit", a.shape().text(), b.shape().text()));
  const ComparisonSums sums = cpu::compared(threads, a, b, s);
  return comparison(sums, a.size());
}

}  // namespace

double sum(ThreadPool& threads, HostView<const float> values) {
  return cpu::reduce_blocks<Sums<1>>(threads, values.size(),
                                     [&](std::int64_t begin, std::int64_t end) {
                                       return Sums<1>{{cpu::block_sum(values.data() + begin, end - begin)}};
                                     })
      .of[0];
}

double power(ThreadPool& threads, HostView<const float> values) {
  return cpu::reduce_blocks<Sums<1>>(threads, values.size(),
                                     [&](std::int64_t begin, std::int64_t end) {
                                       const float* part = values.data() + begin;
                                       return Sums<1>{{cpu::block_dot(part, part, end - begin)}};
                                     })
      .of[0];
}

double power(ThreadPool& threads, HostView<const cfloat> values) {
  return power(threads, HostView<const float>(reinterpret_cast<const float*>(values.data()), {2 * values.size()}));
}

Extremes extremes(ThreadPool& threads, HostView<const float> values) {
  return cpu::reduce_blocks<cpu::ExtremesPart>(threads, values.size(), [&](std::int64_t begin, std::int64_t end) {
    return cpu::extremes_of(values.data() + begin, end - begin);
  });
}

Extremes extremes(ThreadPool& threads, HostView<const cfloat> values) {
  return cpu::reduce_blocks<cpu::ExtremesPart>(threads, values.size(), [&](std::int64_t begin, std::int64_t end) {
    return cpu::extremes_of(values.data() + begin, end - begin);
  });
}

float quantile(HostView<const float> values, double q) {
  std::vector<float> finite;
  finite.reserve(static_cast<std::size_t>(values.size()));
  std::copy_if(values.data(), values.data() + values.size(), std::back_inserter(finite),
               [](float value) { return std::isfinite(value); });
  if (finite.empty()) return std::numeric_limits<float>::quiet_NaN();
  const auto at = finite.begin() + quantile_rank(q, static_cast<std::int64_t>(finite.size()));
  std::nth_element(finite.begin(), at, finite.end());
  return *at;
}

Comparison compare(ThreadPool& threads, HostView<const float> a, HostView<const float> b, double s) {
  return compare_here(threads, a, b, s);
}
Comparison compare(ThreadPool& threads, HostView<const cfloat> a, HostView<const cfloat> b, cdouble s) {
  return compare_here(threads, a, b, s);
}
Comparison compare(ThreadPool& threads, HostView<const cdouble> a, HostView<const cdouble> b, cdouble s) {
  return compare_here(threads, a, b, s);
}

}  // namespace on_host
}  // namespace echotrain::numerics
