// The middle of reference lines against direct sums in float64, and maps that are kept within a bound.
#include "gadgets/least_squares/middle_of_block.h"

#include "gadgets/least_squares/coil_map_cache.h"
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

using MiddleOfBlockTest = OnEachBackend;

/// K-space [z, y, x] at k0 + (0 .. extents - 1) of an image of n voxels, both about floor(n / 2), in steps of one over
/// n voxels: what is asked for is anywhere in k-space.
std::vector<cdouble> direct_kspace(const std::vector<cdouble>& image, const std::array<std::int64_t, 3>& n,
                                   const std::array<std::int64_t, 3>& k0, const std::array<std::int64_t, 3>& extents) {
  std::vector<cdouble> out;
  for (std::int64_t kz = k0[0]; kz < k0[0] + extents[0]; ++kz)
    for (std::int64_t ky = k0[1]; ky < k0[1] + extents[1]; ++ky)
      for (std::int64_t kx = k0[2]; kx < k0[2] + extents[2]; ++kx) {
        cdouble sum = 0;
        for (std::int64_t z = 0, i = 0; z < n[0]; ++z)
          for (std::int64_t y = 0; y < n[1]; ++y)
            for (std::int64_t x = 0; x < n[2]; ++x, ++i) {
              const auto turns = [](std::int64_t k, std::int64_t r, std::int64_t of) {
                return static_cast<double>(k * (r - of / 2)) / static_cast<double>(of);
              };
              sum += image[static_cast<std::size_t>(i)] *
                     std::polar(1.0,
                                -2 * std::numbers::pi * (turns(kz, z, n[0]) + turns(ky, y, n[1]) + turns(kx, x, n[2])));
            }
        out.push_back(sum);
      }
  return out;
}

/// Voxels of an object that fills the middle `inner` voxels of n, random within.
std::vector<cdouble> random_object(const std::array<std::int64_t, 3>& n, const std::array<std::int64_t, 3>& inner,
                                   std::mt19937& random) {
  std::vector<cdouble> out;
  for (std::int64_t z = 0; z < n[0]; ++z)
    for (std::int64_t y = 0; y < n[1]; ++y)
      for (std::int64_t x = 0; x < n[2]; ++x) {
        const auto in = [](std::int64_t r, std::int64_t of, std::int64_t middle) {
          return r >= of / 2 - middle / 2 && r < of / 2 - middle / 2 + middle;
        };
        const bool inside = in(z, n[0], inner[0]) && in(y, n[1], inner[1]) && in(x, n[2], inner[2]);
        out.push_back(inside ? cdouble(noise(1, random)[0]) : 0.0);
      }
  return out;
}

TEST_P(MiddleOfBlockTest, IsKspaceOfTheFieldOfViewOfTheImage) {
  using Triple = std::array<std::int64_t, 3>;  // z, y, x
  struct Case {
    const char* what;
    Triple matrix, first, extents, padded, image;
    std::int64_t most;
    Triple expected;
    double tolerance;
  };
  for (const Case& c : {
           Case{"a band", {1, 20, 16}, {0, 6, 0}, {1, 9, 16}, {1, 20, 16}, {1, 20, 16}, 12, {1, 9, 12}, 1e-6},
           Case{"off the centre", {1, 20, 16}, {0, 8, 2}, {1, 9, 14}, {1, 20, 16}, {1, 20, 16}, 12, {1, 5, 12}, 1e-6},
           Case{"finer voxels", {1, 15, 16}, {0, 4, 0}, {1, 6, 16}, {1, 21, 24}, {1, 21, 24}, 12, {1, 6, 12}, 1e-6},
           Case{"coarser voxels", {1, 20, 16}, {0, 2, 0}, {1, 17, 16}, {1, 9, 16}, {1, 9, 16}, 12, {1, 9, 12}, 1e-6},
           Case{"oversampled readouts",
                {1, 14, 32},
                {0, 3, 0},
                {1, 8, 32},
                {1, 14, 32},
                {1, 14, 16},
                24,
                {1, 8, 16},
                1e-5},
           // The cut of a band's field of view softens what is near its ends; a tenth is what one sees.
           Case{"oversampled lines", {1, 48, 8}, {0, 8, 0}, {1, 33, 8}, {1, 48, 8}, {1, 24, 8}, 24, {1, 14, 8}, 0.1},
           Case{"a volume", {10, 12, 8}, {2, 3, 0}, {6, 7, 8}, {10, 12, 8}, {10, 12, 4}, 6, {6, 6, 4}, 1e-5},
       }) {
    SCOPED_TRACE(c.what);
    std::mt19937 random(3);
    // In steps of 1 / (matrix extents), as scanners sample; the object is within the image's field of view.
    const auto object = random_object(
        c.matrix,
        [&] {
          Triple inner;
          for (std::size_t a = 0; a < 3; ++a) inner[a] = c.matrix[a] * c.image[a] / c.padded[a];
          return inner;
        }(),
        random);
    Calibration block;
    Triple k0{}, middle{};
    for (std::size_t a = 0; a < 3; ++a) {
      block.first[2 - a] = c.first[a];
      block.matrix[2 - a] = c.matrix[a];
      k0[a] = c.first[a] - c.matrix[a] / 2;
      middle[a] = -(c.expected[a] / 2);
    }
    numerics::Context compute(GetParam(), test_resources());
    std::vector<cfloat> data;
    for (const cdouble v : direct_kspace(object, c.matrix, k0, c.extents)) data.push_back(cfloat(v));
    block.data = compute.upload<cfloat>({data.data(), {1, c.extents[0], c.extents[1], c.extents[2]}});
    const numerics::Shape padded{c.padded[0], c.padded[1], c.padded[2]}, image{c.image[0], c.image[1], c.image[2]};
    EXPECT_EQ(extents_of_middle(block, padded, image, c.most), c.expected);
    const Array<cfloat> got = middle_of_block(compute, block, padded, image, c.most);
    ASSERT_EQ(got.shape(), (numerics::Shape{1, c.expected[0], c.expected[1], c.expected[2]}));
    // The same object's k-space in steps of one over the image's field of view.
    std::vector<cdouble> within;
    Triple inner{};
    for (std::size_t a = 0; a < 3; ++a) inner[a] = c.matrix[a] * c.image[a] / c.padded[a];
    for (std::int64_t z = 0; z < inner[0]; ++z)
      for (std::int64_t y = 0; y < inner[1]; ++y)
        for (std::int64_t x = 0; x < inner[2]; ++x) {
          const auto at = [&](std::int64_t r, std::size_t a) { return c.matrix[a] / 2 - inner[a] / 2 + r; };
          within.push_back(
              object[static_cast<std::size_t>((at(z, 0) * c.matrix[1] + at(y, 1)) * c.matrix[2] + at(x, 2))]);
        }
    const auto truth = direct_kspace(within, inner, middle, c.expected);
    auto values = elements(compute, got);
    cdouble product = 0;
    double power = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      product += std::conj(cdouble(values[i])) * truth[i];
      power += std::norm(cdouble(values[i]));
    }
    std::vector<cdouble> scaled;  // its scale is anyone's, but has no phase
    for (const cfloat v : values) scaled.push_back(cdouble(v) * std::abs(product) / power);
    EXPECT_LT(nrmse(scaled, truth), c.tolerance);
  }
}

TEST_P(MiddleOfBlockTest, ABlockBesideTheCentreHasNone) {
  numerics::Context compute(GetParam(), test_resources());
  Calibration block;
  block.data = compute.zeros<cfloat>({2, 1, 4, 8});
  block.matrix = {8, 16, 1};
  block.first = {0, 9, 0};
  EXPECT_LE(extents_of_middle(block, {1, 16, 8}, {1, 16, 8}, 24)[1], 0);
  block.first = {0, 4, 0};  // lines 4 .. 7
  EXPECT_LE(extents_of_middle(block, {1, 16, 8}, {1, 16, 8}, 24)[1], 0);
  block.first = {0, 5, 0};
  EXPECT_EQ(extents_of_middle(block, {1, 16, 8}, {1, 16, 8}, 24)[1], 2);
}

TEST_P(MiddleOfBlockTest, MapsThatWereNotUsedForLongestGoFirst) {
  numerics::Context compute(GetParam(), test_resources());
  const numerics::Shape shape{2, 1, 4, 4};
  const std::uint64_t one = 32 * sizeof(cfloat);
  CoilMapCache kept(2 * one);
  for (const std::uint64_t block : {1, 2}) kept.keep(block, compute.zeros<cfloat>(shape));
  ASSERT_NE(kept.find(1, shape), nullptr);
  kept.keep(3, compute.zeros<cfloat>(shape));
  EXPECT_NE(kept.find(1, shape), nullptr);
  EXPECT_EQ(kept.find(2, shape), nullptr);
  EXPECT_NE(kept.find(3, shape), nullptr);
  EXPECT_EQ(kept.find(3, {1, 1, 4, 4}), nullptr);
  EXPECT_EQ(kept.bytes(), 2 * one);
  kept.keep(4, compute.zeros<cfloat>({2, 1, 20, 20}));
  EXPECT_NE(kept.find(4, {2, 1, 20, 20}), nullptr);
  EXPECT_EQ(kept.find(1, shape), nullptr);
  kept.make_room(one);
  EXPECT_EQ(kept.bytes(), 0u);
}

ECHOTRAIN_ON_BACKENDS(MiddleOfBlockTest);

}  // namespace
}  // namespace echotrain::testing
