// NLINV of slices that were excited at once, against its definition in float64, on both backends.
#include <gtest/gtest.h>

#include <cmath>

#include "gadgets/numerics/inverse/nlinv/nlinv.h"
#include "gadgets/numerics/inverse/nlinv/phased_frame.h"
#include "tests/gadgets/numerics/inverse/nlinv/nlinv_reference.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::NlinvReference;
using testing::Random;
using testing::TinyScan;
using testing::Vector64;

template <class B>
class NlinvSlicesTest : public testing::OnNlinv<B> {
 protected:
  PhasedFrame phased(const TinyScan& tiny) {
    std::vector<cfloat> phases;
    for (const cdouble p : tiny.phases) phases.emplace_back(p);
    return PhasedFrame(this->context(), {phases.data(), {tiny.slices(), tiny.slices()}}, tiny.coils(), tiny.image(),
                       2e-6);
  }
  /// The next frame in the same memory. Numbers from `end` on have no samples.
  NlinvFrame fill(PhasedFrame& frame, const TinyScan& tiny, std::int64_t end = 16) {
    const NlinvReference& r = tiny.reference;
    frame.clear();
    double sum = 0;
    for (std::int64_t n = 0; n < std::min(end, tiny.slices()); ++n) {
      std::vector<double> coordinates;
      std::vector<cfloat> data;
      std::vector<float> weights;
      for (auto s = static_cast<std::size_t>(n); s < r.weights.size(); s += r.slices) {
        coordinates.insert(coordinates.end(), {r.coordinates[2 * s], r.coordinates[2 * s + 1]});
        for (std::size_t c = 0; c < r.coils; ++c) data.emplace_back(tiny.data[s * r.coils + c]);
        weights.push_back(r.weights[s]);
        sum += static_cast<double>(r.weights[s]);
      }
      const auto samples = static_cast<std::int64_t>(weights.size());
      const auto coordinates_there = this->upload(coordinates, {samples, 2});
      const auto data_there = this->upload(data, {samples, tiny.coils()});
      const auto weights_there = this->upload(weights, {samples});
      frame.set(n, coordinates_there.cview(), data_there.cview(), weights_there.cview());
    }
    return frame.finish(sum);
  }
  Nlinv solver(const TinyScan& tiny, const NlinvOptions& options) {
    return Nlinv(this->context(), tiny.coils(), tiny.image(), tiny.field(), options, tiny.slices());
  }
};
TYPED_TEST_SUITE(NlinvSlicesTest, Backends, testing::BackendNames);

// A number without samples gives nothing.
TYPED_TEST(NlinvSlicesTest, FramesAreTheirSums) {
  for (const std::size_t slices : {2, 3})
    for (const bool lacks : {false, true}) {
      const TinyScan tiny(slices);
      PhasedFrame own = this->phased(tiny);
      this->fill(own, tiny);  // a frame before, in the same memory
      const NlinvFrame frame = this->fill(own, tiny, lacks ? tiny.slices() - 1 : tiny.slices());
      NlinvReference r = tiny.reference;
      double sum = 0;
      for (std::size_t s = 0; s < r.weights.size(); ++s) {
        if (lacks && s % slices + 1 == slices) r.weights[s] = 0;
        sum += static_cast<double>(r.weights[s]);
      }
      r.scale = std::numbers::pi / 4 / sum;
      SCOPED_TRACE(std::to_string(slices) + (lacks ? ", of which one lacks" : ""));
      ASSERT_EQ(frame.right.shape(), tiny.coil_images());
      this->expect_sums(frame, r, tiny.data, tiny.coil_images());
    }
}

// The derivative of the whole model F m c of both slices, and its adjoint: what one Newton step of so many conjugate
// gradients gives solves the dense equations. alpha keeps the condition number below some 1e3, and so the error of fp32
// below 1e-4.
TYPED_TEST(NlinvSlicesTest, ANewtonStepSolvesItsEquations) {
  TinyScan tiny(2);
  NlinvReference& r = tiny.reference;
  r.options.newton_steps = 1;
  r.options.first_passes = 1;
  r.options.inner = 60;
  PhasedFrame own = this->phased(tiny);
  Nlinv nlinv = this->solver(tiny, r.options);
  EXPECT_EQ(nlinv.slices(), 2);
  EXPECT_EQ(nlinv.unknowns().size(), 2 * (7 * 6 + 3 * 5 * 3));
  auto image = this->context().template allocate<cfloat>(tiny.images());
  nlinv.solve(this->fill(own, tiny), image.view());
  const Vector64 x = r.newton_step(tiny.factor(), tiny.data);
  EXPECT_LT(testing::relative_error(this->unknowns(nlinv), x, x.size()), 1e-4);
}

// The reference itself: its model is what it says, sum_m turn F_m m c by central differences, and back() is the adjoint
// of forward().
TEST(NlinvSlicesReferenceTest, DerivativeAndAdjoint) {
  const TinyScan tiny(3);
  const NlinvReference& r = tiny.reference;
  const auto draw = [](unsigned seed, std::size_t n) {
    const auto values = Random(seed).normals(static_cast<std::int64_t>(n));
    return Vector64(values.begin(), values.end());
  };
  const Vector64 x = draw(2, r.unknowns()), p = draw(3, r.unknowns()), y = draw(4, tiny.data.size());
  Vector64 above = x, below = x;
  for (std::size_t i = 0; i < x.size(); ++i) above[i] += p[i], below[i] -= p[i];
  const Vector64 up = r.forward(r.image_of(above)), down = r.forward(r.image_of(below)),
                 change = r.forward(r.derivative(x, p));
  for (std::size_t i = 0; i < up.size(); ++i)  // bilinear: of any width
    EXPECT_LT(std::abs((up[i] - down[i]) / 2.0 - change[i]), 1e-9 * (1 + std::abs(change[i])));
  Vector64 weighted = y;
  for (std::size_t i = 0; i < y.size(); ++i) weighted[i] *= static_cast<double>(r.weights[i / r.coils]);
  const cdouble one = testing::inner(weighted, change), other = testing::inner(r.adjoint(x, r.back(y)), p);
  EXPECT_LT(std::abs(one - other), 1e-10 * std::abs(one));
}

// The same steps in float64, of three frames in the same memory: on CUDA those after the first are recorded and
// launched as they were recorded. The bound is that of NlinvTest.FramesFollowTheirDefinition.
TYPED_TEST(NlinvSlicesTest, FramesFollowTheirDefinition) {
  Context& context = this->context();
  for (const std::size_t slices : {2, 3}) {
    const TinyScan first(slices);
    const NlinvReference& r = first.reference;
    PhasedFrame own = this->phased(first);
    Nlinv nlinv = this->solver(first, r.options);
    auto image = context.template allocate<cfloat>(first.images());
    const double factor = first.factor();
    Vector64 x;
    for (const unsigned seed : {1U, 7U, 9U}) {
      const TinyScan tiny(slices, seed, seed == 9U ? 90 : 75);
      const NlinvResult result = nlinv.solve(this->fill(own, tiny), image.view());
      const Vector64 begin =
          x.empty() ? r.solve(r.start(), r.start(), factor, tiny.data) : x;  // the first of two passes
      x = tiny.reference.solve(begin, r.damped(begin), factor, tiny.data);
      EXPECT_LT(testing::relative_error(this->unknowns(nlinv), x, x.size()), 2e-3) << slices << seed;
      const Vector64 picture = tiny.reference.picture(x, factor);
      EXPECT_LT(testing::relative_error(this->download(image), picture, picture.size()), 2e-3) << slices << seed;
      Vector64 left = tiny.reference.forward(tiny.reference.image_of(x));
      for (std::size_t i = 0; i < left.size(); ++i) left[i] = left[i] / factor - tiny.data[i];
      const double residual = std::sqrt(tiny.reference.power(left) / tiny.reference.power(tiny.data));
      EXPECT_NEAR(result.residual, residual, 2e-3);
      EXPECT_GT(residual, 1e-2);  // otherwise the line above tests nothing
    }
    // The middle of the images; the same bits again.
    Nlinv other = this->solver(first, r.options);
    auto again = context.template allocate<cfloat>(first.images()),
         middle = context.template allocate<cfloat>({first.slices(), 3, 4});
    nlinv.reset();
    nlinv.solve(this->fill(own, first), image.view());
    other.solve(this->fill(own, first), again.view());
    EXPECT_EQ(this->download(again), this->download(image));
    other.reset();
    other.solve(this->fill(own, first), middle.view());
    const std::vector<cfloat> whole = this->download(image), cut = this->download(middle);
    for (std::size_t m = 0; m < slices; ++m)
      for (std::size_t y = 0; y < 3; ++y)
        for (std::size_t v = 0; v < 4; ++v)
          EXPECT_EQ(cut[(m * 3 + y) * 4 + v], whole[(m * r.ny + y + 2) * r.nx + v + 1]);
  }
}

// Slices whose numbers have the same positions are told apart by their phases alone, so that each is solved as if it
// were alone: here all slices are one, whose image is that of one slice. What fp32 leaves.
TYPED_TEST(NlinvSlicesTest, PhasesThatTellAllSeparateTheSlices) {
  Context& context = this->context();
  TinyScan one(1, 3, 60);
  PhasedFrame alone = this->phased(one);
  Nlinv single = this->solver(one, one.reference.options);
  auto expected = context.template allocate<cfloat>(one.image());
  single.solve(this->fill(alone, one), expected.view());

  TinyScan two(2, 3, 120);
  for (std::size_t s = 0; s < 120; ++s) {  // of numbers by turns
    for (std::size_t a = 0; a < 2; ++a) two.reference.coordinates[2 * s + a] = one.reference.coordinates[s / 2 * 2 + a];
    two.reference.weights[s] = one.reference.weights[s / 2];
    const cdouble sum = two.reference.turns[2 * s] + two.reference.turns[2 * s + 1];
    for (std::size_t c = 0; c < 3; ++c) two.data[s * 3 + c] = sum * one.data[s / 2 * 3 + c];
  }
  PhasedFrame own = this->phased(two);
  Nlinv nlinv = this->solver(two, two.reference.options);
  auto image = context.template allocate<cfloat>(two.images());
  nlinv.solve(this->fill(own, two), image.view());
  const std::vector<cfloat> single_image = this->download(expected), images = this->download(image);
  const Vector64 truth(single_image.begin(), single_image.end());
  for (std::size_t m = 0; m < 2; ++m)
    EXPECT_LT(testing::relative_error(images.data() + m * truth.size(), truth, truth.size()), 2e-3) << m;
}

TYPED_TEST(NlinvSlicesTest, RefusesWhatDoesNotFit) {
  Context& context = this->context();
  EXPECT_THROW(Nlinv(context, 2, {8, 8}, {16, 16}, {}, 0), std::invalid_argument);
  EXPECT_THROW(Nlinv(context, 2, {8, 8}, {16, 16}, {}, 17), std::invalid_argument);
  const std::vector<cfloat> phases(6, 1.0f);
  EXPECT_THROW(PhasedFrame(context, {phases.data(), {2, 3}}, 2, {8, 8}, 1e-3), std::invalid_argument);
  EXPECT_THROW(PhasedFrame(context, {phases.data(), {2, 2}}, 2, {8, 8, 8}, 1e-3), std::invalid_argument);
  const TinyScan tiny(2);
  PhasedFrame own = this->phased(tiny);
  const NlinvFrame frame = this->fill(own, tiny);
  Nlinv nlinv = this->solver(tiny, tiny.reference.options);
  for (const Shape& wrong : {Shape{7, 6}, Shape{3, 7, 6}, Shape{2, 8, 6}, Shape{1, 2, 7, 6}}) {
    auto image = context.template allocate<cfloat>(wrong);
    EXPECT_THROW(nlinv.solve(frame, image.view()), std::invalid_argument) << wrong.text();
  }
  Nlinv other(context, tiny.coils(), tiny.image(), tiny.field(), tiny.reference.options);
  auto image = context.template allocate<cfloat>(tiny.image());
  EXPECT_THROW(other.solve(frame, image.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
