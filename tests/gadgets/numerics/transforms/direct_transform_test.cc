// The exact transform against the float64 sum by its definition.
#include "gadgets/numerics/transforms/exact/direct_transform.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/resources.h"
#include "tests/support/thread_digests.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

/// The accuracy asked of the transform. Exact: factors are rounded to fp32 (3e-8 each, three factors) or to 22 bits,
/// sums in fp32 of 256 samples, rounded towards zero (half of 2^-23 at each of 48 steps, which grow as their root), and
/// of some thousand such groups: 2e-6 in all. Fast: both factors are rounded to 11 bits, 2.1e-4 each where all
/// mantissas are as likely, and 2.9e-4 together.
constexpr double kTolerance = 5e-6;
constexpr double tolerance(Precision precision) { return precision == Precision::exact ? kTolerance : 4e-4; }
constexpr Precision kPrecisions[] = {Precision::exact, Precision::fast};
const char* name(Precision precision) { return precision == Precision::exact ? "exact" : "fast"; }

struct Scan {
  std::vector<double> k;
  std::vector<cfloat> d;
  std::int64_t n, coils;
};
Scan make_scan(std::size_t dims, std::int64_t n, std::int64_t coils, unsigned seed) {
  Random random(seed);
  Scan scan{{}, random.normals(n * coils), n, coils};
  for (std::size_t i = 0; i < static_cast<std::size_t>(n) * dims; ++i) scan.k.push_back(random.uniform(-0.5, 0.5));
  for (std::size_t i = 0; i < dims; ++i) scan.k[i] = 0;  // the centre, an edge, and beyond it
  if (n > 2) scan.k[dims] = -0.5, scan.k[2 * dims] = 0.75;
  return scan;
}
Shape with_coils(std::int64_t coils, const Shape& item) {
  Shape shape{coils};
  for (auto e : item) shape.push_back(e);
  return shape;
}

template <class B>
class DirectTransformTest : public testing::OnBackend<B> {
 protected:
  std::vector<cfloat> adjoint(const Scan& scan, const Shape& image, const std::vector<std::int64_t>& cuts = {},
                              VoxelBasis basis = VoxelBasis::delta, Precision precision = Precision::exact) {
    Context& context = this->context();
    const auto dims = static_cast<std::int64_t>(image.rank());
    DirectAdjoint sum(context, image, scan.coils, basis, precision);
    std::int64_t at = 0;
    const auto add = [&](std::int64_t end) {
      const auto samples = context.template upload<cfloat>({scan.d.data() + at * scan.coils, {end - at, scan.coils}});
      sum.add(context, {scan.k.data() + at * dims, {end - at, dims}}, samples.cview());
      at = end;
    };
    for (const auto cut : cuts) add(cut);
    add(scan.n);
    EXPECT_EQ(sum.samples(), scan.n);
    auto out = context.template allocate<cfloat>(with_coils(scan.coils, image));
    sum.get(context, out.view());
    sampled_error_ = sum.sampled_error(context, out.view());
    return this->download(out);
  }

  std::optional<double> sampled_error_;  // of the last adjoint()
};
TYPED_TEST_SUITE(DirectTransformTest, Backends, testing::BackendNames);

TYPED_TEST(DirectTransformTest, EverySizeAndNumberOfCoils) {
  unsigned seed = 1;
  for (const Shape& size : {Shape{1, 1}, Shape{2, 3}, Shape{16, 16}, Shape{17, 31}, Shape{40, 33}, Shape{1, 1, 1},
                            Shape{4, 6, 8}, Shape{5, 7, 9}, Shape{8, 1, 11}, Shape{13, 18, 15}})
    for (std::int64_t coils : {1, 3, 8}) {
      const Scan scan = make_scan(size.rank(), 300, coils, seed++);
      const auto truth = testing::direct_adjoint(scan.k, scan.d, {}, coils, size);
      for (const Precision precision : kPrecisions) {
        if (precision == Precision::fast && size.size() < 100) continue;  // a few voxels may do worse than the mean
        const auto got = this->adjoint(scan, size, {}, VoxelBasis::delta, precision);
        EXPECT_LT(testing::relative_error(got, truth, got.size()), tolerance(precision))
            << size.text() << " x " << coils << ", " << name(precision);
      }
    }
}

TYPED_TEST(DirectTransformTest, ManySamplesAtSomeVoxels) {
  for (const Shape& size : {Shape{193, 211}, Shape{65, 63, 64}, Shape{40, 24, 150}}) {
    const Scan scan = make_scan(size.rank(), testing::fewer(6000, 600), size.rank() == 2 ? 8 : 1, 31);
    Random random(5);
    std::vector<std::int64_t> chosen;
    for (int i = 0; i < 300; ++i)
      chosen.push_back(static_cast<std::int64_t>(random.uniform(0, 0.999999) * static_cast<double>(size.size())));
    const auto truth = testing::direct_adjoint(scan.k, scan.d, {}, scan.coils, size, chosen);
    for (const Precision precision : kPrecisions) {
      const auto got = this->adjoint(scan, size, {}, VoxelBasis::delta, precision);
      std::vector<cfloat> some;
      for (std::int64_t c = 0; c < scan.coils; ++c)
        for (auto v : chosen) some.push_back(got[static_cast<std::size_t>(c * size.size() + v)]);
      EXPECT_LT(testing::relative_error(some, truth, some.size()), tolerance(precision))
          << size.text() << ", " << name(precision);
    }
  }
}

/// More samples than are worked on at a time give the same bits as in parts.
TYPED_TEST(DirectTransformTest, MoreSamplesThanAreWorkedOnAtATime) {
  const Shape size{12, 11};
  const Scan scan = make_scan(2, 140001, 1, 33);
  const auto got = this->adjoint(scan, size);
  const auto truth = testing::direct_adjoint(scan.k, scan.d, {}, 1, size);
  EXPECT_LT(testing::relative_error(got, truth, got.size()), kTolerance);
  const auto parts = this->adjoint(scan, size, {65535, 65793});
  EXPECT_EQ(std::memcmp(parts.data(), got.data(), got.size() * sizeof(cfloat)), 0);
}

TYPED_TEST(DirectTransformTest, SaysWhatSpeedCosts) {
  for (const Shape& size : {Shape{45, 50}, Shape{12, 13, 14}}) {
    const Scan scan = make_scan(size.rank(), 3000, 2, 36);
    const auto truth = testing::direct_adjoint(scan.k, scan.d, {}, 2, size);
    const auto exact = this->adjoint(scan, size, {700});
    EXPECT_FALSE(this->sampled_error_);
    const auto fast = this->adjoint(scan, size, {700}, VoxelBasis::delta, Precision::fast);
    if (!this->context().cuda()) {
      EXPECT_FALSE(this->sampled_error_);
      EXPECT_EQ(fast, exact);
      continue;
    }
    ASSERT_TRUE(this->sampled_error_);
    const double error = testing::relative_error(fast, truth, fast.size());
    EXPECT_GT(error, 1e-4);  // else there would be no error to report
    EXPECT_NEAR(*this->sampled_error_ / error, 1, 0.3);
  }
}

TYPED_TEST(DirectTransformTest, PartsGiveTheSameBits) {
  for (const Shape& size : {Shape{30, 27}, Shape{9, 10, 12}}) {
    const Scan scan = make_scan(size.rank(), 5000, 3, 41);
    for (const Precision precision : kPrecisions) {
      const auto whole = this->adjoint(scan, size, {}, VoxelBasis::box, precision);
      for (const auto& cuts : {std::vector<std::int64_t>{1}, {255, 256, 257}, {5, 600, 600, 2304, 4999}}) {
        const auto parts = this->adjoint(scan, size, cuts, VoxelBasis::box, precision);
        EXPECT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(cfloat)), 0)
            << size.text() << ", " << name(precision);
      }
    }
  }
}

// Fewer columns are shared differently among a device's multiprocessors. Also with fewer samples than threads that
// share them, and with sums that get more samples.
TYPED_TEST(DirectTransformTest, PartsOfAnImageHaveTheBitsOfTheWhole) {
  Context& context = this->context();
  const Shape size{149, 61, 19};
  for (const std::int64_t samples : {300, 1700})
    for (const Precision precision : kPrecisions) {
      const Scan scan = make_scan(3, samples, 1, 43);
      const auto whole = this->adjoint(scan, size, {}, VoxelBasis::delta, precision);
      for (const int count : {2, 5}) {
        auto image = context.template zeros<cfloat>(with_coils(1, size));
        for (int index = 0; index < count; ++index) {
          DirectAdjoint part(context, size, 1, VoxelBasis::delta, precision, {index, count});
          for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 280}, {280, samples}}) {
            const auto d = context.template upload<cfloat>({scan.d.data() + begin, {end - begin, 1}});
            part.add(context, {scan.k.data() + begin * 3, {end - begin, 3}}, d.cview());
          }
          part.get(context, image.view());
        }
        const auto parts = this->download(image);
        EXPECT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(cfloat)), 0)
            << count << " parts, " << samples << " samples, " << name(precision);
      }
    }
}

TYPED_TEST(DirectTransformTest, MayBeReadBeforeTheEnd) {
  Context& context = this->context();
  const Shape size{12, 11};
  const Scan scan = make_scan(2, 500, 2, 51);
  DirectAdjoint sum(context, size, 2);
  auto out = context.template allocate<cfloat>({2, 12, 11});
  sum.get(context, out.view());
  for (const cfloat v : this->download(out)) EXPECT_EQ(v, cfloat());
  for (std::int64_t at = 0; at < 500; at += 100) {
    const auto samples = context.template upload<cfloat>({scan.d.data() + at * 2, {100, 2}});
    sum.add(context, {scan.k.data() + at * 2, {100, 2}}, samples.cview());
    sum.get(context, out.view());
    const Scan part{{scan.k.begin(), scan.k.begin() + 2 * (at + 100)},
                    {scan.d.begin(), scan.d.begin() + 2 * (at + 100)},
                    at + 100,
                    2};
    const auto got = this->download(out), expected = this->adjoint(part, size);
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(cfloat)), 0);
  }
}

TYPED_TEST(DirectTransformTest, BoxVoxelsBlurByTheirTransform) {
  const Shape size{9, 12, 10};
  Scan scan = make_scan(3, 200, 2, 61);
  const auto got = this->adjoint(scan, size, {}, VoxelBasis::box);
  for (std::size_t s = 0; s < 200; ++s) {
    double factor = 1;
    for (std::size_t a = 0; a < 3; ++a)
      if (const double x = std::numbers::pi * scan.k[3 * s + a]; x != 0) factor *= std::sin(x) / x;
    for (std::size_t c = 0; c < 2; ++c) scan.d[2 * s + c] *= static_cast<float>(factor);
  }
  const auto truth = testing::direct_adjoint(scan.k, scan.d, {}, 2, size);
  EXPECT_LT(testing::relative_error(got, truth, got.size()), kTolerance);
}

TYPED_TEST(DirectTransformTest, PositionsThatAreNotFiniteCountNothing) {
  const Shape size{14, 15};
  Scan scan = make_scan(2, 150, 1, 71);
  scan.k[20] = std::numeric_limits<double>::quiet_NaN();
  scan.k[31] = std::numeric_limits<double>::infinity();
  scan.d[10] = {std::numeric_limits<float>::quiet_NaN(), 1};
  const auto got = this->adjoint(scan, size);
  for (const std::size_t s : {10, 15}) scan.k[2 * s] = scan.k[2 * s + 1] = 0, scan.d[s] = 0;
  const auto truth = testing::direct_adjoint(scan.k, scan.d, {}, 1, size);
  EXPECT_LT(testing::relative_error(got, truth, got.size()), kTolerance);
}

TYPED_TEST(DirectTransformTest, WeightsMultiplyTheSamples) {
  Context& context = this->context();
  const Shape size{13, 12};
  const Scan scan = make_scan(2, 300, 2, 76);
  Random random(77);
  std::vector<float> weights;
  for (int s = 0; s < 300; ++s) weights.push_back(static_cast<float>(random.uniform(-1, 2)));
  DirectAdjoint sum(context, size, 2);
  for (std::int64_t at : {0, 100, 200}) {
    const auto samples = context.template upload<cfloat>({scan.d.data() + at * 2, {100, 2}});
    sum.add(context, {scan.k.data() + at * 2, {100, 2}}, samples.cview(), {weights.data() + at, {100}});
  }
  auto out = context.template allocate<cfloat>({2, 13, 12});
  sum.get(context, out.view());
  const auto got = this->download(out);
  const auto truth = testing::direct_adjoint(scan.k, scan.d, weights, 2, size);
  EXPECT_LT(testing::relative_error(got, truth, got.size()), kTolerance);
}

/// Large and small numbers, and both at once: nothing overflows, and large ones do not drown the rest.
TYPED_TEST(DirectTransformTest, NumbersOfAnyMagnitude) {
  const Shape size{20, 21};
  for (const Precision precision : kPrecisions) {
    for (const double scale : {0x1p40, 0x1p-40, 0x1p-100}) {
      Scan scan = make_scan(2, 400, 2, 81);
      for (auto& v : scan.d) v *= static_cast<float>(scale);
      const auto truth = testing::direct_adjoint(scan.k, scan.d, {}, 2, size);
      const auto got = this->adjoint(scan, size, {}, VoxelBasis::delta, precision);
      EXPECT_LT(testing::relative_error(got, truth, got.size()), tolerance(precision)) << scale;
    }
    Scan scan = make_scan(2, 400, 2, 82);
    for (std::size_t i = 0; i < scan.d.size(); i += 7) scan.d[i] *= 1e5f;
    const auto truth = testing::direct_adjoint(scan.k, scan.d, {}, 2, size);
    const auto got = this->adjoint(scan, size, {}, VoxelBasis::delta, precision);
    EXPECT_LT(testing::relative_error(got, truth, got.size()), tolerance(precision));
  }
}

TYPED_TEST(DirectTransformTest, VoxelsAnywhere) {
  Context& context = this->context();
  const Scan scan = make_scan(3, 300, 2, 91);
  Random random(92);
  std::vector<double> voxels;
  for (int i = 0; i < 3 * 50; ++i) voxels.push_back(random.uniform(-40, 40));
  const auto samples = this->upload(scan.d, {300, 2});
  auto out = context.template allocate<cfloat>({2, 50});
  direct_adjoint_at(context, {scan.k.data(), {300, 3}}, samples.cview(), {voxels.data(), {50, 3}}, VoxelBasis::delta,
                    out.view());
  const auto got = this->download(out);
  std::vector<cdouble> truth;
  for (std::size_t c = 0; c < 2; ++c)
    for (std::size_t v = 0; v < 50; ++v) {
      cdouble sum = 0;
      for (std::size_t s = 0; s < 300; ++s) {
        double turns = 0;
        for (std::size_t a = 0; a < 3; ++a) turns += scan.k[3 * s + a] * voxels[3 * v + a];
        sum += cdouble(scan.d[2 * s + c]) * std::polar(1.0, 2 * std::numbers::pi * turns);
      }
      truth.push_back(sum);
    }
  EXPECT_LT(testing::relative_error(got, truth, got.size()), 1e-6);
}

TYPED_TEST(DirectTransformTest, PointSpreadIsTheSumOverLags) {
  Context& context = this->context();
  for (const Shape& size : {Shape{9, 12}, Shape{16, 11}, Shape{5, 6, 7}, Shape{8, 5, 4}}) {
    const std::size_t dims = size.rank();
    const Scan scan = make_scan(dims, 400, 1, 101);
    Random random(102);
    std::vector<float> weights;
    for (int s = 0; s < 400; ++s) weights.push_back(static_cast<float>(random.uniform(0.1, 2)));
    Shape doubled;
    for (auto e : size) doubled.push_back(2 * e);
    auto q = context.template allocate<cfloat>(doubled);
    const auto spread = [&](Precision precision) {
      point_spread(context, {scan.k.data(), {400, static_cast<std::int64_t>(dims)}}, {weights.data(), {400}}, size,
                   VoxelBasis::box, q.view(), precision);
      return this->download(q);
    };
    const auto got = spread(Precision::exact);
    std::vector<cdouble> truth(got.size());
    for (std::int64_t i = 0; i < doubled.size(); ++i) {
      std::int64_t rest = i;
      double lag[3];
      bool edge = false;
      for (std::size_t a = dims; a-- > 0; rest /= doubled[a]) {
        const std::int64_t at = rest % doubled[a];
        lag[dims - 1 - a] = static_cast<double>(at < size[a] ? at : at - doubled[a]);  // component 0 is the last axis
        edge = edge || at == size[a];
      }
      for (std::size_t s = 0; s < 400 && !edge; ++s) {
        double turns = 0, basis = 1;
        for (std::size_t a = 0; a < dims; ++a) {
          const double k = scan.k[s * dims + a];
          turns += k * lag[a];
          if (k != 0) basis *= std::sin(std::numbers::pi * k) / (std::numbers::pi * k);
        }
        truth[static_cast<std::size_t>(i)] +=
            static_cast<double>(weights[s]) * basis * basis * std::polar(1.0, 2 * std::numbers::pi * turns);
      }
      if (edge) {
        EXPECT_EQ(got[static_cast<std::size_t>(i)], cfloat());
      }
    }
    EXPECT_LT(testing::relative_error(got, truth, got.size()), kTolerance) << size.text();
    EXPECT_LT(testing::relative_error(spread(Precision::fast), truth, got.size()), tolerance(Precision::fast));
  }
}

TYPED_TEST(DirectTransformTest, BadArguments) {
  Context& context = this->context();
  EXPECT_THROW(DirectAdjoint(context, {8}, 1), std::invalid_argument);
  EXPECT_THROW(DirectAdjoint(context, {8, 0}, 1), std::invalid_argument);
  EXPECT_THROW(DirectAdjoint(context, {8, 8}, 0), std::invalid_argument);
  DirectAdjoint sum(context, {8, 8}, 2);
  const std::vector<double> k(6, 0.1);
  auto samples = context.template zeros<cfloat>({3, 2}), wrong = context.template zeros<cfloat>({3, 1});
  auto image = context.template zeros<cfloat>({1, 8, 8});
  EXPECT_THROW(sum.add(context, {k.data(), {3, 2}}, wrong.cview()), std::invalid_argument);
  EXPECT_THROW(sum.add(context, {k.data(), {2, 3}}, samples.cview()), std::invalid_argument);
  EXPECT_THROW(sum.get(context, image.view()), std::invalid_argument);
  EXPECT_THROW(sum.sampled_error(context, image.view()), std::invalid_argument);
  EXPECT_THROW(point_spread(context, {k.data(), {3, 2}}, {}, {8, 8}, VoxelBasis::delta, image.view()),
               std::invalid_argument);
}

TEST(DirectTransformThreads, SameBitsForAnyNumberOfThreads) {
  testing::expect_same_bits(2, [](Context& context, const testing::NoteBits& note) {
    for (const Shape& size : {Shape{45, 50}, Shape{12, 13, 14}}) {
      const Scan scan = make_scan(size.rank(), 3000, 3, 111);
      DirectAdjoint sum(context, size, 3);
      const auto samples = context.upload<cfloat>({scan.d.data(), {3000, 3}});
      sum.add(context, {scan.k.data(), {3000, static_cast<std::int64_t>(size.rank())}}, samples.view());
      auto out = context.allocate<cfloat>(with_coils(3, size));
      sum.get(context, out.view());
      note(out.data(), out.size(), size.text());
    }
  });
}

}  // namespace
}  // namespace echotrain::numerics
