// The image of a frame in one pass over its columns, against the sums that define it, in float64.
#include "gadgets/numerics/mri/parallel/line_unmixing.h"

#include <limits>

#include "gadgets/numerics/mri/parallel/unmixing.h"
#include "tests/gadgets/numerics/mri/parallel/unmixing_problem.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using namespace testing;

/// The inputs of a plan, and the data that it is applied to.
struct Unmixed {
  UnmixingProblem problem;
  GrappaKernels kernels;
  HybridKernels hybrid;
  LineCorrections corrections;
  Array<cfloat> factors;
  std::vector<cfloat> weights;  // [coil, y, x]: conj(u)
  std::vector<cfloat> half;     // rows that did not come are not numbers
  LineUnmixing plan;

  Unmixed(Context& context, const UnmixingCase& c, float scale) : problem(c) {
    const KSpaceOfTest block = problem.calibration();
    const auto upload = [&](const std::vector<cfloat>& values, Shape shape) {
      return context.upload<cfloat>({values.data(), shape});
    };
    const auto there = upload(block.single(), block.shape());
    kernels = fit_grappa(context, there.cview(), c.lattice, c.options, problem.rows);
    hybrid = hybrid_kernels(context, kernels, problem.geometry());
    corrections = plan_corrections(context, kernels, hybrid, problem.rows, problem.geometry());
    const auto maps = upload(problem.maps, {c.coils, c.image[0], c.image[1], c.image[2]});
    const auto u = unmixing(context, kernels, hybrid, maps.cview(), problem.geometry());
    const auto here = context.download(u.cview());
    weights.assign(here.data(), here.data() + here.size());
    factors = u;
    if (corrections.count() > 0) {
      const Shape& n = u.shape();
      factors = context.allocate<cfloat>({2 * n[0], n[1], n[2], n[3]});
      context.copy<cfloat>(u.view(), factors.view().part(0, n));
      context.copy<cfloat>(maps.view(), factors.view().part(n.size(), n));
    }
    const std::vector<cdouble> exact = problem.half();
    half.assign(exact.begin(), exact.end());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = 0; i < half.size(); ++i)
      if (problem.rows.kind[i / static_cast<std::size_t>(c.image[2]) % problem.rows.kind.size()] == RowPlan::missing)
        half[i] = {nan, nan};
    plan = plan_line_unmixing(context, c.lattice, problem.rows, problem.geometry(), corrections, factors, scale);
  }

  std::vector<cdouble> truth(Context& context, float scale) const {
    const UnmixingCase& c = problem.c;
    const auto voxels = static_cast<std::size_t>(c.image.size());
    const auto there = context.upload<cfloat>({half.data(), {c.coils, c.encoded[1], c.image[2]}});
    auto e = context.allocate<cfloat>({c.coils, corrections.count(), c.image[2]});
    correct_lines(context, hybrid, corrections, there.cview(), e.view());
    const auto corrected = context.download(e.cview());
    std::vector<cdouble> image(voxels);
    const auto add = [&](std::int64_t k, const cfloat* row, const cfloat* factor) {
      const std::vector<cdouble> values(row, row + c.image[2]);
      problem.add_row(
          k, 0, values.data(),
          [&](std::size_t v) { return static_cast<double>(scale) * std::conj(cdouble(factor[v])); }, image);
    };
    for (std::int64_t coil = 0; coil < c.coils; ++coil) {
      const std::int64_t first = coil * c.image.size();
      for (std::int64_t y = 0; y < c.encoded[1]; ++y)
        if (const std::int64_t k = y - c.encoded[1] / 2;
            problem.in_grid(k, 0) && problem.rows.at(y, 0) == RowPlan::on_lattice)
          add(k, half.data() + (coil * c.encoded[1] + y) * c.image[2], weights.data() + first);
      for (std::int64_t i = 0; i < corrections.count(); ++i)
        add(corrections.rows[static_cast<std::size_t>(i)] - c.padded[1] / 2,
            corrected.data() + (coil * corrections.count() + i) * c.image[2], problem.maps.data() + first);
    }
    return image;
  }
};

std::vector<UnmixingCase> flat_cases() {
  const GrappaOptions kernel{3, 4, 4};
  return {{{2, 1, 0, 0, 0}, kernel, 3, {1, 16, 12}, {1, 16, 12}, {1, 16, 12}, 0, 15, 6},     // lines repeat twice
          {{3, 1, 0, 1, 0}, kernel, 3, {1, 20, 11}, {1, 20, 11}, {1, 20, 9}, 0, 19, 5},      // not at all
          {{3, 1, 0, 2, 0}, kernel, 2, {1, 19, 10}, {1, 25, 14}, {1, 17, 14}, 4, 18, 0},     // zero-filled, half
          {{3, 1, 0, 0, 0}, kernel, 3, {1, 30, 40}, {1, 30, 40}, {1, 27, 37}, 0, 29, 8},     // three blocks of columns
          {{4, 1, 0, 0, 0}, {4, 3, 1}, 2, {1, 21, 8}, {1, 18, 8}, {1, 16, 8}, 0, 20, 4},     // cut, twice
          {{4, 1, 0, 3, 0}, {3, 2, 1}, 2, {1, 48, 18}, {1, 48, 18}, {1, 48, 18}, 0, 47, 0},  // nothing is put back
          {{1, 1, 0, 0, 0}, kernel, 2, {1, 8, 8}, {1, 8, 8}, {1, 8, 8}, 0, 7, 0}};           // nothing is missing
}

template <class B>
class LineUnmixingTest : public OnBackend<B> {};
TYPED_TEST_SUITE(LineUnmixingTest, Backends, BackendNames);

TYPED_TEST(LineUnmixingTest, IsTheSumOfWeighedRowsAndCorrections) {
  auto& context = this->context();
  for (const UnmixingCase& c : flat_cases()) {
    SCOPED_TRACE(::testing::Message() << c.lattice.step_y << " " << c.encoded.text() << c.padded.text());
    const Unmixed with(context, c, 0.25f);
    ASSERT_TRUE(with.plan.made());
    EXPECT_EQ(with.plan.points * with.plan.folds, c.padded[1]);
    EXPECT_GT(with.plan.bytes(), 0u);
    const auto half = this->upload(with.half, {c.coils, c.encoded[1], c.image[2]});
    auto image = context.template allocate<cfloat>({1, 1, c.image[1], c.image[2]});
    unmix_lines(context, with.plan, with.hybrid, with.corrections, half.cview(), image.view());
    const auto there = this->download(image);
    const std::vector<cdouble> truth = with.truth(context, 0.25f);
    EXPECT_LE(relative_error(there, truth, truth.size()), 1e-6);
    auto again = context.template allocate<cfloat>(image.shape());
    unmix_lines(context, with.plan, with.hybrid, with.corrections, half.cview(), again.view());
    EXPECT_EQ(this->download(again), there);
  }
}

TYPED_TEST(LineUnmixingTest, HasNoPlanForVolumesAndOtherRows) {
  auto& context = this->context();
  const GrappaOptions volume{3, 2, 2};
  EXPECT_FALSE(
      Unmixed(context, {{2, 2, 0, 1, 0}, volume, 2, {9, 12, 6}, {9, 12, 6}, {9, 12, 6}, 0, 11, 4}, 1).plan.made());
  Unmixed with(context, flat_cases().front(), 1);
  RowPlan gap = with.problem.rows;
  gap.kind[6] = RowPlan::missing;
  EXPECT_FALSE(plan_line_unmixing(context, with.problem.c.lattice, gap, with.problem.geometry(), with.corrections,
                                  with.factors, 1)
                   .made());
}

TYPED_TEST(LineUnmixingTest, RefusesShapesThatDoNotFit) {
  auto& context = this->context();
  const Unmixed with(context, flat_cases().front(), 1);
  const LineGeometry geometry = with.problem.geometry();
  RowPlan other = with.problem.rows;
  other.ny = 8, other.nz = 2;
  EXPECT_THROW(plan_line_unmixing(context, with.problem.c.lattice, other, geometry, with.corrections, with.factors, 1),
               std::invalid_argument);
  const auto odd = context.template zeros<cfloat>({5, 1, 16, 12});
  EXPECT_THROW(
      plan_line_unmixing(context, with.problem.c.lattice, with.problem.rows, geometry, with.corrections, odd, 1),
      std::invalid_argument);
  const auto half = context.template zeros<cfloat>({3, 16, 11});
  auto image = context.template allocate<cfloat>({1, 1, 16, 12});
  EXPECT_THROW(unmix_lines(context, with.plan, with.hybrid, with.corrections, half.cview(), image.view()),
               std::invalid_argument);
  EXPECT_THROW(unmix_lines(context, {}, with.hybrid, with.corrections, half.cview(), image.view()),
               std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
