// Classes and sources against a search among all rows.
#include "gadgets/numerics/mri/parallel/lattice.h"

#include <gtest/gtest.h>

#include <set>

namespace echotrain::numerics {
namespace {

/// Follows the definition of the lattice in lattice.h.
bool plainly_contains(const Lattice& l, std::int64_t y, std::int64_t z) {
  for (std::int64_t j = -40; j <= 40; ++j) {
    if (z != l.z0 + j * l.step_z) continue;
    const std::int64_t start = l.y0 + ((j * l.shift) % l.step_y + l.step_y) % l.step_y;
    return ((y - start) % l.step_y + l.step_y) % l.step_y == 0;
  }
  return false;
}

TEST(Lattice, KnowsItsRows) {
  for (const Lattice& l : {Lattice{}, Lattice{3, 1, 0, 1, 0}, Lattice{2, 2, 1, 0, 1}, Lattice{4, 3, 2, 3, 2}}) {
    std::int64_t on = 0;
    for (std::int64_t z = -12; z < 12; ++z)
      for (std::int64_t y = -12; y < 12; ++y) {
        EXPECT_EQ(l.contains(y, z), plainly_contains(l, y, z)) << y << " " << z;
        on += l.contains(y, z) ? 1 : 0;
        // A row less its class's step is on the lattice.
        const RowStep step = l.class_step(l.class_of(y, z));
        EXPECT_TRUE(plainly_contains(l, y - step[0], z - step[1])) << y << " " << z;
      }
    EXPECT_EQ(on * l.size(), 24 * 24);
  }
}

TEST(Lattice, SourcesAreTheNearestRowsOfTheNearestPlanes) {
  EXPECT_EQ(kernel_sources({3, 1, 0, 0, 0}, 1, 4, 4), (std::vector<RowStep>{{-5, 0}, {-2, 0}, {1, 0}, {4, 0}}));
  EXPECT_EQ(kernel_sources({3, 1, 0, 0, 0}, 2, 2, 1), (std::vector<RowStep>{{-1, 0}, {2, 0}}));
  // The target is between planes, on a line of the lattice: four planes, and in each an odd number of lines.
  const auto on_line = kernel_sources({2, 2, 0, 0, 0}, 2, 4, 4);
  EXPECT_EQ(on_line.size(), 12u);
  for (const RowStep& s : on_line) EXPECT_TRUE(std::abs(s[0]) <= 2 && s[0] % 2 == 0 && std::abs(s[1]) <= 3);
  EXPECT_EQ(kernel_sources({2, 2, 0, 0, 0}, 3, 4, 4).size(), 16u);
  for (const Lattice& l : {Lattice{2, 2, 1, 0, 0}, Lattice{4, 2, 2, 1, 1}, Lattice{3, 3, 1, 0, 2}})
    for (std::int64_t of = 1; of < l.size(); ++of) {
      const RowStep target = l.class_step(of);
      std::set<RowStep> once;
      for (const RowStep& s : kernel_sources(l, of, 3, 3)) {
        EXPECT_TRUE(plainly_contains(l, l.y0 + target[0] - s[0], l.z0 + target[1] - s[1]));
        EXPECT_TRUE(once.insert(s).second);
      }
      EXPECT_EQ(once.size(), 9u);
    }
}

TEST(Lattice, PlansTellWhatCame) {
  const Lattice l{2, 1, 0, 1, 0};
  const RowPlan plan = plan_rows(l, 5, 1, {0, 1, 1, 0, 0});
  EXPECT_EQ(plan.kind, (std::vector<std::uint8_t>{RowPlan::missing, RowPlan::on_lattice, RowPlan::put_back,
                                                  RowPlan::missing, RowPlan::missing}));
  EXPECT_EQ(plan.at(-1, 0), RowPlan::missing);
  EXPECT_EQ(plan.at(5, 0), RowPlan::missing);
  EXPECT_THROW(plan_rows(l, 4, 1, {0, 1, 1, 0, 0}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
