#include "gadgets/numerics/mri/epi/ghost_search.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics {
namespace {

/// The steps of constant [rad] and slope [rad/point].
constexpr LinearPhase kFirst{0.08, 0.008}, kWide{0.2, 0.02};
constexpr double kFinest = 1.0 / 32;  // share of the first steps
constexpr double kMostSlope = 0.4;
constexpr int kMostSteps = 500;

/// to += root * line; all are pairs of real and imaginary part.
ECHOTRAIN_CLONES void add_turned(const double* line, double re, double im, std::int64_t n, double* to) {
  for (std::int64_t x = 0; x < n; ++x) {
    to[2 * x] += re * line[2 * x] - im * line[2 * x + 1];
    to[2 * x + 1] += re * line[2 * x + 1] + im * line[2 * x];
  }
}

}  // namespace

std::uint64_t GhostSearch::bytes(std::int64_t coils, std::int64_t rows, std::int64_t points) {
  const auto lines = static_cast<std::uint64_t>(2 * coils * rows * points) * sizeof(cdouble);
  return lines + static_cast<std::uint64_t>(rows * points) * (sizeof(cdouble) + sizeof(double));
}

GhostSearch::GhostSearch(const std::shared_ptr<MemoryAccount>& account, std::int64_t coils, std::int64_t rows,
                         std::int64_t points)
    : coils_(coils), rows_(rows), points_(points) {
  MemoryShare(account).grow_to(bytes(coils, rows, points));  // makes room for it
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

/// Transforms along the rows, one row of the image at a time. The place of k = 0 does not matter to magnitudes.
void GhostSearch::transform(ThreadPool& threads) {
  const auto pixels = static_cast<std::size_t>(rows_ * points_);
  power_.assign(pixels, 0);
  product_.assign(pixels, 0);
  std::vector<double> re, im;  // parts of roots of 1
  for (std::int64_t m = 0; m < rows_; ++m) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(m) / static_cast<double>(rows_);
    re.push_back(std::cos(angle));
    im.push_back(std::sin(angle));
  }
  std::vector<std::int64_t> came[2];  // [coil * rows + row] that hold data
  for (int way = 0; way < 2; ++way)
    for (std::int64_t line = 0; line < coils_ * rows_; ++line) {
      const cdouble* first = lines_[way].data() + line * points_;
      if (std::any_of(first, first + points_, [](const cdouble& v) { return v != cdouble(0); }))
        came[way].push_back(line);
    }
  threads.parallel_for(rows_, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sums(static_cast<std::size_t>(4 * points_));  // re and im of x, forward and reversed
    for (std::int64_t y = begin; y < end; ++y)
      for (std::int64_t c = 0; c < coils_; ++c) {
        std::fill(sums.begin(), sums.end(), 0);
        for (int way = 0; way < 2; ++way)
          for (const std::int64_t line : came[way]) {
            if (line / rows_ != c) continue;
            const auto root = static_cast<std::size_t>(line % rows_ * y % rows_);
            add_turned(reinterpret_cast<const double*>(lines_[way].data() + line * points_), re[root], im[root],
                       points_, sums.data() + way * 2 * points_);
          }
        for (std::int64_t x = 0; x < points_; ++x) {
          const auto at = static_cast<std::size_t>(2 * x), other = static_cast<std::size_t>(2 * (points_ + x));
          const cdouble forward(sums[at], sums[at + 1]), reversed(sums[other], sums[other + 1]);
          const auto i = static_cast<std::size_t>(y * points_ + x);
          power_[i] += std::norm(forward) + std::norm(reversed);
          product_[i] += 2.0 * forward * std::conj(reversed);
        }
      }
  });
}

std::vector<double> GhostSearch::entropies(ThreadPool& threads, const std::vector<LinearPhase>& phases) const {
  struct Sums {
    double squares = 0, magnitudes = 0, logarithms = 0;  // sums of m^2, m and m log m
  };
  const auto count = static_cast<std::int64_t>(phases.size());
  std::vector<Sums> sums(static_cast<std::size_t>(count * rows_));
  constexpr std::int64_t kGrain = 4096;  // pixels
  threads.parallel_for(
      count * rows_, std::max<std::int64_t>(1, kGrain / points_), [&](std::int64_t begin, std::int64_t end) {
        std::vector<double> cosines(static_cast<std::size_t>(2 * points_));
        for (std::int64_t i = begin; i < end; ++i) {
          const LinearPhase& phase = phases[static_cast<std::size_t>(i / rows_)];
          if (i == begin || i % rows_ == 0)
            for (std::int64_t x = 0; x < points_; ++x) {
              const double angle = phase.constant + phase.slope * static_cast<double>(x - points_ / 2);
              cosines[static_cast<std::size_t>(2 * x)] = std::cos(angle);
              cosines[static_cast<std::size_t>(2 * x + 1)] = std::sin(angle);
            }
          Sums& to = sums[static_cast<std::size_t>(i)];
          for (std::int64_t x = 0; x < points_; ++x) {
            const auto at = static_cast<std::size_t>(i % rows_ * points_ + x);
            const cdouble& product = product_[at];
            // Re(exp(i angle) forward conj(reversed)): the reversed lines lose the phase.
            const double power = power_[at] + cosines[static_cast<std::size_t>(2 * x)] * product.real() -
                                 cosines[static_cast<std::size_t>(2 * x + 1)] * product.imag();
            if (!(power > 0)) continue;
            const double magnitude = std::sqrt(power);
            to.squares += power;
            to.magnitudes += magnitude;
            to.logarithms += 0.5 * magnitude * std::log(power);
          }
        }
      });
  std::vector<double> out;
  for (std::int64_t p = 0; p < count; ++p) {
    Sums all;
    for (std::int64_t y = 0; y < rows_; ++y) {
      const Sums& row = sums[static_cast<std::size_t>(p * rows_ + y)];
      all.squares += row.squares;
      all.magnitudes += row.magnitudes;
      all.logarithms += row.logarithms;
    }
    const double scale = std::sqrt(all.squares);
    out.push_back(scale > 0 ? (all.magnitudes * std::log(scale) - all.logarithms) / scale : 0);
  }
  return out;
}

LinearPhase GhostSearch::find(ThreadPool& threads, bool widely) {
  LinearPhase best;
  if (!came_[0] || !came_[1]) return best;
  transform(threads);
  double least = entropies(threads, {best}).front();
  const auto attempt = [&](const std::vector<LinearPhase>& phases) {
    const std::vector<double> found = entropies(threads, phases);
    const auto at = std::min_element(found.begin(), found.end());
    if (!(*at < least)) return false;
    least = *at;
    best = phases[static_cast<std::size_t>(at - found.begin())];
    return true;
  };
  const double quarter = std::numbers::pi / 2;
  for (double slope = -kMostSlope; widely && slope <= kMostSlope; slope += kWide.slope) {
    std::vector<LinearPhase> phases;
    for (double constant = -quarter; constant < quarter; constant += kWide.constant)
      phases.push_back({constant, slope});
    attempt(phases);
  }
  int tried = 0;
  for (double step = 1; step >= kFinest && ++tried <= kMostSteps;) {
    std::vector<LinearPhase> phases;
    for (const int c : {-1, 0, 1})
      for (const int s : {-1, 0, 1})
        if (c != 0 || s != 0)
          phases.push_back({best.constant + c * step * kFirst.constant, best.slope + s * step * kFirst.slope});
    if (!attempt(phases)) step /= 2;
  }
  return best;
}

}  // namespace echotrain::numerics
