// The lattice that acquired rows form, against lattices that are known.
#include "gadgets/shared/sampled_lines.h"

#include <gtest/gtest.h>

#include <random>

namespace echotrain {
namespace {

using Steps = std::array<std::uint16_t, 2>;
using Row = std::array<std::int64_t, 2>;  // y, z

/// Rows of the lattice of `lines`, by its definition (gadgets/api/items.h).
std::vector<std::uint8_t> lattice_points(const SampledLines& lines) {
  const std::int64_t nz = lines.extents[0], ny = lines.extents[1];
  std::vector<std::uint8_t> out(static_cast<std::size_t>(ny * nz));
  for (std::int64_t j = 0; lines.origin[1] + j * lines.step[1] < nz; ++j) {
    const std::int64_t z = lines.origin[1] + j * lines.step[1];
    for (std::int64_t y = 0; y < ny; ++y)
      if ((y - lines.origin[0] - j * lines.shift) % lines.step[0] == 0) out[static_cast<std::size_t>(z * ny + y)] = 1;
  }
  return out;
}

TEST(SampledLatticeTest, LatticesAreFoundWithReferenceRowsBetweenTheirs) {
  std::mt19937 random(3);
  const auto upto = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 400; ++trial) {
    const bool volume = trial % 3 != 0;
    const std::int64_t ny = 40 + upto(9), nz = volume ? 30 + upto(5) : 1;
    SampledLines truth;
    truth.extents = {nz, ny};
    truth.step = {1 + upto(4), volume ? 1 + upto(3) : 1};
    truth.shift = volume ? upto(static_cast<int>(truth.step[0])) : 0;
    truth.origin = {upto(static_cast<int>(truth.step[0])), upto(static_cast<int>(truth.step[1]))};
    SCOPED_TRACE(::testing::Message() << "R=" << truth.step[0] << "x" << truth.step[1] << ", shift " << truth.shift
                                      << ", origin " << truth.origin[0] << "," << truth.origin[1]);
    const auto points = lattice_points(truth);
    auto came = points;
    const std::int64_t half = trial % 2 == 0 ? 4 : 0;  // reference rows
    for (std::int64_t z = 0; z < nz; ++z)
      for (std::int64_t y = ny / 2 - half; y < ny / 2 + half; ++y)
        if (!volume || std::abs(z - nz / 2) < half) came[static_cast<std::size_t>(z * ny + y)] = 1;
    const Steps announced{static_cast<std::uint16_t>(truth.step[0]), static_cast<std::uint16_t>(truth.step[1])};
    const SampledLines found = sampled_lines(came, ny, nz, announced);
    ASSERT_TRUE(found.lattice);
    EXPECT_EQ(found.step, truth.step);
    EXPECT_EQ(lattice_points(found), points);
    EXPECT_EQ(found.came, came);
    EXPECT_EQ(found.count(), std::count(came.begin(), came.end(), 1));
    EXPECT_TRUE(missing_rows(found, announced, {0, 0}, {ny - 1, nz - 1}).empty());

    // One of its points less, but none of the outermost rows: no lattice, and the row is named.
    std::vector<std::int64_t> inner;
    for (std::int64_t z = found.first[1] + 1; z < std::max<std::int64_t>(found.last[1], 2); ++z)
      for (std::int64_t y = found.first[0] + 1; y < found.last[0]; ++y)
        if (const std::int64_t row = (volume ? z : 0) * ny + y; points[static_cast<std::size_t>(row)] == 1)
          inner.push_back(row);
    const std::int64_t lost = inner.at(static_cast<std::size_t>(upto(static_cast<int>(inner.size()))));
    came[static_cast<std::size_t>(lost)] = 0;
    const SampledLines broken = sampled_lines(came, ny, nz, announced);
    EXPECT_FALSE(broken.lattice);
    EXPECT_EQ(broken.step, (Row{1, 1}));
    EXPECT_EQ(missing_rows(broken, announced, {0, 0}, {ny - 1, nz - 1}), std::vector<std::int64_t>{lost});
  }
}

TEST(SampledLatticeTest, AFrameThatIsShortLacksRowsOnlyWhereTheyWereAnnounced) {
  std::vector<std::uint8_t> came(24);
  for (const std::size_t y : {4, 7, 10, 13}) came[y] = 1;  // every third row of a frame that was cut short at both ends
  const SampledLines lines = sampled_lines(came, 24, 1, {3, 1});
  EXPECT_TRUE(lines.lattice);
  EXPECT_EQ(lines.first, (Row{4, 0}));
  EXPECT_EQ(lines.last, (Row{13, 0}));
  EXPECT_EQ(lines.origin, (Row{1, 0}));
  EXPECT_EQ(missing_rows(lines, {3, 1}, {0, 0}, {23, 0}), (std::vector<std::int64_t>{1, 16, 19, 22}));
  EXPECT_EQ(missing_rows(lines, {3, 1}, {4, 0}, {13, 0}), std::vector<std::int64_t>{});
}

TEST(SampledLatticeTest, StepsThatAreNotAnnouncedAreNotGuessed) {
  std::vector<std::uint8_t> came(12);
  for (std::size_t y = 0; y < 12; y += 2) came[y] = 1;
  EXPECT_FALSE(sampled_lines(came, 12, 1, {1, 1}).lattice);
  EXPECT_FALSE(sampled_lines(came, 12, 1, {3, 1}).lattice);
  EXPECT_FALSE(sampled_lines(came, 12, 1, {17, 1}).lattice);
  EXPECT_FALSE(sampled_lines(came, 12, 1, {65535, 65535}).lattice);
  EXPECT_TRUE(sampled_lines(came, 12, 1, {2, 5}).lattice);  // one plane has no steps of z
  EXPECT_EQ(missing_rows(sampled_lines(came, 12, 1, {1, 1}), {1, 1}, {0, 0}, {11, 0}).size(), 6u);
  const SampledLines full = sampled_lines(std::vector<std::uint8_t>(12, 1), 12, 1, {1, 1});
  EXPECT_TRUE(full.lattice);
  EXPECT_EQ(full.step, (Row{1, 1}));
}

TEST(SampledLatticeTest, WithoutRowsThereIsNoLattice) {
  const SampledLines none = sampled_lines(std::vector<std::uint8_t>(20), 5, 4, {2, 2});
  EXPECT_FALSE(none.lattice);
  EXPECT_EQ(none.count(), 0);
  EXPECT_EQ(none.extents, (numerics::Shape{4, 5}));
}

TEST(SampledLatticeTest, CornersThatAreLeftOutBreakTheLattice) {
  std::vector<std::uint8_t> came(16 * 16);
  for (int z = 0; z < 16; z += 2)
    for (int y = 0; y < 16; y += 2)
      if (std::hypot(y - 8, z - 8) <= 8) came[static_cast<std::size_t>(z * 16 + y)] = 1;
  const SampledLines lines = sampled_lines(came, 16, 16, {2, 2});
  EXPECT_FALSE(lines.lattice);
  EXPECT_EQ(static_cast<std::int64_t>(missing_rows(lines, {2, 2}, {0, 0}, {15, 15}).size()), 64 - lines.count());
}

}  // namespace
}  // namespace echotrain
