// Time segmentation against the sum over samples and voxels in float64.
#include "gadgets/numerics/transforms/off_resonance/off_resonance.h"

#include <gmock/gmock.h>

#include <span>

#include "gadgets/numerics/transforms/off_resonance/off_resonance_normal.h"
#include "tests/support/backends.h"
#include "tests/support/field_sum.h"

namespace echotrain::testing {
namespace {

using numerics::cdouble;
using numerics::cfloat;
using numerics::NufftPlan;
using numerics::OffResonance;
using numerics::OffResonanceNormal;
using numerics::Shape;

std::vector<cdouble> widened(const std::vector<cfloat>& values) { return {values.begin(), values.end()}; }

template <class B>
class OffResonanceTest : public OnBackend<B> {
 protected:
  std::shared_ptr<const NufftPlan> plan(const FieldProblem& p, double accuracy = 1e-5) {
    return NufftPlan::make(this->context(), {p.coordinates.data(), {p.count(), 2}}, {p.ny, p.nx},
                           numerics::options_for_accuracy(accuracy, {p.ny, p.nx}));
  }
  std::shared_ptr<const OffResonance> field(const FieldProblem& p, double accuracy) {
    return OffResonance::make(this->context(), {p.field_hz.data(), {p.ny, p.nx}}, p.times_s, accuracy);
  }
  /// Coil `c` of values [.., coil] or [coil, ..].
  static std::vector<cdouble> coil(const std::vector<cfloat>& all, std::size_t c, std::size_t n, bool last) {
    std::vector<cdouble> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = cdouble(all[last ? i * (all.size() / n) + c : c * n + i]);
    return out;
  }
};
TYPED_TEST_SUITE(OffResonanceTest, Backends, BackendNames);

struct Case {
  double range_hz, duration_s;
  std::int64_t most_segments;
};

// The figures: a relative L2 of 1e-3 in both directions, with no more segments than these.
TYPED_TEST(OffResonanceTest, BothDirectionsAreTheDirectSum) {
  for (const Case& c : {Case{203, 3.1e-3, 5}, Case{200, 20e-3, 14}}) {
    const FieldProblem p = field_problem(26, 23, c.range_hz, c.duration_s, 5, 310);
    const auto made = this->field(p, 9e-4);
    const auto nufft = this->plan(p);
    EXPECT_LE(made->segments(), c.most_segments);
    EXPECT_LE(made->error(), 9e-4);
    Random random(7);
    constexpr std::int64_t kCoils = 2;
    const auto image = random.normals(kCoils * 26 * 23), samples = random.normals(kCoils * p.count());
    std::vector<float> weights;
    for (std::int64_t s = 0; s < p.count(); ++s) weights.push_back(static_cast<float>(random.uniform(0.5, 1.5)));
    const auto on_image = this->upload(image, {kCoils, 26, 23});
    const auto on_samples = this->upload(samples, {p.count(), kCoils});
    auto to_samples = this->context().template allocate<cfloat>({p.count(), kCoils});
    auto to_image = this->context().template allocate<cfloat>({kCoils, 26, 23});
    made->forward(this->context(), *nufft, on_image.cview(), to_samples.view());
    made->adjoint(this->context(), *nufft, on_samples.cview(), this->upload(weights, {p.count()}).cview(),
                  to_image.view());
    const auto forward = this->download(to_samples), adjoint = this->download(to_image);
    const auto n = static_cast<std::size_t>(p.count()), voxels = std::size_t{26 * 23};
    for (std::size_t coil = 0; coil < kCoils; ++coil) {
      const auto d = field_forward(p, this->coil(image, coil, voxels, false));
      const double wrong = relative_error(this->coil(forward, coil, n, true), d, n);
      EXPECT_LT(wrong, 1e-3);
      EXPECT_GT(wrong, made->error() / 4);  // the expected error is not far above what it costs
      const auto x = field_adjoint(p, this->coil(samples, coil, n, true), weights);
      EXPECT_LT(relative_error(this->coil(adjoint, coil, voxels, false), x, voxels), 1e-3);
    }
  }
}

// More accuracy takes more segments and is reached: the fp32 sums leave some 1e-6.
TYPED_TEST(OffResonanceTest, TheAccuracyIsAsAsked) {
  const FieldProblem p = field_problem(20, 21, 150, 8e-3, 4, 200);
  const auto nufft = this->plan(p, 5e-6);
  Random random(3);
  const auto image = random.normals(20 * 21);
  const auto truth = field_forward(p, widened(image));
  std::int64_t before = 0;
  for (const double accuracy : {1e-1, 1e-2, 1e-3, 1e-4, 2e-5}) {
    const auto made = this->field(p, accuracy);
    EXPECT_GE(made->segments(), before + (before > 0 ? 1 : 0));
    before = made->segments();
    auto samples = this->context().template allocate<cfloat>({p.count(), 1});
    made->forward(this->context(), *nufft, this->upload(image, {1, 20, 21}).cview(), samples.view());
    // A mean over data, which 420 voxels leave uncertain by some percent, and the plan's own error.
    EXPECT_LT(relative_error(this->download(samples), truth, truth.size()), 1.3 * accuracy + 7e-6);
  }
}

TYPED_TEST(OffResonanceTest, DirectionsAreAdjoint) {
  const FieldProblem p = field_problem(17, 30, 90, 5e-3, 3, 100);
  const auto made = this->field(p, 1e-2);
  const auto nufft = this->plan(p);
  Random random(11);
  const auto image = random.normals(17 * 30), samples = random.normals(p.count());
  auto d = this->context().template allocate<cfloat>({p.count(), 1});
  auto x = this->context().template allocate<cfloat>({1, 17, 30});
  made->forward(this->context(), *nufft, this->upload(image, {1, 17, 30}).cview(), d.view());
  made->adjoint(this->context(), *nufft, this->upload(samples, {p.count(), 1}).cview(), {}, x.view());
  const auto forward = this->download(d), adjoint = this->download(x);
  cdouble left = 0, right = 0;
  double size = 0;
  for (std::size_t i = 0; i < forward.size(); ++i) left += std::conj(cdouble(forward[i])) * cdouble(samples[i]);
  for (std::size_t i = 0; i < adjoint.size(); ++i) {
    right += std::conj(cdouble(image[i])) * cdouble(adjoint[i]);
    size += std::norm(cdouble(adjoint[i]));
  }
  EXPECT_LT(std::abs(left - right), 1e-5 * std::sqrt(size * static_cast<double>(image.size())));
}

// Samples that come in parts, as channels of one grid, give the image of the whole.
TYPED_TEST(OffResonanceTest, PartsAreTheWhole) {
  const FieldProblem p = field_problem(20, 18, 120, 4e-3, 4, 90);
  const auto made = this->field(p, 1e-3);
  const auto nufft = this->plan(p);
  Random random(5);
  constexpr std::int64_t kCoils = 5;  // more than the kernels take at once, and not a multiple of it
  const auto samples = random.normals(p.count() * kCoils);
  const auto all = this->upload(samples, {p.count(), kCoils});
  const std::int64_t channels = made->segments() * kCoils;
  auto split = this->context().template allocate<cfloat>({p.count(), channels});
  for (std::int64_t first = 0; first < p.count(); first += 70) {
    const std::int64_t n = std::min<std::int64_t>(70, p.count() - first);
    made->split(this->context(), first, all.cview().part(first * kCoils, {n, kCoils}),
                split.view().part(first * channels, {n, channels}));
  }
  auto images = this->context().template allocate<cfloat>({channels, 20, 18});
  auto image = this->context().template allocate<cfloat>({kCoils, 20, 18});
  auto whole = this->context().template allocate<cfloat>({kCoils, 20, 18});
  nufft->adjoint(this->context(), split.cview(), {}, images.view());
  made->gather(this->context(), images.cview(), image.view());
  made->adjoint(this->context(), *nufft, all.cview(), {}, whole.view());
  EXPECT_EQ(this->download(image), this->download(whole));
}

// A bound on memory makes segments come one after the other, or some at a time. A plan works on other
// groups of channels then, so that sums round differently.
TYPED_TEST(OffResonanceTest, LittleMemoryGivesTheSameResult) {
  const FieldProblem p = field_problem(20, 18, 120, 6e-3, 4, 90);
  const auto made = this->field(p, 1e-3);
  ASSERT_GT(made->segments(), 4);
  const auto nufft = this->plan(p);
  Random random(6);
  const auto samples = this->upload(random.normals(p.count() * 3), {p.count(), 3});
  const auto images = this->upload(random.normals(3 * 20 * 18), {3, 20, 18});
  std::vector<std::vector<cfloat>> results;
  // One segment takes 8 bytes of 3 coils' samples, images and grids.
  const std::int64_t one = 8 * 3 * (p.count() + 20 * 18 + nufft->grid_shape().size());
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, 3 * one}) {
    auto x = this->context().template allocate<cfloat>({3, 20, 18});
    auto d = this->context().template allocate<cfloat>({p.count(), 3});
    made->adjoint(this->context(), *nufft, samples.cview(), {}, x.view(), bytes);
    made->forward(this->context(), *nufft, images.cview(), d.view(), bytes);
    results.push_back(this->download(x));
    for (const cfloat& value : this->download(d)) results.back().push_back(value);
  }
  EXPECT_LT(relative_error(results[1], results[0], results[0].size()), 1e-6);
  EXPECT_LT(relative_error(results[2], results[0], results[0].size()), 1e-6);
}

TYPED_TEST(OffResonanceTest, TheNormalOperatorIsForwardThenAdjoint) {
  for (const Case& c : {Case{203, 3.1e-3, 9}, Case{60, 20e-3, 14}}) {
    const FieldProblem p = field_problem(22, 20, c.range_hz, c.duration_s, 4, 150);
    Random random(13);
    std::vector<float> weights;
    double sum = 0;
    for (std::int64_t s = 0; s < p.count(); ++s) {
      weights.push_back(static_cast<float>(random.uniform(0.5, 1.5)));
      sum += static_cast<double>(weights.back());
    }
    OffResonanceNormal::Options options;
    options.accuracy = 1e-3;
    options.nufft = numerics::options_for_accuracy(1e-5, {44, 40});
    const OffResonanceNormal normal(this->context(), {p.coordinates.data(), {p.count(), 2}},
                                    {weights.data(), {p.count()}}, this->field(p, 1e-3), options);
    EXPECT_LE(normal.segments(), c.most_segments);
    const auto image = random.normals(22 * 20);
    const auto truth = field_adjoint(p, field_forward(p, widened(image)), weights);
    auto y = this->context().template allocate<cfloat>({22, 20});
    normal.apply(this->context(), this->upload(image, {22, 20}).cview(), y.view());
    // The segments' error is relative to elements of the matrix, most of which cancel in the product, by the root of
    // (diagonal power over all power), which is above a third here.
    EXPECT_LT(relative_error(this->download(y), truth, truth.size()), 3e-3);
    EXPECT_NEAR(normal.diagonal(), sum, 2e-3 * sum);
    // Coil maps stand between the phases and the convolution.
    const auto maps = random.normals(3 * 22 * 20);
    std::vector<cdouble> expected(22 * 20);
    for (std::size_t coil = 0; coil < 3; ++coil) {
      std::vector<cdouble> seen = widened(image);
      for (std::size_t v = 0; v < seen.size(); ++v) seen[v] *= cdouble(maps[coil * seen.size() + v]);
      const auto back = field_adjoint(p, field_forward(p, seen), weights);
      for (std::size_t v = 0; v < seen.size(); ++v)
        expected[v] += std::conj(cdouble(maps[coil * seen.size() + v])) * back[v];
    }
    const auto copy = normal.copy(this->context());
    copy->apply_sense(this->context(), this->upload(maps, {3, 22, 20}).cview(), this->upload(image, {22, 20}).cview(),
                      y.view());
    EXPECT_LT(relative_error(this->download(y), expected, expected.size()), 3e-3);
    // No eigenvalue is above largest(): the Rayleigh quotient of any image is not.
    double quotient = 0, power = 0;
    for (std::size_t v = 0; v < truth.size(); ++v) {
      quotient += (std::conj(cdouble(image[v])) * truth[v]).real();
      power += std::norm(cdouble(image[v]));
    }
    EXPECT_LT(quotient / power, normal.largest());
  }
}

// A field that is the same everywhere is one frequency, which one segment meets exactly.
TYPED_TEST(OffResonanceTest, OneFrequencyIsOneSegment) {
  FieldProblem p = field_problem(16, 16, 1, 5e-3, 3, 80);
  std::fill(p.field_hz.begin(), p.field_hz.end(), 77.0f);
  const auto made = this->field(p, 1e-5);
  EXPECT_EQ(made->segments(), 1);
  Random random(2);
  const auto image = random.normals(256);
  auto samples = this->context().template allocate<cfloat>({p.count(), 1});
  made->forward(this->context(), *this->plan(p), this->upload(image, {1, 16, 16}).cview(), samples.view());
  const auto truth = field_forward(p, widened(image));
  EXPECT_LT(relative_error(this->download(samples), truth, truth.size()), 2e-5);
}

TYPED_TEST(OffResonanceTest, BadProblemsAreRefused) {
  FieldProblem p = field_problem(16, 16, 100, 5e-3, 2, 50);
  const auto text = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "nothing";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(text([&] { this->field(p, 1e-9); }), HasSubstr("accuracy"));
  const auto made = this->field(p, 1e-3);
  auto wrong = this->context().template allocate<cfloat>({1, 16, 15});
  const auto samples = this->context().template zeros<cfloat>({p.count(), 1});
  EXPECT_THAT(text([&] { made->adjoint(this->context(), *this->plan(p), samples.cview(), {}, wrong.view()); }),
              HasSubstr("[1, 16, 15]"));
  p.times_s.back() = 10;  // s: 2000 cycles
  EXPECT_THAT(text([&] { this->field(p, 1e-3); }), HasSubstr("mask or smooth the field map"));
  p.times_s.back() = std::nan("");
  EXPECT_THAT(text([&] { this->field(p, 1e-3); }), HasSubstr("times"));
  p.times_s.clear();
  EXPECT_THAT(text([&] { this->field(p, 1e-3); }), HasSubstr("no times"));
  p = field_problem(16, 16, 100, 5e-3, 2, 50);
  p.field_hz[3] = 1e25f;  // more cycles than an integer holds
  EXPECT_THAT(text([&] { this->field(p, 1e-3); }), HasSubstr("mask or smooth the field map"));
  p.field_hz[3] = std::nanf("");
  EXPECT_THAT(text([&] { this->field(p, 1e-3); }), HasSubstr("not finite"));
}

}  // namespace
}  // namespace echotrain::testing
