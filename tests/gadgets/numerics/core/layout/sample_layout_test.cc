#include "gadgets/numerics/core/layout/sample_layout.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

template <class B>
class LayoutTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(LayoutTest, Backends, testing::BackendNames);

TYPED_TEST(LayoutTest, ToSampleMajor) {
  for (std::int64_t coils : {1, 3, 8, 33})
    for (std::int64_t samples : {1, 31, 70}) {
      const std::int64_t readouts = 5, first = 4;
      const auto values = Random(1).normals(readouts * coils * samples);
      auto from = this->upload(values, {readouts, coils, samples});
      auto to = this->context().template zeros<cfloat>({first + readouts * samples + 2, coils});
      to_sample_major(this->context(), from.cview(), to.view(), first);
      std::vector<cfloat> right(static_cast<std::size_t>(to.size()));
      for (std::int64_t i = 0; i < readouts; ++i)
        for (std::int64_t c = 0; c < coils; ++c)
          for (std::int64_t s = 0; s < samples; ++s)
            right[static_cast<std::size_t>((first + i * samples + s) * coils + c)] =
                values[static_cast<std::size_t>((i * coils + c) * samples + s)];
      EXPECT_EQ(this->download(to), right) << coils << " coils, " << samples << " samples";
    }
}

TYPED_TEST(LayoutTest, AddLines) {
  const std::int64_t readouts = 9, coils = 3, samples = 20, height = 6, width = 15;
  const std::vector<std::int32_t> lines{0, 5, 2, 2, -1, 2, 0, 3, -7};
  const LinePlacement placement{.first_sample = 4, .last_sample = 17, .first_x = 2};
  const auto values = Random(2).normals(readouts * coils * samples);
  const auto before = Random(3).normals(coils * height * width);
  auto from = this->upload(values, {readouts, coils, samples});
  auto kspace = this->upload(before, {coils, height, width});
  add_lines(this->context(), from.cview(), {lines.data(), {readouts}}, placement, kspace.view());
  auto right = before;  // in single precision and in order, so that the bits must be equal
  for (std::int64_t i = 0; i < readouts; ++i)
    for (std::int64_t c = 0; c < coils; ++c)
      for (std::int64_t s = 4; s < 17 && lines[static_cast<std::size_t>(i)] >= 0; ++s)
        right[static_cast<std::size_t>((c * height + lines[static_cast<std::size_t>(i)]) * width + 2 + s - 4)] +=
            values[static_cast<std::size_t>((i * coils + c) * samples + s)];
  EXPECT_EQ(this->download(kspace), right);
}

// More than travel with one launch on a GPU.
TYPED_TEST(LayoutTest, AddManyDifferentLines) {
  const std::int64_t coils = 2, samples = 3, height = 1300;
  std::vector<std::int32_t> lines;
  for (std::int64_t i = 0; i < height; ++i) lines.push_back(static_cast<std::int32_t>(i * 7 % height));
  const auto values = Random(8).normals(height * coils * samples);
  auto from = this->upload(values, {height, coils, samples});
  auto kspace = this->context().template zeros<cfloat>({coils, height, samples});
  add_lines(this->context(), from.cview(), {lines.data(), {height}}, {0, samples, 0}, kspace.view());
  std::vector<cfloat> right(values.size());
  for (std::int64_t i = 0; i < height; ++i)
    for (std::int64_t c = 0; c < coils; ++c)
      for (std::int64_t s = 0; s < samples; ++s)
        right[static_cast<std::size_t>((c * height + lines[static_cast<std::size_t>(i)]) * samples + s)] =
            values[static_cast<std::size_t>((i * coils + c) * samples + s)];
  EXPECT_EQ(this->download(kspace), right);
}

// Lines that come again and again are added in order, however many stretches of different lines there are.
TYPED_TEST(LayoutTest, AddLinesThatComeAgain) {
  const std::int64_t coils = 2, samples = 40, height = 7;
  for (const std::int64_t readouts : {7, 14, 51, 56, 57, 300}) {
    std::vector<std::int32_t> lines;
    for (std::int64_t i = 0; i < readouts; ++i) lines.push_back(static_cast<std::int32_t>(i * 3 % height));
    const auto values = Random(7).normals(readouts * coils * samples);
    auto from = this->upload(values, {readouts, coils, samples});
    auto kspace = this->context().template zeros<cfloat>({coils, height, samples});
    add_lines(this->context(), from.cview(), {lines.data(), {readouts}}, {0, samples, 0}, kspace.view());
    std::vector<cfloat> right(static_cast<std::size_t>(coils * height * samples));
    for (std::int64_t i = 0; i < readouts; ++i)
      for (std::int64_t c = 0; c < coils; ++c)
        for (std::int64_t s = 0; s < samples; ++s)
          right[static_cast<std::size_t>((c * height + lines[static_cast<std::size_t>(i)]) * samples + s)] +=
              values[static_cast<std::size_t>((i * coils + c) * samples + s)];
    EXPECT_EQ(this->download(kspace), right) << readouts;
  }
}

TYPED_TEST(LayoutTest, ScaleLines) {
  const auto values = Random(4).normals(2 * 5 * 7);
  const std::vector<float> factors{1.0f, 0.5f, 0.0f, -2.0f, 1.0f / 3.0f};
  auto kspace = this->upload(values, {2, 5, 7});
  scale_lines(this->context(), {factors.data(), {5}}, kspace.view());
  const auto got = this->download(kspace);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], values[i] * factors[i / 7 % 5]);
}

TYPED_TEST(LayoutTest, Components) {
  auto values = Random(5).normals(40000);
  values[0] = {0, 0};
  values[1] = {-1, 0};
  values[2] = {3e30f, 4e30f};  // its square is not a float
  auto from = this->upload(values, {40000});
  auto to = this->context().template allocate<float>({40000});
  const auto expect = [&](Component what, const auto& right) {
    component(this->context(), from.cview(), what, 2.0f, to.view());
    const auto got = this->download(to);
    // Square roots and arc tangents are right to some units in the last place.
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double truth = right(2.0 * cdouble(values[i]));
      ASSERT_NEAR(got[i], truth, 1e-6 * std::abs(truth)) << i;
    }
  };
  expect(Component::magnitude, [](cdouble z) { return std::abs(z); });
  expect(Component::phase, [](cdouble z) { return std::arg(z); });
  expect(Component::real, [](cdouble z) { return z.real(); });
  expect(Component::imaginary, [](cdouble z) { return z.imag(); });
  EXPECT_THROW(component(this->context(), from.cview(), Component::complex, 1, to.view()), std::invalid_argument);
}

TYPED_TEST(LayoutTest, IntegersAreRoundedAndClamped) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const std::vector<cfloat> values{{0.0f, 9},     {0.2f, 9},  {0.3f, 9}, {-5, 9},       {100.7f, 9},
                                   {32767.4f, 9}, {40000, 9}, {nan, 9},  {infinity, 0}, {-infinity, 0}};
  const std::vector<std::uint16_t> right{0, 0, 1, 0, 201, 65535, 65535, 0, 65535, 0};
  auto from = this->upload(values, {10});
  auto to = this->context().template allocate<std::uint16_t>({10});
  component(this->context(), from.cview(), Component::real, 2.0f, to.view());
  EXPECT_EQ(this->download(to), right);
}

TYPED_TEST(LayoutTest, Scale) {
  const auto values = Random(6).normals(33333);
  auto from = this->upload(values, {33333});
  auto to = this->context().template allocate<cfloat>({33333});
  scale(this->context(), from.cview(), 0.3f, to.view());
  const auto got = this->download(to);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], values[i] * 0.3f);
}

TYPED_TEST(LayoutTest, BadArguments) {
  Context& context = this->context();
  auto from = context.template zeros<cfloat>({2, 3, 8});
  auto rows = context.template zeros<cfloat>({16, 3});
  auto kspace = context.template zeros<cfloat>({3, 4, 6});
  const std::vector<std::int32_t> lines{0, 1}, beyond{0, 4}, few{0};
  const auto add = [&](const std::vector<std::int32_t>& numbers, const LinePlacement& placement) {
    add_lines(context, from.cview(), {numbers.data(), {static_cast<std::int64_t>(numbers.size())}}, placement,
              kspace.view());
  };
  add(lines, {1, 7, 0});
  EXPECT_THROW(add(beyond, {0, 6, 0}), std::invalid_argument);
  EXPECT_THROW(add(few, {0, 6, 0}), std::invalid_argument);
  EXPECT_THROW(add(lines, {0, 7, 0}), std::invalid_argument);
  EXPECT_THROW(add(lines, {3, 9, 0}), std::invalid_argument);
  EXPECT_THROW(add(lines, {-1, 2, 0}), std::invalid_argument);
  EXPECT_THROW(add(lines, {0, 6, 1}), std::invalid_argument);
  EXPECT_THROW(add(lines, {0, 1, -1}), std::invalid_argument);
  to_sample_major(context, from.cview(), rows.view(), 0);
  EXPECT_THROW(to_sample_major(context, from.cview(), rows.view(), 1), std::invalid_argument);
  EXPECT_THROW(to_sample_major(context, from.cview(), rows.view(), -1), std::invalid_argument);
  EXPECT_THROW(to_sample_major(context, from.cview(), rows.view().reshaped({24, 2}), 0), std::invalid_argument);
  EXPECT_THROW(scale(context, from.cview(), 1, rows.view().slice(0)), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
