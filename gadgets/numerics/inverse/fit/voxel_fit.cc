#include "gadgets/numerics/inverse/fit/voxel_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <string>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/inverse/fit/voxel_fit_ops.h"

namespace echotrain::numerics {
namespace {

using Curve = VoxelCurve::Shape;

constexpr double kGridStep = 0.12;  // in ln T
constexpr double kFar = 1000;       // times beyond so many T count as that many: curves are there at their end
constexpr double kMostFrequencies = 4095;
constexpr double kTurnsPerSpan = 6;  // points of the grid over f in one turn between the first and the last image

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument("fit_voxels: " + why); }

double closest(const std::vector<double>& sorted) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i] > sorted[i - 1]) least = std::min(least, sorted[i] - sorted[i - 1]);
  return least;
}

void check(const VoxelFit& fit) {
  const VoxelCurve& c = fit.curve;
  const auto count = static_cast<std::int64_t>(fit.at.size());
  if (count > VoxelFit::kMostImages) refuse(fmt::format("{} images are more than {}", count, VoxelFit::kMostImages));
  if (fit.freedom() < 0) refuse(fmt::format("{} images are too few for the curve", count));
  if (!(c.least > 0) || !(c.most > c.least) || !std::isfinite(c.most))
    refuse(fmt::format("{} to {} is no range", c.least, c.most));
  for (const double at : fit.at)
    if (!(at >= 0) || (std::isinf(at) && c.shape == Curve::sine))
      refuse(fmt::format("{} is no place on the curve", at));
  if (c.turning && (c.offset || fit.magnitude || fit.real || c.shape != Curve::decay))
    refuse("only complex signals that decay to nothing can turn");
  if (!fit.weights.empty() && (fit.weights.size() != fit.at.size() || c.offset || fit.rician ||
                               std::any_of(fit.weights.begin(), fit.weights.end(), [](double w) { return !(w > 0); })))
    refuse("weights are positive, one for each image, of curves without an offset and in Gaussian noise");
  if (c.offset && c.shape != Curve::decay) refuse("only decays have an offset");
  if (c.value == VoxelCurve::Value::look_locker && !c.offset) refuse("Look-Locker's correction needs the offset");
  if (fit.magnitude && fit.real) refuse("magnitudes have no sign");
  if (fit.polarity && !fit.magnitude) refuse("complex images have a sign of their own");
  if (fit.rician && (!fit.magnitude || fit.polarity || !(fit.noise > 0)))
    refuse("Rice's distribution is that of magnitudes in known noise, whose signal does not change its sign");
}

/// The curve at a place, in float64, for the grid.
double curve_at(const VoxelCurve& c, double at, double t) {
  switch (c.shape) {
    case Curve::decay:
      return std::exp(-at / t);
    case Curve::recovery:
      return 1 - (1 - c.prepared) * std::exp(-at / t) - (c.period > 0 ? c.prepared * std::exp(-c.period / t) : 0);
    case Curve::sine:
      return std::sin(at * t);
  }
  return 0;
}

/// The curve of T, less its mean where there is an offset, of length 1; 0 where it has none.
std::vector<double> unit_curve(const VoxelCurve& c, const std::vector<double>& at, const float* roots, double t) {
  const std::size_t n = at.size();
  std::vector<double> curve(n);
  for (std::size_t i = 0; i < n; ++i) curve[i] = roots[i] * curve_at(c, at[i], t);
  if (c.offset) {
    const double mean = std::accumulate(curve.begin(), curve.end(), 0.0) / static_cast<double>(n);
    for (double& v : curve) v -= mean;
  }
  const double norm = std::sqrt(std::inner_product(curve.begin(), curve.end(), curve.begin(), 0.0));
  for (double& v : curve) v = norm > 1e-12 ? v / norm : 0;
  return curve;
}

/// The curve of each T of the grid.
std::vector<float> curves(const VoxelCurve& c, const std::vector<double>& at, const float* roots, double first,
                          double step, int points) {
  std::vector<float> out;
  for (int g = 0; g < points; ++g)
    for (const double v : unit_curve(c, at, roots, std::exp(first + g * step))) out.push_back(static_cast<float>(v));
  return out;
}

/// The largest angle between the curves of a grid point and of half of the way to a neighbour.
double reach_of(const VoxelCurve& c, const std::vector<double>& at, const float* roots, double first, double step,
                int points) {
  double least = 1;
  for (int g = 0; g < 2 * points - 2; ++g) {
    const auto one = unit_curve(c, at, roots, std::exp(first + g * step / 2)),
               next = unit_curve(c, at, roots, std::exp(first + (g + 1) * step / 2));
    least = std::min(least, std::inner_product(one.begin(), one.end(), next.begin(), 0.0));
  }
  return std::acos(std::clamp(least, 0.0, 1.0));
}

std::vector<float> waves(const std::vector<double>& at, double decay, double first, double step, int count) {
  std::vector<float> out;
  for (int g = 0; g < count; ++g) {
    const double turn = 2 * std::numbers::pi * (first + g * step);
    for (const double t : at) out.push_back(static_cast<float>(std::exp(-t / decay) * std::cos(turn * t)));
    for (const double t : at) out.push_back(static_cast<float>(std::exp(-t / decay) * std::sin(turn * t)));
  }
  return out;
}

}  // namespace

std::int64_t VoxelFit::freedom() const {
  const std::int64_t parts = magnitude || real ? 1 : 2;
  return parts * (static_cast<std::int64_t>(at.size()) - (curve.offset ? 2 : 1)) - (curve.turning ? 2 : 1);
}

void fit_voxels(Context& context, const VoxelFit& fit, DeviceView<const cfloat> images, DeviceView<float> maps) {
  check(fit);
  const VoxelCurve& c = fit.curve;
  const auto count = fit.at.size();
  if (images.shape().rank() != 2 || maps.shape().rank() != 2 || images.shape()[0] < static_cast<std::int64_t>(count) ||
      maps.shape()[0] != (c.turning ? 4 : 2) || maps.shape()[1] != images.shape()[1])
    refuse(
        fmt::format("{} places, images {} and maps {} do not fit", count, images.shape().text(), maps.shape().text()));
  if (images.shape()[1] == 0) return;
  VoxelFitWork w{};
  w.images = images.data();
  w.voxels = images.shape()[1];
  w.maps = maps.data();
  w.count = static_cast<int>(count);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return fit.at[a] < fit.at[b]; });
  std::vector<double> at;
  for (std::size_t i = 0; i < count; ++i) {
    at.push_back(c.shape == Curve::sine ? fit.at[order[i]] : std::min(fit.at[order[i]], kFar * c.most));
    w.place[i] = static_cast<std::int32_t>(order[i]);
    w.at[i] = static_cast<float>(at[i]);
    w.root[i] = fit.weights.empty() ? 1.0F : static_cast<float>(std::sqrt(fit.weights[order[i]]));
  }
  w.shape = c.shape;
  w.value = c.value;
  w.offset = c.offset;
  w.turning = c.turning;
  w.magnitude = fit.magnitude;
  w.real = fit.real;
  w.rician = fit.rician;
  w.unbiased = fit.unbiased;
  w.flips = fit.polarity ? w.count : 1;
  w.prepared = static_cast<float>(c.prepared);
  w.period = static_cast<float>(c.period);
  w.noise = static_cast<float>(fit.noise);
  w.threshold = static_cast<float>(fit.threshold);
  w.floor = fit.floor.data();
  w.most_error = static_cast<float>(fit.most_error);
  w.freedom = static_cast<float>(std::max<std::int64_t>(1, fit.freedom()));
  const double span = std::log(c.most / c.least);
  w.points = static_cast<int>(std::ceil(span / kGridStep)) + 1;
  const double first = std::log(c.least), step = span / (w.points - 1);
  w.first = static_cast<float>(first);
  w.step = static_cast<float>(step);
  const std::vector<float> grid = curves(c, at, w.root, first, step, w.points);
  if (fit.polarity) w.reach = static_cast<float>(reach_of(c, at, w.root, first, step, w.points));
  std::vector<float> turns;
  if (c.turning) {
    const double near = closest(at), grid_step = 1 / (kTurnsPerSpan * (at.back() - at.front()));
    const double range = std::min(c.turns > 0 ? c.turns : 0.5 / near, kMostFrequencies * grid_step / 2);
    if (!std::isfinite(range)) refuse("a signal that turns needs two places");
    const double points = std::ceil(2 * range / grid_step) + 1;
    w.frequencies = static_cast<int>(points);
    w.turns_step = static_cast<float>(2 * range / (points - 1));
    w.first_turns = static_cast<float>(-range);
    turns = waves(at, std::sqrt(c.least * c.most), -range, 2 * range / (points - 1), w.frequencies);
  }
  const auto view = [](const std::vector<float>& v) {
    return HostView<const float>(v.data(), {static_cast<std::int64_t>(v.size())});
  };
  const Array<float> on_grid = context.upload<float>(view(grid));
  Array<float> on_waves;
  if (c.turning) on_waves = context.upload<float>(view(turns));
  w.grid = on_grid.data();
  w.waves = on_waves.data();
  ECHOTRAIN_DISPATCH(context, fit_voxels(context, w));
}

}  // namespace echotrain::numerics
