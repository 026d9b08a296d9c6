// The number of sets of maps, where the energies are known, and of an object inside its field of view and beyond it.
#include "gadgets/numerics/mri/espirit/espirit_sets.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "gadgets/numerics/mri/espirit/espirit.h"
#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::OnBackend;
using testing::Random;

constexpr double kPi = std::numbers::pi;

template <class B>
class EspiritSetsTest : public OnBackend<B> {
 protected:
  std::vector<cfloat> maps(const std::vector<cfloat>& kspace, const Shape& lines, std::int64_t sets,
                           const Shape& image) {
    EspiritOptions options;
    options.sets = sets;
    return this->download(espirit_maps(this->context(), this->upload(kspace, lines).cview(), options, image));
  }
};
TYPED_TEST_SUITE(EspiritSetsTest, Backends, testing::BackendNames);

// Four coils whose maps are the unit vectors 1 and 2, the second in some of the voxels: the images are one picture
// along each of the coils with amplitudes of its own, so that E_2 / E, n_2 and s are those of the amplitudes.
TYPED_TEST(EspiritSetsTest, IsTheRuleThatItStates) {
  constexpr std::int64_t kCoils = 4, kSide = 12, kVoxels = kSide * kSide;
  struct Case {
    std::array<double, kCoils> amplitude;
    double part;  // of the voxels, rows from the first one on, that have a second map
    bool two;
  };
  const auto root = [](double share) { return std::sqrt(share); };
  for (const Case& c : {Case{{1, root(0.00025), 0, 0}, 1, false}, Case{{1, root(0.00035), 0, 0}, 1, true},
                        // s = (a_3^2 + a_4^2) P / (2 V) is 0.001 P / V; with n_2 = V, it counts 3 V s = 0.003 P.
                        Case{{1, root(0.0032), root(0.001), root(0.001)}, 1, false},
                        Case{{1, root(0.0036), root(0.001), root(0.001)}, 1, true},
                        // All that is in coil 2 outside of the second map's voxels is rest.
                        Case{{1, root(0.004), 0, 0}, 0, false}}) {
    // A point in the middle of k-space, whose image has the same magnitude everywhere.
    std::vector<cfloat> kspace(kCoils * kVoxels);
    for (std::size_t coil = 0; coil < kCoils; ++coil)
      kspace[coil * kVoxels + (kSide / 2) * kSide + kSide / 2] = cfloat(std::polar(c.amplitude[coil], 0.7 + coil));
    std::vector<cfloat> maps(2 * kCoils * kVoxels);
    for (std::int64_t v = 0; v < kVoxels; ++v) {
      maps[static_cast<std::size_t>(v)] = cfloat(std::polar(1.0, 0.1 * static_cast<double>(v)));
      maps[static_cast<std::size_t>((kCoils + 1) * kVoxels + v)] =
          static_cast<double>(v) < c.part * kVoxels ? cfloat(0, 1) : cfloat(0);
    }
    const auto lines = this->upload(kspace, {kCoils, 1, kSide, kSide}),
               there = this->upload(maps, {2 * kCoils, 1, kSide, kSide});
    const EspiritCalibration calibration{.kspace = lines.cview(),
                                         .coils = kCoils,
                                         .first = {0, 0, 0},
                                         .extents = {1, kSide, kSide},
                                         .kernel = {1, 6, 6}};
    EXPECT_EQ(needs_second_set(this->context(), calibration, there.cview()), c.two)
        << c.amplitude[1] << ", " << c.amplitude[2] << ", " << c.part;
  }
}

/// The middle of k-space [coil, z, y, x] of an ellipsoid seen by coils around it, by sums over voxels in float64. Its
/// field of view along y is that of the 64 rows over `factor`: the object fills 0.7 of them. noise: standard deviation,
/// as a part of the root mean square of a coil's image in the object.
std::vector<cfloat> middle(std::int64_t coils, const Shape& extents, double factor, double noise) {
  const Shape n{extents[0] == 1 ? 1 : 20, 64, 40};
  Random random(5);
  std::vector<cfloat> out;
  double power = 0, inside = 0;
  for (std::int64_t c = 0; c < coils; ++c) {
    std::vector<cdouble> data(static_cast<std::size_t>(n.size()));
    const double turn = 2 * kPi * static_cast<double>(c) / static_cast<double>(coils), phase = static_cast<double>(c);
    for (std::int64_t v = 0; v < n.size(); ++v) {
      const auto place = [](std::int64_t i, std::int64_t m) {
        return m == 1 ? 0.0 : 2 * static_cast<double>(i - m / 2) / static_cast<double>(m);
      };
      const double x = place(v % n[2], n[2]), y = place(v / n[2] % n[1], n[1]), z = place(v / n[2] / n[1], n[0]);
      if (x * x / 0.64 + y * y / 0.49 + z * z / 0.49 > 1) continue;
      const double square = std::pow(x - 1.1 * std::cos(turn), 2) + std::pow(y - 1.1 * std::sin(turn), 2);
      data[static_cast<std::size_t>(v)] =
          std::polar(std::exp(-square / 2), 0.8 * phase + 0.5 * std::sin(phase) * x + 0.7 * std::cos(2 * phase) * y +
                                                (c % 2 == 0 ? 0.5 : -0.3) * z);
      power += std::norm(data[static_cast<std::size_t>(v)]);
      ++inside;
    }
    for (const std::size_t a : {2u, 1u, 0u}) {  // three turns of [rest, n] -> [m, rest] restore the order
      const std::int64_t from = n[a], m = extents[a], rest = static_cast<std::int64_t>(data.size()) / from;
      const double step = (a == 1 ? factor : 1) / static_cast<double>(from);
      std::vector<cdouble> next(static_cast<std::size_t>(m * rest));
      for (std::int64_t k = 0; k < m; ++k)
        for (std::int64_t i = 0; i < from; ++i) {
          const cdouble e = std::polar(1.0, -2 * kPi * step * static_cast<double>((k - m / 2) * (i - from / 2)));
          for (std::int64_t j = 0; j < rest; ++j)
            next[static_cast<std::size_t>(k * rest + j)] += e * data[static_cast<std::size_t>(j * from + i)];
        }
      data = std::move(next);
    }
    for (const cdouble v : data) out.push_back(cfloat(v));
  }
  // An image's noise of deviation d in each part has that of d sqrt(voxels) in k-space.
  const auto deviation = static_cast<float>(noise * std::sqrt(power / inside / 2 * static_cast<double>(n.size())));
  for (cfloat& v : out) v += deviation * random.normal();
  return out;
}

TYPED_TEST(EspiritSetsTest, AreTwoWhereTheObjectFolds) {
  struct Case {
    std::int64_t coils;
    Shape extents, image;
    double factor, noise;
    std::int64_t sets;
  };
  for (const Case& c : {Case{8, {1, 24, 24}, {1, 64, 40}, 1, 0.01, 1}, Case{8, {1, 24, 24}, {1, 50, 40}, 1.3, 0.01, 1},
                        Case{8, {1, 24, 24}, {1, 38, 40}, 1.7, 0.01, 2}, Case{8, {1, 20, 17}, {1, 33, 41}, 2, 0.01, 2},
                        // Noise is no second set.
                        Case{8, {1, 24, 24}, {1, 64, 40}, 1, 0.1, 1}, Case{8, {1, 24, 24}, {1, 32, 40}, 2, 0.1, 2},
                        Case{2, {1, 24, 24}, {1, 32, 40}, 2, 0.01, 1}, Case{6, {10, 16, 16}, {20, 64, 40}, 1, 0.01, 1},
                        Case{6, {10, 16, 16}, {20, 32, 40}, 2, 0.01, 2}}) {
    SCOPED_TRACE(::testing::Message() << c.extents.text() << " / " << c.factor << ", noise " << c.noise);
    const Shape lines{c.coils, c.extents[0], c.extents[1], c.extents[2]};
    const auto kspace = middle(c.coils, c.extents, c.factor, c.noise);
    const auto chosen = this->maps(kspace, lines, kSetsAsNeeded, c.image);
    EXPECT_EQ(static_cast<std::int64_t>(chosen.size()), c.sets * c.coils * c.image.size());
    EXPECT_TRUE(chosen == this->maps(kspace, lines, c.sets, c.image));  // the same bits
  }
}

TYPED_TEST(EspiritSetsTest, IsOneForDataThatSayNothing) {
  const Shape lines{4, 1, 16, 16}, image{1, 20, 20};
  std::vector<cfloat> kspace(static_cast<std::size_t>(lines.size()));
  EXPECT_EQ(this->maps(kspace, lines, kSetsAsNeeded, image).size(), 4u * 400);
  kspace = middle(4, {1, 16, 16}, 2, 0.01);
  EXPECT_EQ(this->maps(kspace, lines, kSetsAsNeeded, image).size(), 8u * 400);
  kspace[300] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(this->maps(kspace, lines, kSetsAsNeeded, image).size(), 4u * 400);
  EXPECT_THROW(this->maps(kspace, lines, 3, image), std::invalid_argument);
  EXPECT_THROW(this->maps(kspace, lines, kSetsAsNeeded, {20, 20}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
