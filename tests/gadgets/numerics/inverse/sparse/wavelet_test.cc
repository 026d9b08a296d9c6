// Wavelets against their definition in float64, written out with loops.
#include "gadgets/numerics/inverse/sparse/wavelet.h"

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/wavelets.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;
using testing::relative_error;

/// A few float operations per level and axis.
constexpr double kWaveletError = 1e-6;

const std::vector<std::array<std::int64_t, 3>>& odd_and_even_extents() {
  static const std::vector<std::array<std::int64_t, 3>> all{{1, 64, 64}, {1, 46, 36},  {23, 18, 1}, {9, 17, 16},
                                                            {1, 1, 33},  {1, 230, 18}, {1, 3, 2},   {7, 1, 5}};
  return all;
}

template <class B>
class WaveletTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(WaveletTest, Backends, testing::BackendNames);

TYPED_TEST(WaveletTest, IsItsDefinition) {
  for (const auto& n : odd_and_even_extents())
    for (const std::int64_t smallest : {4, 16}) {
      const Shape shape{2, n[0], n[1], n[2]};
      const auto x = Random(1).normals(shape.size());
      auto there = this->upload(x, shape);
      wavelet_analysis(this->context(), there.view(), {smallest, {}});
      std::vector<cdouble> truth;
      for (std::int64_t i = 0; i < 2; ++i) {
        const auto begin = x.begin() + i * shape.size() / 2;
        const auto one = testing::wavelets({begin, begin + shape.size() / 2}, n, smallest);
        truth.insert(truth.end(), one.begin(), one.end());
      }
      EXPECT_LT(relative_error(this->download(there), truth, truth.size()), kWaveletError) << shape.text() << smallest;
    }
}

TYPED_TEST(WaveletTest, IsOrthogonal) {
  for (const auto& n : odd_and_even_extents())
    for (const bool shifted : {false, true}) {
      const Shape shape{3, n[0], n[1], n[2]};
      WaveletOptions options{4, {}};
      for (std::size_t a = 0; a < 3 && shifted; ++a) options.shift[a] = (n[a] - 1) / 2;
      const auto x = Random(2).normals(shape.size());
      auto there = this->upload(x, shape);
      wavelet_analysis(this->context(), there.view(), options);
      double before = 0, after = 0;
      for (const auto v : x) before += std::norm(cdouble(v));
      for (const auto v : this->download(there)) after += std::norm(cdouble(v));
      EXPECT_NEAR(after / before, 1, 2e-6) << shape.text();
      wavelet_synthesis(this->context(), there.view(), options);
      EXPECT_LT(relative_error(this->download(there), x, x.size()), kWaveletError) << shape.text();
    }
}

TYPED_TEST(WaveletTest, AShiftTurnsTheImage) {
  const Shape shape{1, 5, 23, 36};
  const WaveletOptions options{4, {3, 22, 7}};
  const auto x = Random(3).normals(shape.size());
  std::vector<cfloat> turned;
  for (std::int64_t z = 0; z < 5; ++z)
    for (std::int64_t y = 0; y < 23; ++y)
      for (std::int64_t r = 0; r < 36; ++r)
        turned.push_back(x[static_cast<std::size_t>(((z + 3) % 5 * 23 + (y + 22) % 23) * 36 + (r + 7) % 36)]);
  auto there = this->upload(x, shape), plain = this->upload(turned, shape);
  wavelet_analysis(this->context(), there.view(), options);
  wavelet_analysis(this->context(), plain.view(), {4, {}});
  EXPECT_EQ(this->download(there), this->download(plain));
}

TYPED_TEST(WaveletTest, ExtentsAreEvenOnEachLevel) {
  EXPECT_EQ(wavelet_extents({3, 1, 230, 180}, 16), Shape({3, 1, 256, 192}));
  EXPECT_EQ(wavelet_extents({1, 9, 16, 1}, 16), Shape({1, 9, 16, 1}));
  const Shape small{2, 2, 2, 5}, large{2, 3, 3, 7};
  const auto x = Random(5).normals(small.size());
  auto from = this->upload(x, small), back = this->context().template zeros<cfloat>(small);
  auto to = this->upload(Random(6).normals(large.size()), large);
  copy_corner(this->context(), from.cview(), to.view());
  const auto whole = this->download(to);
  for (std::int64_t i = 0; i < large.size(); ++i) {
    const std::int64_t column = i % 7, y = i / 7 % 3, z = i / 21 % 3, item = i / 63;
    const bool inside = column < 5 && y < 2 && z < 2;
    const cfloat expected = inside ? x[static_cast<std::size_t>(((item * 2 + z) * 2 + y) * 5 + column)] : cfloat{};
    ASSERT_EQ(whole[static_cast<std::size_t>(i)], expected) << i;
  }
  copy_corner(this->context(), to.cview(), back.view());
  EXPECT_EQ(this->download(back), x);
}

TYPED_TEST(WaveletTest, RefusesWhatDoesNotFit) {
  auto there = this->context().template zeros<cfloat>({2, 8, 8});
  EXPECT_THROW(wavelet_analysis(this->context(), there.view()), std::invalid_argument);
  auto image = there.reshaped({1, 1, 16, 8});
  EXPECT_THROW(wavelet_analysis(this->context(), image.view(), {3, {}}), std::invalid_argument);
  EXPECT_THROW(wavelet_synthesis(this->context(), image.view(), {16, {0, 16, 0}}), std::invalid_argument);
  EXPECT_THROW(wavelet_synthesis(this->context(), image.view(), {16, {0, 0, -1}}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
