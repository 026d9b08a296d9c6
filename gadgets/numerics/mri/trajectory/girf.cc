#include "gadgets/numerics/mri/trajectory/girf.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kMostBefore = 16384;  // steps before the first sample

std::int64_t steps_before(double dwell) {
  return static_cast<std::int64_t>(std::clamp(std::ceil(GirfFilter::kSettle / dwell), 1.0, double{kMostBefore}));
}

}  // namespace

std::complex<double> Girf::at(std::size_t axis, double frequency) const {
  if (hz.empty() || frequency < hz.front() || frequency > hz.back()) return 0;
  const auto above = static_cast<std::size_t>(std::upper_bound(hz.begin(), hz.end(), frequency) - hz.begin());
  const std::size_t left = std::clamp<std::size_t>(above, 1, hz.size() - 1) - 1;
  const double share = (frequency - hz[left]) / (hz[left + 1] - hz[left]);
  return of_axis[axis][left] * (1 - share) + of_axis[axis][left + 1] * share;
}

const char* problem_of(const Girf& girf) {
  if (girf.hz.size() < 2) return "it has fewer than two frequencies";
  for (std::size_t i = 0; i + 1 < girf.hz.size(); ++i)
    if (!(girf.hz[i] < girf.hz[i + 1])) return "its frequencies do not ascend";
  if (!(girf.hz.front() <= 0) || !(girf.hz.back() > 0)) return "its frequencies do not include 0";
  for (std::size_t a = 0; a < 3; ++a) {
    const double still = std::abs(girf.at(a, 0));
    if (!(still > 0.5 && still < 2))
      return "the response of an axis at 0 Hz is not near 1 (0.5 to 2); divide it by the gain of the measurement";
  }
  return "";
}

GirfFilter::GirfFilter(const Girf& girf, std::int64_t samples, double dwell)
    : samples_(samples),
      before_(steps_before(dwell)),
      fft_(SmallFft::length_for(static_cast<std::size_t>(samples + 3 * before_))) {
  if (samples < 2 || !(dwell > 0)) throw std::invalid_argument("GirfFilter takes two samples or more, some time apart");
  const std::size_t n = fft_.size();
  for (std::size_t axis = 0; axis < 3; ++axis) {
    auto& response = response_[axis];
    response.resize(n);
    const auto of = [&](double frequency) {
      // A response measured only at frequencies above 0 is that of a real system.
      return frequency < 0 && girf.hz.front() >= 0 ? std::conj(girf.at(axis, -frequency)) : girf.at(axis, frequency);
    };
    for (std::size_t m = 0; m < n; ++m) {
      const double signed_m = m <= n / 2 ? static_cast<double>(m) : static_cast<double>(m) - static_cast<double>(n);
      const double frequency = signed_m / (static_cast<double>(n) * dwell);
      // Gradients are real, so that only this part of a table counts.
      response[m] = 0.5 * (of(frequency) + std::conj(of(-frequency)));
    }
  }
}

void GirfFilter::move(const std::array<std::array<double, 3>, 3>& axes, HostView<double> positions) const {
  const std::int64_t dims = positions.shape()[1];
  if (positions.shape()[0] != samples_ || dims < 2 || dims > 3) throw std::invalid_argument("GirfFilter: wrong shape");
  const auto physical = [&](std::int64_t sample, std::size_t axis) {
    double out = 0;
    for (std::int64_t a = 0; a < dims; ++a)
      out += positions[sample * dims + a] * axes[static_cast<std::size_t>(a)][axis];
    return out;
  };
  double start = 0, step = 0;
  for (std::int64_t a = 0; a < dims; ++a) {
    start += positions[a] * positions[a];
    const double by = positions[dims + a] - positions[a];
    step += by * by;
  }
  const bool from_rest = start <= step * 1.0001;
  const std::size_t n = fft_.size();
  std::vector<double> moved(static_cast<std::size_t>(samples_ * dims));
  for (std::size_t axis = 0; axis < 3; ++axis) {
    // The step that ends at sample s is element before_ + s. The gradient is real, and so is its result.
    std::vector<SmallFft::Value> steps(n);
    const double first = physical(1, axis) - physical(0, axis);
    for (std::int64_t e = 0; e <= before_; ++e) steps[static_cast<std::size_t>(e)] = from_rest ? 0 : first;
    if (from_rest) steps[static_cast<std::size_t>(before_)] = physical(0, axis);  // from k = 0 to the first sample
    double last = first;
    for (std::int64_t s = 1; s < samples_; ++s)
      steps[static_cast<std::size_t>(before_ + s)] = last = physical(s, axis) - physical(s - 1, axis);
    for (std::int64_t e = before_ + samples_; e < 2 * before_ + samples_; ++e)
      steps[static_cast<std::size_t>(e)] = last;
    std::vector<SmallFft::Value> real = steps;
    fft_(real);
    for (std::size_t m = 0; m < n; ++m) real[m] *= response_[axis][m];
    fft_(real, true);
    double difference = 0;
    // A response that precedes its cause (its table ends at some frequency) reaches to the end of the circle.
    for (std::size_t e = n - static_cast<std::size_t>(before_) / 2; e < n; ++e)
      difference += real[e].real() / static_cast<double>(n);
    for (std::int64_t e = 0; e < before_ + samples_; ++e) {
      const auto at = static_cast<std::size_t>(e);
      difference += real[at].real() / static_cast<double>(n) - steps[at].real();
      if (e < before_) continue;
      for (std::int64_t a = 0; a < dims; ++a)
        moved[static_cast<std::size_t>((e - before_) * dims + a)] +=
            difference * axes[static_cast<std::size_t>(a)][axis];
    }
  }
  for (std::int64_t i = 0; i < samples_ * dims; ++i) positions[i] += moved[static_cast<std::size_t>(i)];
}

}  // namespace echotrain::numerics
