#include "gadgets/numerics/epi/ghost_search.h"

#include <cmath>
#include <numbers>

namespace echotrain::numerics {
namespace {

/// Steps of constant [rad] and slope [rad/point].
constexpr LinearPhase kFirst{0.08, 0.008}, kWide{0.2, 0.02};
constexpr double kFinest = 1.0 / 32;  // of the first steps
constexpr double kMostSlope = 0.4;
constexpr int kMostSteps = 500;

}  // namespace

GhostSearch::GhostSearch(std::int64_t coils, std::int64_t rows, std::int64_t points)
    : coils_(coils), rows_(rows), points_(points) {
  for (auto& lines : lines_) lines.resize(static_cast<std::size_t>(coils * rows * points));
}

void GhostSearch::add(std::int64_t row, bool reversed, const std::vector<cdouble>& profile) {
  auto& lines = lines_[reversed ? 1 : 0];
  came_[reversed ? 1 : 0] = true;
  for (std::int64_t c = 0; c < coils_; ++c)
    for (std::int64_t x = 0; x < points_; ++x)
      lines[static_cast<std::size_t>((c * rows_ + row) * points_ + x)] +=
          profile[static_cast<std::size_t>(c * points_ + x)];
}

/// Along the rows. Where k = 0 lies does not matter to magnitudes.
void GhostSearch::transform(const ThreadPool& threads) {
  std::vector<cdouble> roots;
  for (std::int64_t m = 0; m < rows_; ++m)
    roots.push_back(std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(m) / static_cast<double>(rows_)));
  for (int way = 0; way < 2; ++way) {
    images_[way].assign(lines_[way].size(), 0);
    for (std::int64_t c = 0; c < coils_; ++c)
      for (std::int64_t row = 0; row < rows_; ++row) {
        threads.check_stop();
        const cdouble* line = lines_[way].data() + (c * rows_ + row) * points_;
        bool empty = true;
        for (std::int64_t x = 0; x < points_ && empty; ++x) empty = line[x] == cdouble(0);
        if (empty) continue;
        for (std::int64_t y = 0; y < rows_; ++y) {
          const cdouble root = roots[static_cast<std::size_t>(row * y % rows_)];
          cdouble* to = images_[way].data() + (c * rows_ + y) * points_;
          for (std::int64_t x = 0; x < points_; ++x)
            to[x] += cdouble(line[x].real() * root.real() - line[x].imag() * root.imag(),
                             line[x].real() * root.imag() + line[x].imag() * root.real());
        }
      }
  }
}

double GhostSearch::entropy(const LinearPhase& phase) const {
  std::vector<cdouble> factors;
  for (std::int64_t x = 0; x < points_; ++x)
    factors.push_back(std::polar(1.0, -(phase.constant + phase.slope * static_cast<double>(x - points_ / 2))));
  double squares = 0, magnitudes = 0, logarithms = 0;  // sums of m^2, m and m log m
  for (std::int64_t y = 0; y < rows_; ++y)
    for (std::int64_t x = 0; x < points_; ++x) {
      const cdouble factor = factors[static_cast<std::size_t>(x)];
      double power = 0;
      for (std::int64_t c = 0; c < coils_; ++c) {
        const auto i = static_cast<std::size_t>((c * rows_ + y) * points_ + x);
        const cdouble &forward = images_[0][i], &reversed = images_[1][i];
        const double re = forward.real() + factor.real() * reversed.real() - factor.imag() * reversed.imag();
        const double im = forward.imag() + factor.real() * reversed.imag() + factor.imag() * reversed.real();
        power += re * re + im * im;
      }
      if (power == 0) continue;
      const double magnitude = std::sqrt(power);
      squares += power;
      magnitudes += magnitude;
      logarithms += magnitude * std::log(magnitude);
    }
  if (squares == 0) return 0;
  const double scale = std::sqrt(squares);
  return (magnitudes * std::log(scale) - logarithms) / scale;
}

LinearPhase GhostSearch::find(const ThreadPool& threads, bool widely) {
  LinearPhase best;
  if (!came_[0] || !came_[1]) return best;
  transform(threads);
  double least = entropy(best);
  const auto attempt = [&](const LinearPhase& phase) {
    threads.check_stop();
    const double found = entropy(phase);
    if (found >= least) return false;
    least = found;
    best = phase;
    return true;
  };
  const double quarter = std::numbers::pi / 2;
  for (double slope = -kMostSlope; widely && slope <= kMostSlope; slope += kWide.slope)
    for (double constant = -quarter; constant < quarter; constant += kWide.constant) attempt({constant, slope});
  int tried = 0;
  for (double step = 1; step >= kFinest && ++tried <= kMostSteps;) {
    const LinearPhase at = best;
    bool better = false;
    for (const int c : {-1, 0, 1})
      for (const int s : {-1, 0, 1})
        better = attempt({at.constant + c * step * kFirst.constant, at.slope + s * step * kFirst.slope}) || better;
    if (!better) step /= 2;
  }
  return best;
}

}  // namespace echotrain::numerics
