// Reversed lines made by kernels from references of both directions: equations and sums written out in float64.
#include "gadgets/numerics/mri/epi/dual_polarity_kernels.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/transforms/fft/fft.h"
#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::cdouble;
using numerics::cfloat;
using numerics::DualPolarityOptions;
using numerics::PolarityLine;

constexpr std::int64_t kSeen = 3, kReferences = 20, kSamples = 11, kTaps = 3;

/// References [coil, y, x] of both directions.
struct BothWays {
  std::vector<cfloat> forward, reversed;
  numerics::HostView<const cfloat> of(bool backwards) const {
    return {(backwards ? reversed : forward).data(), {kSeen, kReferences, kSamples}};
  }
  cdouble at(bool backwards, std::int64_t c, std::int64_t y, std::int64_t x) const {
    return cdouble((backwards ? reversed : forward)[static_cast<std::size_t>((c * kReferences + y) * kSamples + x)]);
  }
};

BothWays random_references() {
  Random random(5);
  BothWays out;
  out.forward = random.normals(kSeen * kReferences * kSamples);
  out.reversed = random.normals(kSeen * kReferences * kSamples);
  return out;
}

/// The nearest lines of a frame that make line `own`: two on either side, at most `reach` away, and itself.
std::vector<std::size_t> makers(const std::vector<PolarityLine>& lines, std::size_t own, int reach) {
  std::vector<std::size_t> out = {own};
  for (const int side : {-1, 1}) {
    int found = 0;
    for (int away = 1; away <= reach && found < 2; ++away)
      for (std::size_t i = 0; i < lines.size(); ++i)
        if (lines[i].line == lines[own].line + side * away) {
          out.push_back(i);
          ++found;
        }
  }
  return out;
}

/// Weights [coil, (source, dx, coil)] of a line, by the normal equations of all places in the references.
Eigen::MatrixXcd weights_of(const BothWays& references, const std::vector<PolarityLine>& lines, std::size_t own,
                            const std::vector<std::size_t>& sources, double regularization) {
  int least = 0, most = 0;
  for (const std::size_t s : sources) {
    least = std::min(least, lines[s].line - lines[own].line);
    most = std::max(most, lines[s].line - lines[own].line);
  }
  const auto n = static_cast<std::int64_t>(sources.size()) * kTaps * kSeen;
  Eigen::MatrixXcd matrix = Eigen::MatrixXcd::Zero(n, n), right = Eigen::MatrixXcd::Zero(kSeen, n);
  for (std::int64_t y = -least; y + most < kReferences; ++y)
    for (std::int64_t x = 0; x + kTaps <= kSamples; ++x) {
      Eigen::VectorXcd a(n), t(kSeen);
      for (std::size_t s = 0; s < sources.size(); ++s)
        for (std::int64_t dx = 0; dx < kTaps; ++dx)
          for (std::int64_t c = 0; c < kSeen; ++c)
            a((static_cast<std::int64_t>(s) * kTaps + dx) * kSeen + c) =
                references.at(lines[sources[s]].reversed, c, y + lines[sources[s]].line - lines[own].line, x + dx);
      for (std::int64_t c = 0; c < kSeen; ++c) t(c) = references.at(false, c, y, x + kTaps / 2);
      matrix += a * a.adjoint();
      right += t * a.adjoint();
    }
  matrix += regularization * matrix.diagonal().real().mean() * Eigen::MatrixXcd::Identity(n, n);
  return matrix.ldlt().solve(right.adjoint()).adjoint();
}

template <class B>
using DualPolarityTest = OnBackend<B>;
TYPED_TEST_SUITE(DualPolarityTest, Backends, BackendNames);

TYPED_TEST(DualPolarityTest, ReversedLinesAreTheSumsThatReferencesAskFor) {
  const BothWays references = random_references();
  // R = 2 in one train, and two trains of the same lines; lines come in the order of time.
  std::vector<PolarityLine> one, two;
  for (std::int32_t i = 0; i < 9; ++i) one.push_back({40 + 2 * i, i % 2 == 1});
  for (const std::int32_t shot : {0, 1})
    for (std::int32_t i = 0; i < 5; ++i) two.push_back({7 + 2 * i + shot, i % 2 == 1});
  for (const auto& lines : {one, two}) {
    const auto count = static_cast<std::int64_t>(lines.size());
    const DualPolarityOptions options{kTaps, 4, 8, 1e-2};
    const auto made = numerics::fit_dual_polarity(this->context(), references.of(false), references.of(true), lines,
                                                  kSamples, options);
    Random random(8);
    const std::vector<cfloat> frame = random.normals(kSeen * count * kSamples);  // [coil, line, x] in k-space
    const auto there = this->upload(frame, {kSeen, count, kSamples});
    auto half = this->context().template allocate<cfloat>({kSeen, count, kSamples});
    auto result = this->context().template allocate<cfloat>({kSeen, count, kSamples});
    numerics::centered_fft(this->context(), there.cview(), half.view(), {kSamples}, 1, numerics::Direction::inverse,
                           1.0f / kSamples);
    numerics::correct_lines(this->context(), made.hybrid, made.rows, half.cview(), result.view());
    numerics::centered_fft(this->context(), result.cview(), half.view(), {kSamples}, 1, numerics::Direction::forward,
                           1);
    const auto out = this->download(half);
    const auto sample = [&](std::int64_t c, std::size_t row, std::int64_t x) {  // lines end where they begin
      return cdouble(frame[static_cast<std::size_t>((c * count + static_cast<std::int64_t>(row)) * kSamples +
                                                    (x + kSamples) % kSamples)]);
    };
    double worst = 0;
    for (std::size_t own = 0; own < lines.size(); ++own) {
      const auto sources = makers(lines, own, kReferences / 3);
      Eigen::MatrixXcd weights;
      if (lines[own].reversed) weights = weights_of(references, lines, own, sources, options.regularization);
      for (std::int64_t c = 0; c < kSeen; ++c)
        for (std::int64_t x = 0; x < kSamples; ++x) {
          cdouble expected = lines[own].reversed ? 0 : sample(c, own, x);
          for (std::size_t s = 0; s < sources.size() && lines[own].reversed; ++s)
            for (std::int64_t dx = 0; dx < kTaps; ++dx)
              for (std::int64_t from = 0; from < kSeen; ++from)
                expected += weights(c, (static_cast<std::int64_t>(s) * kTaps + dx) * kSeen + from) *
                            sample(from, sources[s], x + dx - kTaps / 2);
          const auto at = static_cast<std::size_t>((c * count + static_cast<std::int64_t>(own)) * kSamples + x);
          worst = std::max(worst, std::abs(cdouble(out[at]) - expected));
        }
    }
    EXPECT_LT(worst, 2e-5);         // sums of 45 float32 products of size 1, and two transforms
    EXPECT_GT(made.residual, 0.3);  // nothing predicts random numbers
  }
}

TYPED_TEST(DualPolarityTest, WhatBothDirectionsShareIsPredictedWhole) {
  BothWays references = random_references();
  for (std::size_t i = 0; i < references.forward.size(); ++i)
    references.reversed[i] = references.forward[i] * cfloat(std::polar(1.0, 0.7));
  std::vector<PolarityLine> lines;
  for (std::int32_t i = 0; i < 8; ++i) lines.push_back({i, i % 2 == 0});
  const auto made = numerics::fit_dual_polarity(this->context(), references.of(false), references.of(true), lines,
                                                kSamples, {kTaps, 4, 8, 0});
  EXPECT_LT(made.residual, 1e-6);  // forward is reversed times a number
  EXPECT_EQ(made.patterns, 3);     // of lines 0, 2 and 4, and 6
}

TYPED_TEST(DualPolarityTest, WhatDoesNotFitIsRefused) {
  const BothWays references = random_references();
  const std::vector<PolarityLine> lines = {{0, false}, {1, true}, {2, false}, {3, true}};
  const auto fit = [&](const BothWays& from, const std::vector<PolarityLine>& frame, std::int64_t samples,
                       std::int64_t kernel) {
    (void)numerics::fit_dual_polarity(this->context(), from.of(false), from.of(true), frame, samples, {kernel, 4, 8});
  };
  EXPECT_NO_THROW(fit(references, lines, kSamples, 3));
  EXPECT_THROW(fit(references, {}, kSamples, 3), std::invalid_argument);
  EXPECT_THROW(fit(references, lines, kSamples - 1, 3), std::invalid_argument);
  EXPECT_THROW(fit(references, lines, kSamples, 0), std::invalid_argument);
  EXPECT_THROW(fit(references, lines, kSamples, kSamples), std::invalid_argument);  // 20 equations
  BothWays none = references;
  std::fill(none.forward.begin(), none.forward.end(), cfloat{});
  EXPECT_THROW(fit(none, lines, kSamples, 3), std::invalid_argument);
  none.forward[7] = std::nanf("");
  EXPECT_THROW(fit(none, lines, kSamples, 3), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::testing
