// Signed images against their formula, written out in float64.
#include "gadgets/numerics/mri/images/psir.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;
using Values = std::vector<cfloat>;

/// Coils' images [coil, z, y, x]; half of each plane is dark.
struct Scene {
  Shape n;
  Values images, reference;
  std::size_t at(std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return static_cast<std::size_t>(((c * n[1] + z) * n[2] + y) * n[3] + x);
  }
};

Scene random_scene(const Shape& n, unsigned seed) {
  Random random(seed);
  Scene scene{n, random.normals(n.size()), random.normals(n.size())};
  for (std::int64_t i = 0; i < n.size(); ++i)
    if (i % n[3] < n[3] / 2) scene.reference[static_cast<std::size_t>(i)] *= 1e-3f;
  return scene;
}

std::vector<double> signed_image(const Scene& s, const PsirOptions& o) {
  const Shape& n = s.n;
  std::vector<double> intensity;
  for (std::int64_t v = 0; v < n[1] * n[2] * n[3]; ++v) {
    double sum = 0;
    for (std::int64_t c = 0; c < n[0]; ++c)
      sum += std::norm(cdouble(s.reference[s.at(c, 0, 0, 0) + static_cast<std::size_t>(v)]));
    intensity.push_back(std::sqrt(sum));
  }
  std::vector<double> sorted = intensity;
  std::sort(sorted.begin(), sorted.end());
  const double least = static_cast<double>(o.threshold) *
                       sorted[static_cast<std::size_t>(std::floor(0.99 * static_cast<double>(sorted.size() - 1)))];
  std::vector<double> out;
  for (std::int64_t z = 0; z < n[1]; ++z)
    for (std::int64_t y = 0; y < n[2]; ++y)
      for (std::int64_t x = 0; x < n[3]; ++x) {
        double in_phase = 0, square = 0;
        for (std::int64_t c = 0; c < n[0]; ++c) {
          cdouble sum = 0;
          int count = 0;
          for (std::int64_t v = y - o.radius; v <= y + o.radius; ++v)
            for (std::int64_t u = x - o.radius; u <= x + o.radius; ++u)
              if (v >= 0 && v < n[2] && u >= 0 && u < n[3] && intensity[s.at(0, z, v, u)] >= least) {
                sum += cdouble(s.reference[s.at(c, z, v, u)]);
                ++count;
              }
          const cdouble r = count > 0 ? sum / static_cast<double>(count) : cdouble(s.reference[s.at(c, z, y, x)]);
          in_phase += (std::conj(r) * cdouble(s.images[s.at(c, z, y, x)])).real();
          square += std::norm(r);
        }
        const double divisor = std::max(std::sqrt(square), least);
        out.push_back(in_phase / (o.normalize ? divisor * divisor : divisor));
      }
  return out;
}

template <class B>
class PsirTest : public testing::OnBackend<B> {
 protected:
  Values image_of(const Scene& scene, const PsirOptions& options) {
    const auto from = this->upload(scene.images, scene.n), reference = this->upload(scene.reference, scene.n);
    const Shape& n = scene.n;
    auto to = this->context().template allocate<cfloat>({1, n[1], n[2], n[3]});
    psir(this->context(), from.cview(), psir_reference(this->context(), reference.cview(), options), options.normalize,
         to.view());
    return this->download(to);
  }
};
TYPED_TEST_SUITE(PsirTest, Backends, testing::BackendNames);

TYPED_TEST(PsirTest, IsTheFormula) {
  unsigned seed = 1;
  for (const Shape& n :
       {Shape{1, 1, 16, 16}, Shape{3, 2, 17, 33}, Shape{2, 1, 1, 9}, Shape{2, 3, 5, 1}, Shape{1, 1, 1, 1}})
    for (const PsirOptions& o : {PsirOptions{}, PsirOptions{0, 0.2f, false}, PsirOptions{4, 0.5f, true}}) {
      const Scene scene = random_scene(n, ++seed);
      const Values got = this->image_of(scene, o);
      const std::vector<double> right = signed_image(scene, o);
      double most = 0;
      for (const double v : right) most = std::max(most, std::abs(v));
      for (std::size_t v = 0; v < right.size(); ++v) {
        EXPECT_EQ(got[v].imag(), 0);
        // Means of up to 81 values and sums over coils, rounded to 6e-8 each, over divisors of relative error 1e-6.
        ASSERT_NEAR(static_cast<double>(got[v].real()), right[v], 1e-5 * most) << n.text() << " radius " << o.radius;
      }
    }
}

// Without a reference there is no sign, and nothing to divide by.
TYPED_TEST(PsirTest, AnEmptyReferenceGivesZeros) {
  Scene scene = random_scene({2, 1, 6, 8}, 9);
  std::fill(scene.reference.begin(), scene.reference.end(), cfloat(0));
  for (const cfloat v : this->image_of(scene, {})) EXPECT_EQ(v, cfloat(0));
}

TYPED_TEST(PsirTest, RefusesWhatDoesNotFit) {
  const Scene scene = random_scene({2, 1, 6, 8}, 3);
  const auto images = this->upload(scene.images, {2, 1, 6, 8}), turned = this->upload(scene.images, {2, 1, 8, 6});
  auto& context = this->context();
  auto to = context.template allocate<cfloat>({1, 1, 6, 8});
  const PsirReference reference = psir_reference(context, images.cview(), {});
  EXPECT_THROW(psir(context, turned.cview(), reference, true, to.view()), std::invalid_argument);
  EXPECT_THROW(psir(context, images.cview(), reference, true, context.template allocate<cfloat>({2, 1, 6, 8}).view()),
               std::invalid_argument);
  EXPECT_THROW(psir_reference(context, images.cview(), {.radius = -1}), std::invalid_argument);
  EXPECT_THROW(psir_reference(context, images.cview().reshaped({2, 6, 8}), {}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
