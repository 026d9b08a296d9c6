// Distortion as echo-planar sampling makes it, and without it again.
#include "gadgets/numerics/mri/field/unwarp.h"

#include <cmath>
#include <vector>

#include "tests/support/backends.h"
#include "tests/support/distorted_lines.h"

namespace echotrain::testing {
namespace {

using numerics::cdouble;
using numerics::cfloat;

template <class B>
class UnwarpTest : public OnBackend<B> {
 protected:
  std::vector<cfloat> corrected(const DistortedLines& lines, bool modulate = true) {
    auto out = this->context().template allocate<cfloat>({1, 1, lines.ny, lines.nx});
    numerics::unwarp(this->context(), this->upload(lines.distorted, {1, 1, lines.ny, lines.nx}).cview(),
                     this->upload(lines.shift, {1, lines.ny, lines.nx}).cview(), modulate, out.view());
    return this->download(out);
  }
};
TYPED_TEST_SUITE(UnwarpTest, Backends, BackendNames);

TYPED_TEST(UnwarpTest, TheObjectComesBack) {
  for (const double most : {0.4, 3.0, 5.0}) {
    const DistortedLines lines(72, 20, most);
    const double before = relative_error(lines.distorted, lines.object, lines.object.size());
    const auto after = this->corrected(lines);
    // Eight taps interpolate blobs of this size to 1e-3. Where the field compresses them to 0.6 of it, they hold more
    // of the highest frequencies, which cost up to 8e-3.
    EXPECT_LT(relative_error(after, lines.object, lines.object.size()), 8e-3) << most;
    EXPECT_GT(before, most > 1 ? 0.3 : 0.04) << most;
  }
}

// Without the factor, places are right and brightness is not: it is off by d s/dy.
TYPED_TEST(UnwarpTest, TheFactorIsTheStretch) {
  const DistortedLines lines(72, 20, 6);
  const auto plain = this->corrected(lines, false), whole = this->corrected(lines);
  double most = 0;
  for (std::int64_t y = 1; y + 1 < lines.ny; ++y)
    for (std::int64_t x = 0; x < lines.nx; ++x) {
      const auto i = static_cast<std::size_t>(y * lines.nx + x), n = static_cast<std::size_t>(lines.nx);
      const double factor = 1 + 0.5 * static_cast<double>(lines.shift[i + n] - lines.shift[i - n]);
      most = std::max(most, std::abs(cdouble(whole[i]) - factor * cdouble(plain[i])));
    }
  EXPECT_LT(most, 1e-5);
  EXPECT_GT(relative_error(plain, lines.object, lines.object.size()), 0.03);
}

// A shift of whole voxels moves them, and what comes from beyond the border is 0.
TYPED_TEST(UnwarpTest, WholeVoxelsMove) {
  Random random(1);
  const auto image = random.normals(2 * 3 * 12 * 5);
  for (const int by : {0, 3, -4}) {
    auto out = this->context().template allocate<cfloat>({2, 3, 12, 5});
    numerics::unwarp(this->context(), this->upload(image, {2, 3, 12, 5}).cview(),
                     this->upload(std::vector<float>(3 * 12 * 5, static_cast<float>(by)), {3, 12, 5}).cview(), true,
                     out.view());
    const auto values = this->download(out);
    for (std::size_t i = 0; i < image.size(); ++i) {
      const auto y = static_cast<int>(i / 5 % 12) + by;
      const cfloat expected =
          y < 0 || y >= 12 ? cfloat(0) : image[static_cast<std::size_t>(static_cast<int>(i) + 5 * by)];
      EXPECT_LT(std::abs(values[i] - expected), 1e-6f);
    }
  }
}

TYPED_TEST(UnwarpTest, FoldedVoxelsAreZeroAndWrongShapesAreRefused) {
  const std::vector<cfloat> image(16, 1.0f);
  std::vector<float> shift(16);
  for (std::size_t y = 0; y < 16; ++y) shift[y] = y < 8 ? 0 : -2.0f * static_cast<float>(y - 8);
  auto out = this->context().template allocate<cfloat>({1, 1, 16, 1});
  numerics::unwarp(this->context(), this->upload(image, {1, 1, 16, 1}).cview(), this->upload(shift, {1, 16, 1}).cview(),
                   true, out.view());
  const auto values = this->download(out);
  EXPECT_EQ(values[12], cfloat(0));
  EXPECT_NEAR(values[4].real(), 1, 1e-6);
  EXPECT_THROW(numerics::unwarp(this->context(), this->upload(image, {1, 1, 4, 4}).cview(),
                                this->upload(shift, {1, 16, 1}).cview(), true, out.view()),
               std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::testing
