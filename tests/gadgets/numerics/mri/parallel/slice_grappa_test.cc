// Slices that were excited at once, told apart by kernels: equations and sums written out in float64.
#include "gadgets/numerics/mri/parallel/slice_grappa.h"

#include <Eigen/Dense>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/transforms/fft/fft.h"
#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::cdouble;
using numerics::cfloat;
using numerics::GrappaKernels;
using numerics::SliceGrappaOptions;
using numerics::SliceReference;

constexpr double kTwoPi = 2 * std::numbers::pi;

cdouble turned(double turns) { return std::polar(1.0, kTwoPi * turns); }

/// Reference blocks [coil, y, x] of slices, and how blips turn them.
struct Blocks {
  std::int64_t coils, ny, nx;
  std::vector<std::vector<cfloat>> slices;
  std::vector<double> turns;

  std::vector<SliceReference> references() const {
    std::vector<SliceReference> out;
    for (std::size_t s = 0; s < slices.size(); ++s) out.push_back({{slices[s].data(), {coils, ny, nx}}, turns[s]});
    return out;
  }
  cdouble at(std::size_t slice, std::int64_t c, std::int64_t y, std::int64_t x) const {
    return cdouble(slices[slice][static_cast<std::size_t>((c * ny + y) * nx + x)]);
  }
};

Blocks random_blocks(std::int64_t coils, std::int64_t ny, std::int64_t nx, std::vector<double> turns) {
  Random random(11);
  Blocks out{coils, ny, nx, {}, std::move(turns)};
  for (std::size_t s = 0; s < out.turns.size(); ++s) out.slices.push_back(random.normals(coils * ny * nx));
  return out;
}

/// Slices that each coil sees with one weight everywhere: kernels tell them apart without an error.
Blocks separable_blocks(std::int64_t coils, std::int64_t ny, std::int64_t nx, std::vector<double> turns,
                        const std::vector<cfloat>& seen, unsigned seed) {
  Random random(seed);
  Blocks out{coils, ny, nx, {}, std::move(turns)};
  for (std::size_t s = 0; s < out.turns.size(); ++s) {
    const auto object = random.normals(ny * nx);
    auto& slice = out.slices.emplace_back();
    for (std::int64_t c = 0; c < coils; ++c)
      for (const cfloat value : object)
        slice.push_back(seen[s * static_cast<std::size_t>(coils) + static_cast<std::size_t>(c)] * value);
  }
  return out;
}

/// The columns of A_t and T_t of a slice: samples of a kernel at each place, [dy, dx, coil], and the target's coils.
struct Columns {
  Eigen::MatrixXcd a, t;
};
Columns columns_of(const Blocks& blocks, std::size_t slice, std::int64_t step, std::int64_t ky, std::int64_t kx) {
  const std::int64_t below = ky / 2 * step, above = (ky - 1 - ky / 2) * step, wide = blocks.nx - kx + 1;
  const std::int64_t places = (blocks.ny - below - above) * wide;
  Columns out{Eigen::MatrixXcd(ky * kx * blocks.coils, places), Eigen::MatrixXcd(blocks.coils, places)};
  for (std::int64_t p = 0; p < places; ++p) {
    const std::int64_t y = below + p / wide, x = p % wide;
    const auto value = [&](std::int64_t c, std::int64_t dy, std::int64_t dx) {
      const double turns = blocks.turns[slice] * static_cast<double>(y + dy) / static_cast<double>(step);
      return turned(turns) * blocks.at(slice, c, y + dy, x + dx);
    };
    for (std::int64_t s = 0; s < ky; ++s)
      for (std::int64_t dx = 0; dx < kx; ++dx)
        for (std::int64_t c = 0; c < blocks.coils; ++c)
          out.a((s * kx + dx) * blocks.coils + c, p) = value(c, (s - ky / 2) * step, dx);
    for (std::int64_t c = 0; c < blocks.coils; ++c) out.t(c, p) = value(c, 0, kx / 2);
  }
  return out;
}

template <class B>
using SliceGrappaFitTest = OnBackend<B>;
TYPED_TEST_SUITE(SliceGrappaFitTest, Backends, BackendNames);

TYPED_TEST(SliceGrappaFitTest, KernelsSolveTheEquationsOfTheirSources) {
  const Blocks blocks = random_blocks(3, 13, 11, {0, 0.5, 0.2});
  const std::int64_t step = 2, ky = 3, kx = 3, coils = 3, lines = 6;
  for (const bool split : {true, false}) {
    const SliceGrappaOptions options{kx, ky, 1e-2, split};
    const GrappaKernels made = numerics::fit_slices(this->context(), blocks.references(), step, lines, options);
    const auto weights = this->download(made.weights);
    std::vector<Columns> columns;
    for (std::size_t s = 0; s < 3; ++s) columns.push_back(columns_of(blocks, s, step, ky, kx));
    Eigen::MatrixXcd sum = columns[0].a + columns[1].a + columns[2].a, matrix = sum * sum.adjoint();
    if (split) {
      matrix.setZero();
      for (const Columns& c : columns) matrix += c.a * c.a.adjoint();
    }
    const double lambda = 1e-2 * matrix.diagonal().real().mean();
    matrix += lambda * Eigen::MatrixXcd::Identity(matrix.rows(), matrix.cols());
    ASSERT_EQ(made.kernels.size(), 9u);  // of all sources, without the first, without the last
    EXPECT_EQ(made.of_row, (std::vector<std::int32_t>{1, 0, 0, 0, 0, 2}));
    const std::vector<std::vector<std::int64_t>> used = {{0, 1, 2}, {1, 2}, {0, 1}};
    double left = 0, energy = 0;
    for (std::size_t k = 0; k < made.kernels.size(); ++k) {
      const auto& taps = used[k / 3];
      const std::size_t slice = k % 3;
      const auto n = static_cast<std::int64_t>(taps.size()) * kx * coils;
      Eigen::MatrixXcd w(coils, n), part(n, n), right(coils, n);
      const Eigen::MatrixXcd all = columns[slice].t * (split ? columns[slice].a : sum).adjoint();
      for (std::int64_t j = 0; j < n; ++j) {
        const auto of = [&](std::int64_t i) {
          return taps[static_cast<std::size_t>(i / (kx * coils))] * kx * coils + i % (kx * coils);
        };
        for (std::int64_t i = 0; i < n; ++i) part(i, j) = matrix(of(i), of(j));
        for (std::int64_t c = 0; c < coils; ++c) {
          right(c, j) = all(c, of(j));
          w(c, j) = cdouble(weights[static_cast<std::size_t>(made.kernels[k].first + c * n + j)]);
        }
      }
      ASSERT_EQ(made.kernels[k].sources.size(), taps.size());
      for (std::size_t s = 0; s < taps.size(); ++s) EXPECT_EQ(made.kernels[k].sources[s][0], 1 - taps[s]);
      // Weights are float32, of a matrix whose condition is below 1e3.
      EXPECT_LT((w * part - right).norm(), 1e-5 * right.norm()) << "kernel " << k << (split ? ", split" : "");
      if (k >= 3) continue;
      energy += columns[slice].t.squaredNorm();
      for (std::size_t t = 0; t < 3 && split; ++t)
        left += (w * columns[t].a - (t == slice ? 1.0 : 0.0) * columns[slice].t).squaredNorm();
      if (!split) left += (w * sum - columns[slice].t).squaredNorm();
    }
    EXPECT_NEAR(made.residual, std::sqrt(left / energy), 1e-5);
  }
}

/// The lines of all slices, as a gadget makes them of the lines of a frame [coil, line, x].
std::vector<cfloat> apart(numerics::Context& context, const GrappaKernels& kernels, std::int64_t slices,
                          const numerics::Array<cfloat>& frame) {
  const std::int64_t coils = frame.shape()[0], lines = frame.shape()[1], n = frame.shape()[2];
  const numerics::Shape extents{1, lines, n};
  const numerics::HybridKernels hybrid = numerics::hybrid_kernels(context, kernels, {extents, extents, extents});
  const numerics::LineCorrections rows = numerics::plan_slices(context, kernels, hybrid, slices);
  auto half = context.allocate<cfloat>(frame.shape());
  numerics::centered_fft(context, frame.cview(), half.view(), {n}, 1, numerics::Direction::inverse, 1.0f);
  auto e = context.allocate<cfloat>({coils, slices * lines, n}), out = context.allocate<cfloat>(e.shape());
  numerics::correct_lines(context, hybrid, rows, half.cview(), e.view());
  numerics::centered_fft(context, e.cview(), out.view(), {n}, 1, numerics::Direction::forward,
                         1.0f / static_cast<float>(n));
  const auto host = context.download<cfloat>(out.cview());
  return {host.data(), host.data() + host.size()};
}

TYPED_TEST(SliceGrappaFitTest, LinesAreConvolvedWithTheirKernels) {
  const Blocks blocks = random_blocks(3, 12, 12, {0, 1.0 / 3});
  const std::int64_t coils = 3, lines = 7, n = 16, kx = 4;
  const GrappaKernels made = numerics::fit_slices(this->context(), blocks.references(), 1, lines, {kx, 3, 1e-2, true});
  Random random(3);
  const auto frame = random.normals(coils * lines * n);
  const auto weights = this->download(made.weights);
  const auto got = apart(this->context(), made, 2, this->upload(frame, {coils, lines, n}));
  double error = 0, size = 0;
  for (std::int64_t c = 0; c < coils; ++c)
    for (std::int64_t m = 0; m < 2; ++m)
      for (std::int64_t j = 0; j < lines; ++j)
        for (std::int64_t x = 0; x < n; ++x) {
          const auto& kernel = made.kernels[static_cast<std::size_t>(made.of_row[static_cast<std::size_t>(j)] * 2 + m)];
          const auto sources = static_cast<std::int64_t>(kernel.sources.size());
          cdouble sum = 0;
          for (std::int64_t s = 0; s < sources; ++s)
            for (std::int64_t dx = 0; dx < kx; ++dx)
              for (std::int64_t from = 0; from < coils; ++from) {
                const std::int64_t row = j - kernel.sources[static_cast<std::size_t>(s)][0],
                                   at = (x + dx - kx / 2 + n) % n;
                sum += cdouble(weights[static_cast<std::size_t>(kernel.first + ((c * sources + s) * kx + dx) * coils +
                                                                from)]) *
                       cdouble(frame[static_cast<std::size_t>((from * lines + row) * n + at)]);
              }
          error += std::norm(cdouble(got[static_cast<std::size_t>((c * 2 * lines + m * lines + j) * n + x)]) - sum);
          size += std::norm(sum);
        }
  EXPECT_LT(std::sqrt(error / size), 1e-5);
}

TYPED_TEST(SliceGrappaFitTest, SlicesThatCoilsSeeOtherwiseComeApart) {
  const std::int64_t coils = 5, lines = 8, n = 12;
  const std::vector<double> turns = {0, 0.5, 0.25};
  Random random(8);
  const auto seen = random.normals(3 * coils);
  const Blocks references = separable_blocks(coils, 14, n, turns, seen, 1),
               frames = separable_blocks(coils, lines, n, turns, seen, 2);
  std::vector<cfloat> sum(static_cast<std::size_t>(coils * lines * n)), truth(3 * sum.size());
  for (std::int64_t c = 0; c < coils; ++c)
    for (std::int64_t j = 0; j < lines; ++j)
      for (std::int64_t x = 0; x < n; ++x)
        for (std::size_t s = 0; s < 3; ++s) {
          const cfloat value(turned(turns[s] * static_cast<double>(j)) * frames.at(s, c, j, x));
          sum[static_cast<std::size_t>((c * lines + j) * n + x)] += value;
          truth[static_cast<std::size_t>((c * 3 * lines + static_cast<std::int64_t>(s) * lines + j) * n + x)] = value;
        }
  for (const bool split : {true, false}) {
    const GrappaKernels made =
        numerics::fit_slices(this->context(), references.references(), 1, lines, {3, 3, 1e-7, split});
    EXPECT_LT(made.residual, 1e-3);
    const auto got = apart(this->context(), made, 3, this->upload(sum, {coils, lines, n}));
    double error = 0, size = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      error += std::norm(cdouble(got[i]) - cdouble(truth[i]));
      size += std::norm(cdouble(truth[i]));
    }
    // Float32 weights of slices that are seen alike to a tenth; the other slice's phases are new to the frame.
    EXPECT_LT(std::sqrt(error / size), split ? 1e-4 : 1e-2) << (split ? "split" : "plain");
  }
}

/// Coils see a slice otherwise in lines that were read backwards; these come forward, whatever the order of directions.
TYPED_TEST(SliceGrappaFitTest, LinesThatWereReadBackwardsAreMadeForward) {
  const std::int64_t coils = 5, n = 12;
  const std::vector<double> turns = {0, 0.5};
  Random random(8);
  const auto seen = random.normals(2 * coils), seen_back = random.normals(2 * coils);
  const Blocks forward = separable_blocks(coils, 14, n, turns, seen, 1),
               backwards = separable_blocks(coils, 14, n, turns, seen_back, 1);
  auto references = forward.references();
  for (std::size_t s = 0; s < 2; ++s) references[s].reversed = {backwards.slices[s].data(), {coils, 14, n}};
  for (const std::vector<bool>& reversed : {std::vector<bool>{0, 1, 0, 1, 0, 1, 0, 1}, {1, 0, 1, 1, 0, 0, 1}, {1, 0}}) {
    const auto lines = static_cast<std::int64_t>(reversed.size());
    const Blocks frames = separable_blocks(coils, lines, n, turns, seen, 2),
                 frames_back = separable_blocks(coils, lines, n, turns, seen_back, 2);
    std::vector<cfloat> sum(static_cast<std::size_t>(coils * lines * n)), truth(2 * sum.size());
    for (std::int64_t c = 0; c < coils; ++c)
      for (std::int64_t j = 0; j < lines; ++j)
        for (std::int64_t x = 0; x < n; ++x)
          for (std::size_t s = 0; s < 2; ++s) {
            const cdouble turn = turned(turns[s] * static_cast<double>(j));
            const Blocks& read = reversed[static_cast<std::size_t>(j)] ? frames_back : frames;
            sum[static_cast<std::size_t>((c * lines + j) * n + x)] += cfloat(turn * read.at(s, c, j, x));
            truth[static_cast<std::size_t>((c * 2 * lines + static_cast<std::int64_t>(s) * lines + j) * n + x)] =
                cfloat(turn * frames.at(s, c, j, x));
          }
    const auto error_with = [&](const SliceGrappaOptions& options, const std::vector<bool>& directions) {
      const GrappaKernels made = numerics::fit_slices(this->context(), references, 1, lines, options, directions);
      const auto got = apart(this->context(), made, 2, this->upload(sum, {coils, lines, n}));
      double error = 0, size = 0;
      for (std::size_t i = 0; i < truth.size(); ++i) {
        error += std::norm(cdouble(got[i]) - cdouble(truth[i]));
        size += std::norm(cdouble(truth[i]));
      }
      return std::sqrt(error / size);
    };
    // As above: float32 weights; without the split, phases that references do not have.
    EXPECT_LT(error_with({3, 3, 1e-7, true}, reversed), 1e-4) << lines;
    EXPECT_LT(error_with({3, 3, 1e-7, false}, reversed), 1e-2) << lines;
    EXPECT_GT(error_with({3, 3, 1e-7, true}, {}), 0.3) << lines;
  }
  const GrappaKernels plain = numerics::fit_slices(this->context(), references, 1, 6, {3, 3, 1e-4, true}),
                      told = numerics::fit_slices(this->context(), references, 1, 6, {3, 3, 1e-4, true},
                                                  std::vector<bool>(6));
  EXPECT_EQ(this->download(plain.weights), this->download(told.weights));
  EXPECT_EQ(plain.of_row, told.of_row);
}

TEST(SliceGrappaInputTest, ReferencesThatDoNotDoAreRefused) {
  numerics::Context context(numerics::Backend::cpu, test_resources());
  const Blocks blocks = random_blocks(2, 9, 8, {0, 0.5});
  const auto why = [&](const Blocks& of, std::int64_t step, const SliceGrappaOptions& options,
                       const std::vector<bool>& reversed = {}) -> std::string {
    try {
      numerics::fit_slices(context, of.references(), step, 8, options, reversed);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "(nothing)";
  };
  EXPECT_EQ(why(blocks, 2, {3, 5, 1e-4, true}), "(nothing)");
  EXPECT_NE(why(blocks, 3, {3, 5, 1e-4, true}).find("reaches over 13 lines, and there are 9"), std::string::npos);
  EXPECT_NE(why(random_blocks(16, 9, 8, {0}), 2, {5, 5, 1e-4, true}).find("of 400 unknowns"), std::string::npos);
  Blocks dark = blocks;
  for (auto& slice : dark.slices) slice.assign(slice.size(), cfloat{});
  EXPECT_NE(why(dark, 1, {3, 3, 1e-4, true}).find("no signal"), std::string::npos);
  dark.slices[1][3] = cfloat(NAN, 0);
  EXPECT_NE(why(dark, 1, {3, 3, 1e-4, true}).find("not finite"), std::string::npos);
  EXPECT_NE(why(blocks, 1, {0, 3, 1e-4, true}).find("extent of 1 or more"), std::string::npos);
  EXPECT_NE(why(blocks, 1, {3, 3, 2, true}).find("regularization"), std::string::npos);
  EXPECT_NE(why({2, 9, 8, {}, {}}, 1, {3, 3, 1e-4, true}).find("at least one slice"), std::string::npos);
  EXPECT_NE(why(blocks, 1, {3, 3, 1e-4, true}, std::vector<bool>(8, true)).find("no references that were read back"),
            std::string::npos);
  EXPECT_NE(why(blocks, 1, {3, 3, 1e-4, true}, {true}).find("has a direction, or none"), std::string::npos);
}

}  // namespace
}  // namespace echotrain::testing
