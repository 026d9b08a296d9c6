// N4's bias field against the one that SimpleITK finds, and against a field that is known.
#include "gadgets/numerics/mri/intensity/bias_field.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stop_token>
#include <vector>

#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::bias_field;
using numerics::BiasFieldFacts;
using numerics::BiasFieldOptions;

/// A head with soft edges in the field of coils on its right; as in tests/bench/peers/n4_by_simpleitk.py.
struct Head {
  std::int64_t nx, ny, nz;
  std::vector<float> image, truth;

  Head(std::int64_t x, std::int64_t y, std::int64_t z) : nx(x), ny(y), nz(z) {
    const auto half = [](std::int64_t i, std::int64_t n) {
      return n > 1 ? (static_cast<double>(i) - static_cast<double>(n) / 2) / (static_cast<double>(n) / 2) : 0;
    };
    const auto inside = [](double distance) { return 1 / (1 + std::exp(distance / 0.03)); };
    for (std::int64_t k = 0; k < nz; ++k)
      for (std::int64_t j = 0; j < ny; ++j)
        for (std::int64_t i = 0; i < nx; ++i) {
          const double u = half(i, nx), v = half(j, ny), w = half(k, nz);
          const double r = std::hypot(u / 0.8, v / 0.9, w / 1.2), angle = std::atan2(v, u);
          const double tissue =
              0.6 * inside(r - 1) + 0.25 * inside(r - 0.8 - 0.07 * std::sin(7 * angle)) - 0.5 * inside(r - 0.25);
          const double field = std::exp(0.6 * u - 0.35 * v + 0.45 * u * u - 0.4 * u * v + 0.35 * v * v + 0.3 * w);
          truth.push_back(static_cast<float>(field));
          image.push_back(static_cast<float>(tissue * field));
        }
  }
  BiasFieldFacts find(numerics::Context& context, std::vector<float>& to, const BiasFieldOptions& options = {}) const {
    numerics::Array<float> field = context.allocate<float>({nz, ny, nx});
    const BiasFieldFacts facts =
        bias_field(context, context.upload<float>({image.data(), {nz, ny, nx}}).view(), options, field.view());
    const numerics::HostArray<float> host = context.download<float>(field.cview());
    to.assign(host.data(), host.data() + host.size());
    return facts;
  }
  /// Each 8th voxel of each axis, from the 4th on.
  std::vector<float> thinned(const std::vector<float>& field) const {
    std::vector<float> out;
    for (std::int64_t k = nz > 1 ? 4 : 0; k < nz; k += 8)
      for (std::int64_t j = 4; j < ny; j += 8)
        for (std::int64_t i = 4; i < nx; i += 8) out.push_back(field[static_cast<std::size_t>((k * ny + j) * nx + i)]);
    return out;
  }
  bool signal(std::size_t v) const { return image[v] > 0.1f; }
};

template <class B>
class BiasField : public OnBackend<B> {};
TYPED_TEST_SUITE(BiasField, Backends, BackendNames);

double correlation(const Head& head, const std::vector<float>& a, const std::vector<float>& b) {
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (std::size_t v = 0; v < a.size(); ++v)
    if (head.signal(v)) {
      const double p = a[v], q = b[v];
      ++n, x += p, y += q, xx += p * p, yy += q * q, xy += p * q;
    }
  return (xy - x * y / n) / std::sqrt((xx - x * x / n) * (yy - y * y / n));
}

/// The standard deviation of a over b, where there is signal, over its mean.
double spread(const Head& head, const std::vector<float>& a, const std::vector<float>* b = nullptr) {
  double n = 0, sum = 0, squares = 0;
  for (std::size_t v = 0; v < a.size(); ++v)
    if (head.signal(v)) {
      const double ratio = static_cast<double>(a[v]) / (b ? (*b)[v] : 1);
      ++n, sum += ratio, squares += ratio * ratio;
    }
  return std::sqrt(squares / n - sum * sum / n / n) / (sum / n);
}

// The numbers are those that tests/bench/peers/n4_by_simpleitk.py prints (SimpleITK 2.5.7, ITK 5.4). ITK computes in
// single precision, over some 170 steps: 1e-4 is a thousand roundings.
TYPED_TEST(BiasField, IsThatOfSimpleItk) {
  const std::vector<std::pair<Head, std::vector<float>>> cases = {
      {Head(64, 48, 1),
       {0.775417, 0.633725, 0.672746, 0.987830, 1.183574, 1.106021, 1.185008, 1.551076, 0.508773, 0.598669,
        0.956552, 1.174322, 1.409628, 1.785563, 1.537432, 1.354402, 0.451519, 0.646475, 0.896798, 0.884028,
        1.045985, 1.476474, 1.498338, 1.211766, 0.508464, 0.689655, 0.846900, 0.781991, 0.897055, 1.255021,
        1.359120, 1.073237, 0.488377, 0.477914, 0.757050, 0.891768, 0.983486, 1.022898, 0.783713, 0.923006,
        0.651840, 0.519752, 0.522996, 0.539929, 0.583229, 0.648207, 0.747999, 1.035244}},
      {Head(40, 36, 20),
       {0.867610, 0.598405, 0.846891, 0.995561, 1.646194, 0.437851, 0.698918, 1.040620, 1.316699, 1.027177,
        0.401856, 0.683992, 0.859004, 1.090003, 0.924749, 0.517162, 0.456527, 0.627560, 0.606028, 0.831763,
        0.815942, 0.695538, 1.456956, 1.350059, 1.584890, 0.489430, 1.086552, 1.286079, 1.974606, 1.403123,
        0.571545, 0.974919, 0.893370, 1.493690, 1.344090, 0.545514, 0.763081, 0.972490, 1.034211, 0.940897}}};
  for (const auto& [head, theirs] : cases) {
    std::vector<float> field;
    head.find(this->context(), field);
    const std::vector<float> ours = head.thinned(field);
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-4 * theirs[i]) << i;
  }
}

// 256 x 200 voxels are thinned out to half as many per axis: the issue asks for a correlation of 0.98 with the field of
// all of them, which is SimpleITK's.
TYPED_TEST(BiasField, OfEachSecondVoxelIsThatOfAll) {
  const Head head(256, 200, 1);
  std::vector<float> all, few;
  const BiasFieldFacts of_all = head.find(this->context(), all, {.most_voxels_2d = 1 << 20}),
                       of_few = head.find(this->context(), few);
  EXPECT_NEAR(static_cast<double>(of_all.voxels) / static_cast<double>(of_few.voxels), 4, 0.1);
  EXPECT_GT(correlation(head, all, few), 0.98);
  EXPECT_LT(spread(head, few, &head.truth), 0.6 * spread(head, head.truth));
  double sum = 0, count = 0;
  for (std::size_t v = 0; v < few.size(); ++v)
    if (head.signal(v)) sum += few[v], ++count;
  EXPECT_NEAR(sum / count, 1, 0.01);  // over the voxels that were looked at, exactly
}

TYPED_TEST(BiasField, IsOneWhereThereIsNothingToCorrect) {
  for (const float value : {0.0f, 3.0f}) {
    Head head(30, 20, 3);
    std::fill(head.image.begin(), head.image.end(), value);
    std::vector<float> field;
    EXPECT_EQ(head.find(this->context(), field).voxels, value == 0 ? 0 : 1800);
    for (const float f : field) ASSERT_FLOAT_EQ(f, 1);
  }
}

// Sums have a fixed order.
TYPED_TEST(BiasField, HasTheSameBitsInEveryRun) {
  const Head head(120, 90, 1);
  std::vector<float> once, again;
  head.find(this->context(), once);
  head.find(this->context(), again);
  EXPECT_EQ(once, again);
}

// Both compute in float64; iterations end at the same one unless a change comes within rounding of its bound.
TEST(BiasFieldOnCuda, FindsTheFieldOfTheCpu) {
  if (!numerics::available(numerics::Backend::cuda)) GTEST_SKIP() << "no GPU";
  for (const Head& head : {Head(150, 130, 1), Head(40, 36, 20)}) {
    std::vector<float> cpu, cuda;
    numerics::Context here(numerics::Backend::cpu, test_resources()), there(numerics::Backend::cuda, test_resources());
    const BiasFieldFacts ours = head.find(here, cpu), theirs = head.find(there, cuda);
    EXPECT_EQ(ours.iterations, theirs.iterations);
    EXPECT_NEAR(ours.spread, theirs.spread, 1e-8);
    for (std::size_t v = 0; v < cpu.size(); ++v) ASSERT_NEAR(cpu[v], cuda[v], 1e-6f * cpu[v]) << v;
  }
}

TYPED_TEST(BiasField, RefusesWhatIsNoImage) {
  Head head(30, 20, 1);
  std::vector<float> field;
  numerics::Context& context = this->context();
  const numerics::Array<float> from = context.template zeros<float>({1, 20, 30});
  numerics::Array<float> to = context.template zeros<float>({1, 30, 20});
  EXPECT_THROW(bias_field(context, from.cview(), {}, to.view()), std::invalid_argument);
  head.image[77] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(head.find(this->context(), field), std::invalid_argument);
}

TYPED_TEST(BiasField, Stops) {
  const Head head(64, 48, 1);
  std::vector<float> field;
  struct Counted : numerics::Yield {
    std::int64_t looks = 0;
    void look() override { ++looks; }  // by check_stop()
    void rest() override {}
  } counted;
  numerics::Yield::of_thread() = &counted;
  const BiasFieldFacts facts = head.find(this->context(), field);
  numerics::Yield::of_thread() = nullptr;
  EXPECT_GE(counted.looks, facts.iterations / 8);  // a GPU's host is eight iterations ahead
  std::stop_source stop;
  stop.request_stop();
  numerics::ContextOptions options;
  options.stop_token = stop.get_token();
  numerics::Context context(TypeParam::kBackend, test_resources(), options);
  numerics::Array<float> to = context.allocate<float>({1, 48, 64});
  EXPECT_THROW(bias_field(context, to.cview(), {}, to.view()), numerics::Stopped);
}

}  // namespace
}  // namespace echotrain::testing
