#include "gadgets/numerics/mri/field/blip_pair.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

namespace echotrain::numerics {
namespace {

using Values = std::vector<double>;

constexpr std::array<double, 4> kSmoothing = {4, 2, 1, 0.5};  // standard deviations [voxels] of the Gaussians, level by
                                                              // level
constexpr int kSteps = 6, kSolverSteps = 20, kHalvings = 6;
constexpr double kSolved = 0.1, kConverged = 1e-3;
constexpr double kSteepest = 0.95;  // largest slope of the shift along y

/// Cubic convolution (Keys, IEEE ASSP 29, 1981) of a line, zero beyond its ends: the value and its derivative.
struct Sample {
  double value = 0, slope = 0;
};
Sample sample(const double* line, std::int64_t n, double at) {
  Sample out;
  if (!(at > -2 && at < static_cast<double>(n) + 1)) return out;
  const double base = std::floor(at), t = at - base;
  const auto i = static_cast<std::int64_t>(base);
  const double weights[] = {t * (-0.5 + t * (1 - 0.5 * t)), 1 + t * t * (-2.5 + 1.5 * t), t * (0.5 + t * (2 - 1.5 * t)),
                            t * t * (-0.5 + 0.5 * t)};
  const double slopes[] = {-0.5 + t * (2 - 1.5 * t), t * (-5 + 4.5 * t), 0.5 + t * (4 - 4.5 * t), t * (-1 + 1.5 * t)};
  for (std::int64_t k = 0; k < 4; ++k) {
    const std::int64_t from = i - 1 + k;
    if (from < 0 || from >= n) continue;
    out.value += weights[k] * line[from];
    out.slope += slopes[k] * line[from];
  }
  return out;
}

/// Volumes [z, x, y], and the operations on them, line by line along y.
class Pair {
 public:
  Pair(ThreadPool& threads, std::int64_t nz, std::int64_t ny, std::int64_t nx, double smoothness)
      : threads_(threads),
        nz_(nz),
        ny_(ny),
        nx_(nx),
        weight_(smoothness),
        size_(static_cast<std::size_t>(nz * ny * nx)) {}

  Values zeros() const { return Values(size_, 0.0); }
  /// Calls work(first voxel of a line along y).
  void for_lines(const std::function<void(std::int64_t)>& work) const {
    threads_.parallel_for(nz_ * nx_, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t line = begin; line < end; ++line) work(line * ny_);
    });
  }
  /// A sum over lines whose bits do not depend on threads.
  double sum_of(const std::function<double(std::int64_t)>& of_line) const {
    Values parts(static_cast<std::size_t>(nz_ * nx_));
    for_lines([&](std::int64_t first) { parts[static_cast<std::size_t>(first / ny_)] = of_line(first); });
    double sum = 0;
    for (const double part : parts) sum += part;
    return sum;
  }
  double dot(const Values& a, const Values& b) const {
    return sum_of([&](std::int64_t first) {
      double sum = 0;
      for (std::int64_t j = 0; j < ny_; ++j) sum += a[at(first, j)] * b[at(first, j)];
      return sum;
    });
  }

  Values smoothed(const Values& image, double sigma) const;
  /// Half the squares of the difference and of the shift's gradient; infinite where the shift is too steep. Fills in
  /// the difference, and its derivatives with respect to the shift and the shift's slope, where they are wanted.
  double energy(const Values& up, const Values& down, const Values& shift) const;
  double difference(const Values& up, const Values& down, const Values& shift) const;
  bool step(const Values& up, const Values& down, Values& shift) const;

 private:
  struct Linear {
    Values difference, by_shift, by_slope;
  };
  std::size_t at(std::int64_t first, std::int64_t j) const { return static_cast<std::size_t>(first + j); }
  double slope(const Values& s, std::int64_t first, std::int64_t j) const {
    const std::int64_t low = std::max<std::int64_t>(j - 1, 0), high = std::min(j + 1, ny_ - 1);
    return high == low ? 0 : (s[at(first, high)] - s[at(first, low)]) / static_cast<double>(high - low);
  }
  void linearise(const Values& up, const Values& down, const Values& shift, Linear& to) const;
  void transposed(const Linear& linear, const Values& residual, Values& out) const;
  void add_smoothness(const Values& shift, Values& to) const;
  void apply(const Linear& linear, const Values& change, Values& moved, Values& out) const;

  ThreadPool& threads_;
  const std::int64_t nz_, ny_, nx_;
  const double weight_;
  const std::size_t size_;
};

/// Smooths along y and x.
Values Pair::smoothed(const Values& image, double sigma) const {
  const auto reach = static_cast<std::int64_t>(std::ceil(3 * sigma));
  Values taps;
  double sum = 0;
  for (std::int64_t k = -reach; k <= reach; ++k) {
    taps.push_back(std::exp(-0.5 * static_cast<double>(k * k) / (sigma * sigma)));
    sum += taps.back();
  }
  const auto along = [&](const Values& from, bool x) {
    Values to = zeros();
    for_lines([&](std::int64_t first) {
      const std::int64_t column = first / ny_ % nx_;
      for (std::int64_t j = 0; j < ny_; ++j) {
        double value = 0;
        for (std::int64_t k = -reach; k <= reach; ++k) {
          const std::int64_t place = (x ? column : j) + k;
          if (place < 0 || place >= (x ? nx_ : ny_)) continue;
          value += taps[static_cast<std::size_t>(k + reach)] * from[x ? at(first + k * ny_, j) : at(first, place)];
        }
        to[at(first, j)] = value / sum;
      }
    });
    return to;
  };
  return along(along(image, false), true);
}

void Pair::linearise(const Values& up, const Values& down, const Values& shift, Linear& to) const {
  for_lines([&](std::int64_t first) {
    for (std::int64_t j = 0; j < ny_; ++j) {
      const std::size_t v = at(first, j);
      const double s = shift[v], d = slope(shift, first, j), y = static_cast<double>(j);
      const Sample a = sample(up.data() + first, ny_, y + s), b = sample(down.data() + first, ny_, y - s);
      to.difference[v] = a.value * (1 + d) - b.value * (1 - d);
      to.by_shift[v] = a.slope * (1 + d) + b.slope * (1 - d);
      to.by_slope[v] = a.value + b.value;
    }
  });
}

double Pair::difference(const Values& up, const Values& down, const Values& shift) const {
  return sum_of([&](std::int64_t first) {
    double sum = 0;
    for (std::int64_t j = 0; j < ny_; ++j) {
      const double s = shift[at(first, j)], d = slope(shift, first, j), y = static_cast<double>(j);
      const double r = sample(up.data() + first, ny_, y + s).value * (1 + d) -
                       sample(down.data() + first, ny_, y - s).value * (1 - d);
      sum += std::abs(d) < kSteepest ? r * r : std::numeric_limits<double>::infinity();
    }
    return sum;
  });
}

double Pair::energy(const Values& up, const Values& down, const Values& shift) const {
  Values gradient = zeros();
  add_smoothness(shift, gradient);
  return 0.5 * difference(up, down, shift) + 0.5 * dot(gradient, shift);
}

/// to += weight * (sum over neighbours of the difference of the shift).
void Pair::add_smoothness(const Values& shift, Values& to) const {
  for_lines([&](std::int64_t first) {
    const std::int64_t x = first / ny_ % nx_, z = first / (ny_ * nx_), plane = ny_ * nx_;
    for (std::int64_t j = 0; j < ny_; ++j) {
      const std::size_t v = at(first, j);
      double sum = 0;
      const auto beside = [&](bool there, std::int64_t step) {
        if (there) sum += shift[v] - shift[static_cast<std::size_t>(static_cast<std::int64_t>(v) + step)];
      };
      beside(x > 0, -ny_);
      beside(x + 1 < nx_, ny_);
      beside(j > 0, -1);
      beside(j + 1 < ny_, 1);
      beside(z > 0, -plane);
      beside(z + 1 < nz_, plane);
      to[v] += weight_ * sum;
    }
  });
}

/// Applies the transposed derivative of the difference.
void Pair::transposed(const Linear& linear, const Values& residual, Values& out) const {
  for_lines([&](std::int64_t first) {
    for (std::int64_t j = 0; j < ny_; ++j) out[at(first, j)] = linear.by_shift[at(first, j)] * residual[at(first, j)];
    for (std::int64_t j = 0; j < ny_; ++j) {
      const std::size_t v = at(first, j);
      const std::int64_t low = std::max<std::int64_t>(j - 1, 0), high = std::min(j + 1, ny_ - 1);
      if (high == low) continue;
      const double part = linear.by_slope[v] * residual[v] / static_cast<double>(high - low);
      out[at(first, high)] += part;
      out[at(first, low)] -= part;
    }
  });
}

/// out = (J^T J + the smoothness) change; `moved` is working space.
void Pair::apply(const Linear& linear, const Values& change, Values& moved, Values& out) const {
  for_lines([&](std::int64_t first) {
    for (std::int64_t j = 0; j < ny_; ++j) {
      const std::size_t v = at(first, j);
      moved[v] = linear.by_shift[v] * change[v] + linear.by_slope[v] * slope(change, first, j);
    }
  });
  transposed(linear, moved, out);
  add_smoothness(change, out);
}

/// Does one Gauss-Newton step. Returns false if it gains nothing.
bool Pair::step(const Values& up, const Values& down, Values& shift) const {
  Linear linear{zeros(), zeros(), zeros()};
  linearise(up, down, shift, linear);
  Values rest = zeros(), moved = zeros(), image = zeros();
  transposed(linear, linear.difference, rest);
  add_smoothness(shift, rest);
  for (double& value : rest) value = -value;
  Values change = zeros(), direction = rest;
  double power = dot(rest, rest);
  const double enough = kSolved * kSolved * power;
  for (int k = 0; k < kSolverSteps && power > enough && power > 0; ++k) {
    apply(linear, direction, moved, image);
    const double curve = dot(direction, image);
    if (!(curve > 0)) break;
    const double by = power / curve;
    for (std::size_t v = 0; v < size_; ++v) {
      change[v] += by * direction[v];
      rest[v] -= by * image[v];
    }
    const double next = dot(rest, rest);
    for (std::size_t v = 0; v < size_; ++v) direction[v] = rest[v] + next / power * direction[v];
    power = next;
  }
  const double before = energy(up, down, shift);
  double by = 1;
  for (int k = 0; k < kHalvings; ++k, by /= 2) {
    Values tried = shift;
    for (std::size_t v = 0; v < size_; ++v) tried[v] += by * change[v];
    const double now = energy(up, down, tried);
    if (!(now < before)) continue;
    shift = std::move(tried);
    return before - now > kConverged * before;
  }
  return false;
}

/// Rearranges an image [z, y, x] to [z, x, y], times `by`.
Values scaled(HostView<const float> image, double by) {
  const Shape& n = image.shape();
  Values out;
  out.reserve(static_cast<std::size_t>(image.size()));
  for (std::int64_t z = 0; z < n[0]; ++z)
    for (std::int64_t x = 0; x < n[2]; ++x)
      for (std::int64_t y = 0; y < n[1]; ++y)
        out.push_back(by * static_cast<double>(image.data()[(z * n[1] + y) * n[2] + x]));
  return out;
}

}  // namespace

BlipPairFacts blip_shift(ThreadPool& threads, HostView<const float> up, HostView<const float> down,
                         const BlipPairOptions& options, HostView<float> shift) {
  const Shape& n = up.shape();
  if (n.rank() != 3 || !(down.shape() == n) || !(shift.shape() == n))
    throw std::invalid_argument("blip_shift: images " + n.text() + ", " + down.shape().text() + " and shift " +
                                shift.shape().text() + " have to be [z, y, x], alike");
  std::fill_n(shift.data(), shift.size(), 0.0F);
  Values all = scaled(up, 1);
  const Values others = scaled(down, 1);
  threads.check_stop();
  all.insert(all.end(), others.begin(), others.end());
  if (!std::all_of(all.begin(), all.end(), [](double value) { return std::isfinite(value); }))
    throw std::invalid_argument("blip_shift: the images have values that are not finite");
  all.erase(std::remove_if(all.begin(), all.end(), [](double value) { return !(value > 0); }), all.end());
  if (all.empty()) return {};
  threads.check_stop();
  const auto top = all.begin() + static_cast<std::ptrdiff_t>(0.99 * static_cast<double>(all.size() - 1));
  std::nth_element(all.begin(), top, all.end());
  threads.check_stop();
  const Pair pair(threads, n[0], n[1], n[2], options.smoothness);
  const Values a = scaled(up, 1 / *top), b = scaled(down, 1 / *top);
  Values s = pair.zeros();
  for (const double sigma : kSmoothing) {
    const Values smooth_a = pair.smoothed(a, sigma), smooth_b = pair.smoothed(b, sigma);
    for (int k = 0; k < kSteps && pair.step(smooth_a, smooth_b, s); ++k) threads.check_stop();
  }
  std::size_t v = 0;
  for (std::int64_t z = 0; z < n[0]; ++z)
    for (std::int64_t x = 0; x < n[2]; ++x)
      for (std::int64_t y = 0; y < n[1]; ++y) shift.data()[(z * n[1] + y) * n[2] + x] = static_cast<float>(s[v++]);
  Values mean = a;
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = (a[i] + b[i]) / 2;
  const double size = pair.dot(mean, mean);
  return {std::sqrt(pair.difference(a, b, pair.zeros()) / size), std::sqrt(pair.difference(a, b, s) / size)};
}

}  // namespace echotrain::numerics
