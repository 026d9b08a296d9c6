#include "gadgets/numerics/core/reduce/reductions.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/reduce/reductions_ops.h"

namespace echotrain::numerics {
namespace {

void require(bool good, const char* what, const Shape& a, const Shape& b) {
  if (!good) throw std::invalid_argument(fmt::format("{}: shapes {} and {} do not fit", what, a.text(), b.text()));
}

void check_quantile(double q) {
  if (!(q >= 0 && q <= 1)) throw std::invalid_argument(fmt::format("quantile: expected 0..1, got {}", q));
}

DeviceView<const float> parts(DeviceView<const cfloat> values) {
  return DeviceView<const float>(reinterpret_cast<const float*>(values.data()), {2 * values.size()});
}

/// Copies the numbers that `reduce` leaves on the context's device to the host.
template <class T, class Reduce>
HostArray<T> fetch(Context& context, std::int64_t numbers, const Reduce& reduce) {
  Array<T> result = context.allocate<T>({numbers});
  reduce(result.view());
  return context.download<T>(result.cview());
}

template <class T>
Extremes fetch_extremes(Context& context, DeviceView<const T> values) {
  const auto found = fetch<float>(context, 2, [&](DeviceView<float> to) { extremes(context, values, to); });
  return {found.data()[0], found.data()[1]};
}

template <class T>
void put_extremes(Context& context, DeviceView<const T> values, DeviceView<float> to) {
  require(to.size() == 2, "extremes", values.shape(), to.shape());
  if (values.size() > 0) {
    ECHOTRAIN_DISPATCH(context, extremes(context, values, to));
    return;
  }
  const Extremes none;
  const float pair[2] = {none.least, none.most};
  context.copy<float>(HostView<const float>(pair, {2}), to);
}

template <class T>
Comparison compare_there(Context& context, DeviceView<const T> a, DeviceView<const T> b, cdouble s) {
  require(a.size() == b.size(), "compare", a.shape(), b.shape());
  if (a.size() == 0) return {};
  return comparison(ECHOTRAIN_DISPATCH(context, compare(context, a, b, s)), a.size());
}

}  // namespace

void sum(Context& context, DeviceView<const float> values, DeviceView<double> to) {
  require(to.size() == 1, "sum", values.shape(), to.shape());
  if (values.size() == 0) return context.clear(to);
  ECHOTRAIN_DISPATCH(context, sum(context, values, to));
}

double sum(Context& context, DeviceView<const float> values) {
  return fetch<double>(context, 1, [&](DeviceView<double> to) { sum(context, values, to); }).data()[0];
}

void power(Context& context, DeviceView<const float> values, DeviceView<double> to) {
  require(to.size() == 1, "power", values.shape(), to.shape());
  if (values.size() == 0) return context.clear(to);
  ECHOTRAIN_DISPATCH(context, power(context, values, to));
}

void power(Context& context, DeviceView<const cfloat> values, DeviceView<double> to) {
  power(context, parts(values), to);
}

double norm(Context& context, DeviceView<const float> values) {
  return std::sqrt(fetch<double>(context, 1, [&](DeviceView<double> to) { power(context, values, to); }).data()[0]);
}

double norm(Context& context, DeviceView<const cfloat> values) { return norm(context, parts(values)); }

void inner_products(Context& context, DeviceView<const float> u, DeviceView<const float> v, DeviceView<double> to) {
  require(u.size() == v.size() && to.size() == 2, "inner_products", u.shape(), v.shape());
  if (u.size() == 0) return context.clear(to);
  ECHOTRAIN_DISPATCH(context, inner_products(context, u, v, to));
}

void inner_products(Context& context, DeviceView<const cfloat> u, DeviceView<const cfloat> v, DeviceView<double> to) {
  inner_products(context, parts(u), parts(v), to);
}

double dot(Context& context, DeviceView<const float> u, DeviceView<const float> v) {
  return fetch<double>(context, 2, [&](DeviceView<double> to) { inner_products(context, u, v, to); }).data()[0];
}

double dot(Context& context, DeviceView<const cfloat> u, DeviceView<const cfloat> v) {
  return dot(context, parts(u), parts(v));
}

void add_weighted_power(Context& context, DeviceView<const cfloat> samples, DeviceView<const float> weights,
                        DeviceView<double> to) {
  require(
      samples.shape().rank() == 2 && to.size() == 1 && (weights.size() == 0 || weights.size() == samples.shape()[0]),
      "add_weighted_power", samples.shape(), weights.shape());
  if (samples.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, add_weighted_power(context, samples, weights, to));
}

void extremes(Context& context, DeviceView<const float> values, DeviceView<float> to) {
  put_extremes(context, values, to);
}
void extremes(Context& context, DeviceView<const cfloat> values, DeviceView<float> to) {
  put_extremes(context, values, to);
}
Extremes extremes(Context& context, DeviceView<const float> values) { return fetch_extremes(context, values); }
Extremes extremes(Context& context, DeviceView<const cfloat> values) { return fetch_extremes(context, values); }

void quantile(Context& context, DeviceView<const float> values, double q, DeviceView<float> to) {
  check_quantile(q);
  require(to.size() == 1, "quantile", values.shape(), to.shape());
  if (values.size() > 0) {
    ECHOTRAIN_DISPATCH(context, quantile(context, values, q, to));
    return;
  }
  const float none = std::numeric_limits<float>::quiet_NaN();
  context.copy<float>(HostView<const float>(&none, {1}), to);
}

float quantile(Context& context, DeviceView<const float> values, double q) {
  return fetch<float>(context, 1, [&](DeviceView<float> to) { quantile(context, values, q, to); }).data()[0];
}

Comparison compare(Context& context, DeviceView<const float> a, DeviceView<const float> b, double s) {
  return compare_there(context, a, b, s);
}
Comparison compare(Context& context, DeviceView<const cfloat> a, DeviceView<const cfloat> b, cdouble s) {
  return compare_there(context, a, b, s);
}

}  // namespace echotrain::numerics
