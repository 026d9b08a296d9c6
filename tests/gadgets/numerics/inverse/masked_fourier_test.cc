// Masked Fourier transforms against direct sums in float64.
#include "gadgets/numerics/inverse/encoding/masked_fourier.h"

#include <algorithm>
#include <numbers>
#include <string>

#include "gadgets/numerics/core/memory_budget.h"
#include "tests/support/direct_sum.h"
#include "tests/support/resources.h"
#include "tests/support/solver_problem.h"
#include "tests/support/thread_digests.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::position;
using testing::Random;
using testing::with_batch;

constexpr double kTolerance = 1e-5;  // of operations (CONTRIBUTING.md)
constexpr double kRounding = 1e-6;   // of fp32 transforms of some hundred points, 2e-7, with room

enum class Pattern { full, every_third, elliptic, random, weighted };

struct GridCase {
  Shape encoded, padded, image;
  Pattern pattern;
  bool lines;
};
std::string text_of(const GridCase& c) {
  return c.encoded.text() + " " + c.padded.text() + " " + c.image.text() + (c.lines ? " lines" : " points");
}

Shape without_last(const Shape& shape) {
  Shape out;
  for (std::size_t a = 0; a + 1 < shape.rank(); ++a) out.push_back(shape[a]);
  return out;
}

std::vector<float> mask_of(const GridCase& c) {
  const Shape shape = c.lines ? without_last(c.encoded) : c.encoded;
  Random random(5);
  std::vector<float> mask;
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    double radius = 0;
    const auto at = position(shape, i);
    for (std::size_t a = 0; a < shape.rank(); ++a)
      radius += std::pow(
          (static_cast<double>(at[a]) - static_cast<double>(shape[a]) / 2) / (0.5 * static_cast<double>(shape[a])), 2);
    const double chance = random.uniform(0, 1);
    mask.push_back(c.pattern == Pattern::full          ? 1.0f
                   : c.pattern == Pattern::every_third ? (i % 3 == 1 || radius < 0.05 ? 1.0f : 0.0f)
                   : c.pattern == Pattern::elliptic    ? (radius <= 0.8 ? 1.0f : 0.0f)
                   : c.pattern == Pattern::random      ? (chance < 0.4 ? 1.0f : 0.0f)
                   : chance < 0.3                      ? 0.0f
                                                       : static_cast<float>(chance));
  }
  return mask;
}

/// Lines of the last axis that are not zero-filled leave out a transform on the CPU; the others do not.
std::vector<GridCase> grid_cases() {
  return {
      {{12, 10}, {12, 10}, {12, 10}, Pattern::every_third, true},
      {{11, 9}, {11, 9}, {11, 9}, Pattern::every_third, true},
      {{12, 16}, {12, 16}, {12, 7}, Pattern::every_third, true},  // oversampled readouts
      {{10, 12}, {15, 12}, {9, 11}, Pattern::weighted, true},     // zero-filled and cut
      {{10, 9}, {12, 16}, {12, 16}, Pattern::random, true},       // zero-filled readouts
      {{10, 9}, {14, 16}, {13, 11}, Pattern::random, false},      // partial echoes, random points
      {{16, 14}, {9, 8}, {7, 6}, Pattern::weighted, false},       // larger voxels than acquired
      {{15, 40}, {8, 37}, {8, 37}, Pattern::every_third, true},
      {{1, 8}, {1, 8}, {1, 5}, Pattern::full, true},
      {{5, 6, 7}, {5, 6, 7}, {5, 6, 7}, Pattern::elliptic, true},
      {{6, 7, 12}, {8, 8, 12}, {5, 7, 9}, Pattern::random, true},
      {{4, 6, 10}, {6, 8, 12}, {5, 7, 6}, Pattern::weighted, false},
      {{1, 6, 5}, {1, 6, 5}, {1, 6, 5}, Pattern::random, false},
  };
}

/// F, written out: samples times voxels, and W as it must be.
struct WrittenOut {
  Eigen::MatrixXcd f;
  Eigen::VectorXd w;
};
WrittenOut written_out(const GridCase& c) {
  const std::vector<float> mask = mask_of(c);
  const double points = static_cast<double>(c.padded.size()), encoded = static_cast<double>(c.encoded.size());
  WrittenOut out{Eigen::MatrixXcd::Zero(c.encoded.size(), c.image.size()), Eigen::VectorXd::Zero(c.encoded.size())};
  for (std::int64_t s = 0; s < c.encoded.size(); ++s) {
    const auto weight =
        static_cast<double>(mask[static_cast<std::size_t>(c.lines ? s / c.encoded[c.encoded.rank() - 1] : s)]);
    const auto k = position(c.encoded, s);
    bool there = weight > 0;
    for (std::size_t a = 0; a < k.size(); ++a) {
      const std::int64_t at = k[a] - c.encoded[a] / 2;
      there = there && 2 * at >= -c.padded[a] && 2 * at < c.padded[a];
    }
    if (!there) continue;
    out.w[s] = weight * points / (encoded * encoded);
    for (std::int64_t v = 0; v < c.image.size(); ++v) {
      const auto r = position(c.image, v);
      double turns = 0;
      for (std::size_t a = 0; a < k.size(); ++a)
        turns +=
            static_cast<double>((k[a] - c.encoded[a] / 2) * (r[a] - c.image[a] / 2)) / static_cast<double>(c.padded[a]);
      out.f(s, v) = std::polar(encoded / points, -2 * std::numbers::pi * turns);
    }
  }
  return out;
}

/// Columns are the items of a batch.
Eigen::MatrixXcd items(const std::vector<cfloat>& values, std::int64_t batch) {
  return Eigen::Map<const Eigen::MatrixXcf>(values.data(), static_cast<std::int64_t>(values.size()) / batch, batch)
      .cast<cdouble>();
}
double relative(const Eigen::MatrixXcd& got, const Eigen::MatrixXcd& truth) {
  return truth.norm() == 0 ? got.norm() : (got - truth).norm() / truth.norm();
}

template <class B>
class MaskedFourierTest : public testing::OnBackend<B> {
 protected:
  std::shared_ptr<const MaskedFourier> make(const GridCase& c) {
    const std::vector<float> mask = mask_of(c);
    const Shape shape = c.lines ? without_last(c.encoded) : c.encoded;
    return MaskedFourier::make(this->context(), {mask.data(), shape}, c.encoded, c.padded, c.image);
  }
  std::vector<cfloat> forward(const SamplingOperator& op, const std::vector<cfloat>& x, std::int64_t batch) {
    const auto from = this->upload(x, with_batch(batch, op.image()));
    auto to = this->context().template allocate<cfloat>(op.samples(batch));
    op.forward(this->context(), from.cview(), to.view());
    return this->download(to);
  }
  std::vector<cfloat> adjoint(const SamplingOperator& op, const std::vector<cfloat>& d, std::int64_t batch) {
    const auto from = this->upload(d, op.samples(batch));
    auto to = this->context().template allocate<cfloat>(with_batch(batch, op.image()));
    op.adjoint(this->context(), from.cview(), to.view());
    return this->download(to);
  }
  std::vector<cfloat> normal(const NormalOperator& op, const std::vector<cfloat>& x, std::int64_t batch) {
    const auto from = this->upload(x, with_batch(batch, op.image()));
    auto to = this->context().template allocate<cfloat>(from.shape());
    op.apply(this->context(), from.cview(), to.view());
    return this->download(to);
  }
};
TYPED_TEST_SUITE(MaskedFourierTest, Backends, testing::BackendNames);

TYPED_TEST(MaskedFourierTest, IsTheDirectSum) {
  for (const GridCase& c : grid_cases()) {
    SCOPED_TRACE(text_of(c));
    const auto op = this->make(c);
    const WrittenOut truth = written_out(c);
    const auto x = Random(1).normals(2 * c.image.size()), d = Random(2).normals(2 * c.encoded.size());
    EXPECT_LT(relative(items(this->forward(*op, x, 2), 2), truth.f * items(x, 2)), kTolerance);
    EXPECT_LT(relative(items(this->adjoint(*op, d, 2), 2), truth.f.adjoint() * truth.w.asDiagonal() * items(d, 2)),
              kTolerance);
    EXPECT_LT(relative(items(this->normal(*op->normal(), x, 2), 2),
                       truth.f.adjoint() * truth.w.asDiagonal() * truth.f * items(x, 2)),
              kTolerance);
  }
}

TYPED_TEST(MaskedFourierTest, DirectionsAreAdjoint) {
  for (const GridCase& c : grid_cases()) {
    SCOPED_TRACE(text_of(c));
    const auto op = this->make(c);
    const Eigen::VectorXd w = written_out(c).w;
    const auto x = Random(3).normals(c.image.size()), d = Random(4).normals(c.encoded.size());
    const auto fx = this->forward(*op, x, 1), fd = this->adjoint(*op, d, 1);
    const cdouble there = items(fx, 1).col(0).dot(w.asDiagonal() * items(d, 1).col(0)),
                  here = items(x, 1).col(0).dot(items(fd, 1).col(0));
    const double size = items(fx, 1).norm() * (w.asDiagonal() * items(d, 1)).norm();
    EXPECT_LE(std::abs(there - here), kRounding * size);
    EXPECT_LT(relative(items(this->normal(*op->normal(), x, 1), 1), items(this->adjoint(*op, fx, 1), 1)), kRounding);
  }
}

TYPED_TEST(MaskedFourierTest, WholeKspaceGivesTheImageBack) {
  for (const bool lines : {true, false}) {
    const GridCase c{{14, 15}, {14, 15}, {10, 12}, Pattern::full, lines};
    const auto op = this->make(c);
    const auto x = Random(6).normals(c.image.size());
    EXPECT_LT(relative(items(this->adjoint(*op, this->forward(*op, x, 1), 1), 1), items(x, 1)), kRounding);
    EXPECT_LT(relative(items(this->normal(*op->normal(), x, 1), 1), items(x, 1)), kRounding);
  }
  // An object of amplitude 1 keeps it, with finer voxels, too: its middle sample is the mean over the field of view.
  const GridCase fine{{8, 8}, {12, 12}, {12, 12}, Pattern::full, true};
  const std::vector<cfloat> ones(144, 1.0f);
  EXPECT_NEAR(std::abs(this->forward(*this->make(fine), ones, 1)[4 * 8 + 4]), 64, 1e-4);
  EXPECT_NEAR(std::abs(this->adjoint(*this->make(fine), this->forward(*this->make(fine), ones, 1), 1)[70]), 1, 1e-5);
}

TYPED_TEST(MaskedFourierTest, WithCoilMaps) {
  for (const GridCase& c : grid_cases()) {
    SCOPED_TRACE(text_of(c));
    const auto normal = this->make(c)->normal();
    const std::int64_t coils = 3, n = c.image.size();
    const auto maps = Random(7).normals(coils * n), x = Random(8).normals(n);
    const WrittenOut out = written_out(c);
    const Eigen::MatrixXcd t = out.f.adjoint() * out.w.asDiagonal() * out.f, s = items(maps, coils);
    Eigen::VectorXcd truth = Eigen::VectorXcd::Zero(n);
    for (std::int64_t i = 0; i < coils; ++i)
      truth += s.col(i).conjugate().asDiagonal() * (t * (s.col(i).asDiagonal() * items(x, 1).col(0)));
    const auto maps_there = this->upload(maps, with_batch(coils, c.image)), x_there = this->upload(x, c.image);
    auto y = this->context().template allocate<cfloat>(c.image);
    normal->apply_sense(this->context(), maps_there.cview(), x_there.cview(), y.view());
    EXPECT_LT(relative(items(this->download(y), 1), truth), kTolerance);
  }
}

// More coils than are worked on at a time: 16 MiB of grids on the CPU (none for whole lines), 256 MiB on CUDA.
TYPED_TEST(MaskedFourierTest, CoilsInParts) {
  const bool cuda = this->context().cuda();
  const std::int64_t coils = cuda ? 20 : 6, nx = 640;
  const Shape image = cuda ? Shape{5, nx, 640} : Shape{nx, 640};
  const std::vector<float> mask(static_cast<std::size_t>(image.size()), 0.5f);
  const auto normal = MaskedFourier::make(this->context(), {mask.data(), image}, image, image, image)->normal();
  // Each coil's map is a number, so that the sum is half of their sum of squares times x.
  std::vector<cfloat> maps;
  float squares = 0;
  for (std::int64_t c = 0; c < coils; ++c) {
    maps.insert(maps.end(), static_cast<std::size_t>(image.size()), cfloat(0, static_cast<float>(c + 1)));
    squares += static_cast<float>((c + 1) * (c + 1));
  }
  ASSERT_GT(coils * image.size() * 8, cuda ? 256 << 20 : 16 << 20);
  const auto x = Random(9).normals(image.size());
  const auto maps_there = this->upload(maps, with_batch(coils, image)), x_there = this->upload(x, image);
  auto y = this->context().template allocate<cfloat>(image);
  normal->apply_sense(this->context(), maps_there.cview(), x_there.cview(), y.view());
  EXPECT_LT(relative(items(this->download(y), 1), 0.5 * static_cast<double>(squares) * items(x, 1)), kRounding);
}

TYPED_TEST(MaskedFourierTest, SaysWhatSolversAsk) {
  for (const GridCase& c : grid_cases()) {
    SCOPED_TRACE(text_of(c));
    const auto normal = this->make(c)->normal();
    const WrittenOut out = written_out(c);
    const Eigen::MatrixXcd t = out.f.adjoint() * out.w.asDiagonal() * out.f;
    EXPECT_EQ(normal->image(), c.image);
    EXPECT_NEAR(normal->diagonal(), t(0, 0).real(), 1e-6);
    const Eigen::VectorXd values = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXcd>(t).eigenvalues();
    EXPECT_LE(values.maxCoeff(), normal->largest() + 1e-6);
    EXPECT_LE(normal->largest(), 1);
    EXPECT_GE(values.minCoeff(), -1e-6);
    // The nearest circulant in the Frobenius norm: f^H T f / voxels for each wave f over the image.
    const auto circulant = this->context().template download<float>(normal->circulant());
    for (std::int64_t k = 0; k < c.image.size(); ++k) {
      const auto frequency = position(c.image, k);
      Eigen::VectorXcd wave(c.image.size());
      for (std::int64_t v = 0; v < wave.size(); ++v) {
        double turns = 0;
        const auto r = position(c.image, v);
        for (std::size_t a = 0; a < r.size(); ++a)
          turns += static_cast<double>(frequency[a] * r[a]) / static_cast<double>(c.image[a]);
        wave[v] = std::polar(1.0, 2 * std::numbers::pi * turns);
      }
      EXPECT_NEAR(circulant.data()[k], wave.dot(t * wave).real() / static_cast<double>(wave.size()), 1e-5) << k;
    }
  }
}

TYPED_TEST(MaskedFourierTest, CopiesAreTheSame) {
  for (const GridCase& c : grid_cases()) {
    const auto normal = this->make(c)->normal();
    const auto x = Random(10).normals(c.image.size());
    const auto here = this->normal(*normal, x, 1);
    Context other(this->context().backend(), test_resources());
    const auto copy = normal->copy(other);
    const auto from = other.upload<cfloat>({x.data(), with_batch(1, c.image)});
    auto to = other.allocate<cfloat>(from.shape());
    copy->apply(other, from.cview(), to.view());
    const auto there = other.download<cfloat>(to.cview());
    EXPECT_EQ(std::vector<cfloat>(there.data(), there.data() + there.size()), here);
    EXPECT_EQ(copy->largest(), normal->largest());
    EXPECT_EQ(copy->diagonal(), normal->diagonal());
    EXPECT_EQ(copy->bytes(), normal->bytes());
  }
}

TYPED_TEST(MaskedFourierTest, RefusesWhatDoesNotFit) {
  Context& context = this->context();
  const std::vector<float> good(60, 1.0f), bad(60, 1.5f);
  const auto make = [&](const std::vector<float>& mask, const Shape& shape, const Shape& encoded, const Shape& padded,
                        const Shape& image) {
    return MaskedFourier::make(context, {mask.data(), shape}, encoded, padded, image);
  };
  const Shape grid{6, 10};
  EXPECT_NO_THROW(make(good, {6}, grid, grid, grid));
  EXPECT_THROW(make(bad, {6}, grid, grid, grid), std::invalid_argument);
  EXPECT_THROW(make(good, {10}, grid, grid, grid), std::invalid_argument);
  EXPECT_THROW(make(good, {6}, grid, grid, {6, 11}), std::invalid_argument);
  EXPECT_THROW(make(good, {6}, grid, {6, 10, 1}, grid), std::invalid_argument);
  EXPECT_THROW(make(good, {}, {6}, {6}, {6}), std::invalid_argument);
  EXPECT_THROW(make(good, {6}, {6, 5000}, {6, 5000}, {6, 10}), std::invalid_argument);
  const auto op = make(good, {6}, grid, grid, {5, 8});
  auto x = context.template zeros<cfloat>({2, 5, 8}), d = context.template zeros<cfloat>({2, 6, 10}),
       one = context.template zeros<cfloat>({1, 6, 10}), plain = context.template zeros<cfloat>({5, 8});
  EXPECT_NO_THROW(op->forward(context, x.cview(), d.view()));
  EXPECT_THROW(op->forward(context, x.cview(), one.view()), std::invalid_argument);
  EXPECT_THROW(op->adjoint(context, one.cview(), x.view()), std::invalid_argument);
  EXPECT_THROW(op->forward(context, d.cview(), d.view()), std::invalid_argument);
  EXPECT_THROW(op->normal()->apply(context, x.cview(), plain.view()), std::invalid_argument);
  EXPECT_THROW(op->normal()->apply_sense(context, x.cview(), x.cview(), plain.view()), std::invalid_argument);
}

TEST(MaskedFourierThreads, DoNotShow) {
  testing::expect_same_bits(6, [](Context& context, const testing::NoteBits& note) {
    for (const GridCase& c : {GridCase{{90, 70}, {90, 70}, {90, 41}, Pattern::every_third, true},
                              GridCase{{20, 30, 33}, {24, 30, 36}, {21, 30, 20}, Pattern::weighted, false}}) {
      const std::vector<float> mask = mask_of(c);
      const auto op = MaskedFourier::make(context, {mask.data(), c.lines ? without_last(c.encoded) : c.encoded},
                                          c.encoded, c.padded, c.image);
      const auto maps = Random(11).normals(3 * c.image.size()), x = Random(12).normals(c.image.size());
      const auto maps_there = context.upload<cfloat>({maps.data(), with_batch(3, c.image)}),
                 x_there = context.upload<cfloat>({x.data(), c.image});
      auto y = context.allocate<cfloat>(c.image), d = context.allocate<cfloat>(op->samples(3)),
           back = context.allocate<cfloat>(maps_there.shape());
      op->normal()->apply_sense(context, maps_there.cview(), x_there.cview(), y.view());
      op->forward(context, maps_there.cview(), d.view());
      op->adjoint(context, d.cview(), back.view());
      note(y.data(), y.size(), "sense " + text_of(c));
      note(d.data(), d.size(), "samples " + text_of(c));
      note(back.data(), back.size(), "images " + text_of(c));
    }
  });
}

}  // namespace
}  // namespace echotrain::numerics
