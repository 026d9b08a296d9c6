#include "gadgets/numerics/mri/epi/ramp.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/core/heap_account.h"

namespace echotrain::numerics {
namespace {

constexpr double kConstant = 1e-4;   // regularisation, relative to a regular line's largest eigenvalue
constexpr std::int64_t kBeyond = 6;  // points beyond each end of the line that are solved for
constexpr double kMissing = 2;       // steps that may be missing at each end
constexpr double kWidest = 1.1;  // largest distance of samples [steps]; more than 1 costs little, at the image's edges
constexpr double kRegular = 0.001;

double sinc(double x) {
  const double angle = std::numbers::pi * x;
  return std::abs(angle) < 1e-9 ? 1 : std::sin(angle) / angle;
}

}  // namespace

double trapezoid_area(const Trapezoid& gradient, double time) {
  const auto& [up, flat, down, delay, dwell, samples] = gradient;
  double area = 0;
  if (up > 0) {
    const double t = std::clamp(time, 0.0, up);
    area += t * t / (2 * up);
  }
  area += std::clamp(time - up, 0.0, flat);
  if (down > 0) {
    const double t = std::clamp(time - up - flat, 0.0, down);
    area += t - t * t / (2 * down);
  }
  return area;
}

std::vector<double> trapezoid_positions(const Trapezoid& gradient, std::int64_t n, double late) {
  const auto& [up, flat, down, delay, dwell, samples] = gradient;
  const double whole = up + flat + down, end = delay + dwell * static_cast<double>(samples);
  if (up < 0 || down < 0 || flat < 0 || whole <= 0 || dwell <= 0 || samples < 2)
    throw std::invalid_argument(fmt::format(
        "a gradient that rises {:g} us, stays {:g} us and falls {:g} us cannot be sampled {} times every {:g} us", up,
        flat, down, samples, dwell));
  // Times in headers are whole microseconds.
  if (delay < -1 || end > whole + 1 + dwell)
    throw std::invalid_argument(
        fmt::format("{} samples of {:g} us after {:g} us end at {:g} us, but the gradient ends at {:g} us", samples,
                    dwell, delay, end, whole));
  const double middle = trapezoid_area(gradient, whole) / 2;
  const double scale = static_cast<double>(n) / (trapezoid_area(gradient, end) - trapezoid_area(gradient, delay));
  std::vector<double> positions;
  for (std::int64_t s = 0; s < samples; ++s) {
    const double time = delay + (static_cast<double>(s) + 0.5) * dwell - late;
    positions.push_back((trapezoid_area(gradient, time) - middle) * scale);
  }
  return positions;
}

bool is_regular(const std::vector<double>& positions, std::int64_t n) {
  if (static_cast<std::int64_t>(positions.size()) != n) return false;
  for (std::size_t s = 0; s < positions.size(); ++s)
    if (!(std::abs(positions[s] - positions[0] - static_cast<double>(s)) <= kRegular)) return false;
  return true;
}

std::vector<float> regular_line_weights(const std::vector<double>& positions, std::int64_t n, bool descending,
                                        double needed) {
  const double first = -static_cast<double>(n / 2), last = first + static_cast<double>(n) - 1;
  std::vector<double> sorted;
  std::copy_if(positions.begin(), positions.end(), std::back_inserter(sorted), [](double k) { return !std::isnan(k); });
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty() || sorted.front() > first + kMissing || sorted.back() < last - kMissing)
    throw std::invalid_argument(fmt::format("samples lie at {:.1f} to {:.1f} steps of k-space, but a line has {} to {}",
                                            sorted.empty() ? 0.0 : sorted.front(), sorted.empty() ? 0.0 : sorted.back(),
                                            first, last));
  double widest = 0;
  for (std::size_t s = 1; s < sorted.size(); ++s)
    if (sorted[s] > first && sorted[s - 1] < last) widest = std::max(widest, sorted[s] - sorted[s - 1]);
  if (widest * needed > kWidest)
    throw std::invalid_argument(fmt::format(
        "samples are up to {:.2f} steps of k-space apart, but the field of view needs {:.3g}", widest, 1 / needed));
  const double field = widest > kWidest ? std::max(1 / widest, needed) : 1;

  const auto rows = static_cast<Eigen::Index>(positions.size()), line = static_cast<Eigen::Index>(n);
  const double begin = std::floor(first * field) - kBeyond;  // points lie at (begin + p) / field
  const auto points = static_cast<Eigen::Index>(std::ceil(last * field) + kBeyond - begin) + 1;
  // Eigen allocates with malloc: the model and the solution, the normal matrix with its factor, and the line.
  const HeapCharge paid(sizeof(double) *
                        static_cast<std::size_t>(2 * rows * points + 3 * points * points + line * (points + rows)));
  const auto interpolation = [&](Eigen::Index count, auto&& at) {
    Eigen::MatrixXd out(count, points);
    for (Eigen::Index i = 0; i < count; ++i)
      for (Eigen::Index p = 0; p < points; ++p) {
        const double k = at(i);
        out(i, p) = std::isnan(k) ? 0 : sinc(k * field - (begin + static_cast<double>(p)));
      }
    return out;
  };
  const Eigen::MatrixXd model =
      interpolation(rows, [&](Eigen::Index s) { return positions[static_cast<std::size_t>(s)]; });
  Eigen::MatrixXd normal = model.transpose() * model;
  normal.diagonal().array() += kConstant;
  Eigen::MatrixXd solution = normal.llt().solve(model.transpose());  // [point, sample]
  solution = field < 1 ? interpolation(line, [&](Eigen::Index x) { return first + static_cast<double>(x); }) * solution
                       : solution.middleRows(kBeyond, line).eval();
  std::vector<float> weights;
  weights.reserve(positions.size() * static_cast<std::size_t>(n));
  for (Eigen::Index s = 0; s < rows; ++s)
    for (std::int64_t x = 0; x < n; ++x) weights.push_back(static_cast<float>(solution(descending ? n - 1 - x : x, s)));
  return weights;
}

}  // namespace echotrain::numerics
