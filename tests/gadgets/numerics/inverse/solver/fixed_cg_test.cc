// Frames solved one after another, against conjugate gradients in float64 on the problem by its definition.
#include "gadgets/numerics/inverse/solver/fixed_cg.h"

#include <cmath>
#include <limits>

#include "gadgets/numerics/transforms/scatter/scatter.h"
#include "gadgets/numerics/transforms/toeplitz/frame_toeplitz.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;
using Vector = std::vector<cdouble>;

constexpr std::int64_t kCoils = 3;
const Shape kImage{14, 11};
constexpr std::int64_t kVoxels = 14 * 11, kSamples = 120;

/// A frame's problem, and what solves it in float64 by the direct sums.
struct FrameProblem {
  std::vector<double> k;
  std::vector<float> w;
  std::vector<cfloat> maps, data;  // [coil, voxel]; [sample, coil]

  explicit FrameProblem(unsigned seed) : maps(Random(77).normals(kCoils * kVoxels)) {
    Random random(seed);
    for (std::int64_t i = 0; i < 2 * kSamples; ++i) k.push_back(random.uniform(-0.5, 0.5));
    for (std::int64_t i = 0; i < kSamples; ++i) w.push_back(static_cast<float>(random.uniform(0.2, 1)) / kSamples);
    data = random_data(seed + 1);
  }
  static std::vector<cfloat> random_data(unsigned seed) { return Random(seed).normals(kSamples * kCoils); }

  Vector joined(const Vector& of_coils) const {
    Vector sum(kVoxels);
    for (std::size_t i = 0; i < of_coils.size(); ++i) sum[i % kVoxels] += std::conj(cdouble(maps[i])) * of_coils[i];
    return sum;
  }
  Vector right() const { return joined(testing::direct_adjoint(k, data, w, kCoils, kImage)); }
  /// A x in float64: the phases of all samples and voxels are kept.
  Vector apply(const Vector& x) const {
    if (phases_.empty())
      for (std::int64_t s = 0; s < kSamples; ++s) {
        const auto at = static_cast<std::size_t>(2 * s);
        const auto ey = testing::phases(-k[at + 1], kImage[0]), ex = testing::phases(-k[at], kImage[1]);
        for (const auto& y : ey)
          for (const auto& column : ex) phases_.push_back(y * column);
      }
    Vector of_coils(static_cast<std::size_t>(kCoils * kVoxels));
    for (std::size_t c = 0; c < kCoils; ++c)
      for (std::size_t s = 0; s < kSamples; ++s) {
        cdouble sum = 0;
        const cdouble* e = phases_.data() + s * kVoxels;
        for (std::size_t v = 0; v < kVoxels; ++v) sum += e[v] * cdouble(maps[c * kVoxels + v]) * x[v];
        sum *= static_cast<double>(w[s]);
        for (std::size_t v = 0; v < kVoxels; ++v) of_coils[c * kVoxels + v] += std::conj(e[v]) * sum;
      }
    return joined(of_coils);
  }

 private:
  mutable Vector phases_;
};

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (std::conj(a[i]) * b[i]).real();
  return sum;
}

/// Hestenes and Stiefel's steps on (A + (previous + size) I) x = b + previous x0 from x0.
Vector conjugate_gradients(const FrameProblem& problem, Vector x, double previous, double size, int iterations) {
  const auto matrix = [&](const Vector& v) {
    Vector out = problem.apply(v);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += (previous + size) * v[i];
    return out;
  };
  Vector r = problem.right(), p;
  const Vector start = matrix(x);
  for (std::size_t i = 0; i < r.size(); ++i) r[i] += previous * x[i] - start[i];
  p = r;
  for (int step = 0; step < iterations; ++step) {
    const Vector q = matrix(p);
    const double rr = dot(r, r), alpha = rr / dot(p, q);
    for (std::size_t i = 0; i < r.size(); ++i) x[i] += alpha * p[i], r[i] -= alpha * q[i];
    const double beta = dot(r, r) / rr;
    for (std::size_t i = 0; i < r.size(); ++i) p[i] = r[i] + beta * p[i];
  }
  return x;
}

template <class B>
class FixedCgTest : public testing::OnBackend<B> {
 protected:
  void SetUp() override {
    testing::OnBackend<B>::SetUp();
    if (this->IsSkipped()) return;
    const Shape doubled{2 * kImage[0], 2 * kImage[1]};
    lags = std::make_unique<ScatterNufft>(this->context(), doubled, options_for_accuracy(1e-5, doubled), 1);
    data = std::make_unique<ScatterNufft>(this->context(), kImage, options_for_accuracy(1e-5, kImage), kCoils);
    matrix = std::make_unique<FrameToeplitz>(this->context(), kImage, kCoils);
    maps = this->upload(FrameProblem(0).maps, {kCoils, kImage[0], kImage[1]});
  }
  /// One frame; returns its image, and the scale in `largest`.
  std::vector<cfloat> solve(FixedCg& solver, const FrameProblem& problem, double& largest) {
    Context& context = this->context();
    const auto positions = this->upload(problem.k, {kSamples, 2});
    const auto weights = this->upload(problem.w, {kSamples});
    lags->lags(context, positions.cview(), weights.cview(), matrix->lags());
    matrix->take(context);
    largest = static_cast<double>(context.template download<float>(matrix->largest()).data()[0]);
    // b of float64 sums, rounded once: what is tested is the solver.
    std::vector<cfloat> b;
    for (const auto& v : problem.right()) b.push_back(cfloat(v));
    context.template copy<cfloat>(HostView<const cfloat>(b.data(), kImage), solver.right());
    solver.solve(
        context,
        [&](DeviceView<const cfloat> x, DeviceView<cfloat> y) { matrix->apply_sense(context, maps.cview(), x, y); },
        matrix->largest(), matrix->can_be_recorded());
    const auto host = context.template download<cfloat>(solver.image());
    return {host.data(), host.data() + host.size()};
  }

  std::unique_ptr<ScatterNufft> lags, data;
  std::unique_ptr<FrameToeplitz> matrix;
  Array<cfloat> maps;
};
TYPED_TEST_SUITE(FixedCgTest, Backends, testing::BackendNames);

// Both take the same steps. Q is known to 1e-5, fp32 rounds to 1e-7; ten steps with condition numbers of some tens
// multiply that. On CUDA, the third frame on runs as a graph.
TYPED_TEST(FixedCgTest, FramesAreThoseOfFloat64) {
  struct Case {
    int iterations;
    double previous, size;
  };
  for (const Case& c : {Case{1, 0, 0}, Case{4, 0.05, 0}, Case{10, 0.02, 0.01}, Case{30, 0.1, 0.02}}) {
    FixedCg solver(this->context(), kImage, {.iterations = c.iterations, .previous = c.previous, .size = c.size});
    Vector truth(kVoxels);
    for (unsigned frame = 0; frame < 4; ++frame) {
      const FrameProblem problem(100 + 2 * frame);
      double largest = 0;
      const auto got = this->solve(solver, problem, largest);
      truth =
          conjugate_gradients(problem, truth, frame == 0 ? 0 : c.previous * largest, c.size * largest, c.iterations);
      EXPECT_LT(testing::relative_error(got, truth, got.size()), 1e-3)
          << "frame " << frame << " of " << c.iterations << " steps";
    }
  }
}

TYPED_TEST(FixedCgTest, ManyFramesHaveTheSameBitsAgain) {
  std::vector<std::vector<cfloat>> first;
  for (int run = 0; run < 2; ++run) {
    FixedCg solver(this->context(), kImage, {.iterations = 8, .previous = 0.05});
    for (unsigned frame = 0; frame < 5; ++frame) {
      double largest = 0;
      auto image = this->solve(solver, FrameProblem(100 + 2 * frame), largest);
      if (run == 0)
        first.push_back(std::move(image));
      else
        EXPECT_EQ(image, first[frame]) << frame;
    }
  }
}

// Where nothing is left to solve, and where numbers are not finite, x stays finite, and later frames do not notice.
TYPED_TEST(FixedCgTest, ZeroAndNotFiniteFrames) {
  FixedCg solver(this->context(), kImage, {.iterations = 5});
  double largest = 0;
  FrameProblem zero(100), bad(102);
  std::fill(zero.data.begin(), zero.data.end(), cfloat());
  bad.data[0] = {std::numeric_limits<float>::infinity(), 0};
  EXPECT_EQ(this->solve(solver, zero, largest), std::vector<cfloat>(kVoxels));
  EXPECT_EQ(this->solve(solver, bad, largest), std::vector<cfloat>(kVoxels));
  const FrameProblem good(104);
  const auto truth = conjugate_gradients(good, Vector(kVoxels), 0, 0, 5);
  const auto got = this->solve(solver, good, largest);
  EXPECT_LT(testing::relative_error(got, truth, got.size()), 1e-3);
}

// The solver acts as if the frame were the first: it neither begins with the one before nor is drawn to it, or to
// nothing.
TYPED_TEST(FixedCgTest, ForgetsTheFrameBefore) {
  const FrameProblem spoiled(106), good(104);
  FixedCg fresh(this->context(), kImage, {.iterations = 5, .previous = 0.3});
  double largest = 0;
  const auto expected = this->solve(fresh, good, largest);
  for (const std::int32_t forgets : {0, 1}) {
    FixedCg solver(this->context(), kImage, {.iterations = 5, .previous = 0.3});
    this->solve(solver, spoiled, largest);
    const auto flag = this->upload(std::vector<std::int32_t>{forgets}, {1});
    solver.forget(this->context(), flag.cview());
    EXPECT_EQ(this->solve(solver, good, largest) == expected, forgets != 0);
    EXPECT_NE(this->solve(solver, good, largest), expected) << "the next one is drawn to it again";
  }
  EXPECT_THROW(fresh.forget(this->context(), {}), std::invalid_argument);
}

TYPED_TEST(FixedCgTest, RefusesWhatDoesNotFit) {
  const auto make = [&](const Shape& image, const FixedCgOptions& options) {
    FixedCg(this->context(), image, options);
  };
  EXPECT_THROW(make(kImage, {.iterations = 0}), std::invalid_argument);
  EXPECT_THROW(make(kImage, {.iterations = 1001}), std::invalid_argument);
  EXPECT_THROW(make(kImage, {.previous = -1}), std::invalid_argument);
  EXPECT_THROW(make(kImage, {.size = std::numeric_limits<double>::quiet_NaN()}), std::invalid_argument);
  EXPECT_THROW(make({0, 4}, {}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
