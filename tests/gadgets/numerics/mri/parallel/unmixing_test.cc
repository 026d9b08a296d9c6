// Images by unmixing and corrected rows against filling k-space sample by sample, in float64.
#include "gadgets/numerics/mri/parallel/unmixing.h"

#include "gadgets/numerics/mri/parallel/line_correction.h"
#include "tests/gadgets/numerics/mri/parallel/unmixing_problem.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using namespace testing;

template <class B>
class UnmixingTest : public OnBackend<B> {};
TYPED_TEST_SUITE(UnmixingTest, Backends, BackendNames);

TYPED_TEST(UnmixingTest, WithCorrectedRowsIsTheFilledKSpace) {
  const GrappaOptions flat{3, 4, 4}, volume{3, 2, 2};
  const std::vector<UnmixingCase> cases{
      {{2, 1, 0, 0, 0}, flat, 3, {1, 16, 12}, {1, 16, 12}, {1, 16, 12}, 0, 15, 6},
      {{3, 1, 0, 1, 0}, flat, 3, {1, 20, 11}, {1, 20, 11}, {1, 20, 9}, 0, 19, 5},     // 20 is no multiple of 3
      {{3, 1, 0, 2, 0}, flat, 2, {1, 19, 10}, {1, 25, 14}, {1, 17, 14}, 4, 18, 0},    // zero-filled, half of k-space
      {{4, 1, 0, 0, 0}, {4, 3, 1}, 2, {1, 21, 8}, {1, 18, 8}, {1, 16, 8}, 0, 20, 4},  // cut
      {{1, 1, 0, 0, 0}, flat, 2, {1, 8, 8}, {1, 8, 8}, {1, 8, 8}, 0, 7, 0},           // nothing is missing
      {{2, 2, 0, 1, 0}, volume, 2, {9, 12, 6}, {9, 12, 6}, {9, 12, 6}, 0, 11, 4},
      {{2, 2, 1, 0, 1}, volume, 2, {8, 11, 5}, {10, 12, 6}, {7, 12, 4}, 0, 10, 3},  // CAIPIRINHA
      {{3, 2, 2, 0, 0}, volume, 3, {7, 13, 1}, {7, 13, 1}, {7, 13, 1}, 0, 12, 3},
      {{1, 3, 0, 0, 1}, volume, 2, {10, 4, 7}, {10, 4, 7}, {10, 4, 7}, 0, 3, 0}};
  for (const UnmixingCase& c : cases) {
    SCOPED_TRACE(::testing::Message() << c.lattice.step_y << "x" << c.lattice.step_z << " " << c.encoded.text());
    const UnmixingProblem p(c);
    const KSpaceOfTest block = p.calibration();
    auto& context = this->context();
    const auto there = this->upload(block.single(), block.shape());
    const GrappaKernels kernels = fit_grappa(context, there.cview(), c.lattice, c.options, p.rows);
    const HybridKernels hybrid = hybrid_kernels(context, kernels, p.geometry());
    const auto maps = this->upload(p.maps, {c.coils, c.image[0], c.image[1], c.image[2]});
    const auto u = this->download(unmixing(context, kernels, hybrid, maps.cview(), p.geometry()));
    const LineCorrections corrections = plan_corrections(context, kernels, hybrid, p.rows, p.geometry());
    const std::vector<cdouble> half = p.half();
    const auto half_there =
        this->upload(std::vector<cfloat>(half.begin(), half.end()), {c.coils, c.encoded[0] * c.encoded[1], c.image[2]});
    auto e = context.template allocate<cfloat>({c.coils, corrections.count(), c.image[2]});
    correct_lines(context, hybrid, corrections, half_there.cview(), e.view());
    const auto corrected = this->download(e);

    const auto voxels = static_cast<std::size_t>(c.image.size());
    std::vector<cdouble> uncorrected(voxels), truth(voxels);
    const KSpaceOfTest filled = plain_filling(KernelsOfTest(context, kernels), p.rows, p.frame, true);
    UnmixingProblem full = p;
    full.frame = filled;
    const std::vector<cdouble> full_half = full.half();
    std::vector<cdouble> image(voxels);
    for (std::int64_t coil = 0; coil < c.coils; ++coil) {
      const auto first = static_cast<std::size_t>(coil) * voxels;
      const auto map = [&](std::size_t v) { return std::conj(cdouble(p.maps[first + v])); };
      const auto weight = [&](std::size_t v) { return std::conj(cdouble(u[first + v])); };
      for (std::int64_t z = 0; z < c.encoded[0]; ++z)
        for (std::int64_t y = 0; y < c.encoded[1]; ++y) {
          const std::int64_t ky = y - c.encoded[1] / 2, kz = z - c.encoded[0] / 2;
          if (!p.in_grid(ky, kz)) continue;
          const std::int64_t row = (coil * c.encoded[0] + z) * c.encoded[1] + y;
          p.add_row(ky, kz, full_half.data() + row * c.image[2], map, truth);
          if (p.rows.at(y, z) == RowPlan::on_lattice)
            p.add_row(ky, kz, half.data() + row * c.image[2], weight, uncorrected);
        }
    }
    image = uncorrected;
    for (std::int64_t coil = 0; coil < c.coils; ++coil)
      for (std::int64_t i = 0; i < corrections.count(); ++i) {
        const std::int32_t row = corrections.rows[static_cast<std::size_t>(i)];
        std::vector<cdouble> values;
        for (std::int64_t x = 0; x < c.image[2]; ++x)
          values.emplace_back(corrected[static_cast<std::size_t>((coil * corrections.count() + i) * c.image[2] + x)]);
        const auto map = [&](std::size_t v) {
          return std::conj(cdouble(p.maps[static_cast<std::size_t>(coil) * voxels + v]));
        };
        p.add_row(row % c.padded[1] - c.padded[1] / 2, row / c.padded[1] - c.padded[0] / 2, values.data(), map, image);
      }
    EXPECT_LE(relative_error(image, truth, voxels), 1e-5);

    // And the k-space itself.
    const LineCorrections filling = plan_filling(context, kernels, hybrid, p.rows);
    auto rows = context.template allocate<cfloat>({c.coils, filling.count(), c.image[2]});
    correct_lines(context, hybrid, filling, half_there.cview(), rows.view());
    const auto rows_here = this->download(rows);
    std::vector<cdouble> all(full_half.size());
    for (std::int64_t coil = 0; coil < c.coils; ++coil)
      for (std::int64_t i = 0; i < filling.count(); ++i)
        for (std::int64_t x = 0; x < c.image[2]; ++x) {
          const std::int64_t row = coil * c.encoded[0] * c.encoded[1] + filling.rows[static_cast<std::size_t>(i)];
          all[static_cast<std::size_t>(row * c.image[2] + x)] =
              cdouble(rows_here[static_cast<std::size_t>((coil * filling.count() + i) * c.image[2] + x)]);
        }
    EXPECT_LE(relative_error(all, full_half, all.size()), 1e-5);
    if (c.lattice.size() > 1) {
      EXPECT_GT(relative_error(uncorrected, truth, voxels), 1e-2);
      EXPECT_LT(corrections.count(), c.padded[0] * c.padded[1]);
    } else {
      EXPECT_EQ(corrections.count(), 0);
    }
  }
}

TYPED_TEST(UnmixingTest, RefusesShapesThatDoNotFit) {
  const UnmixingProblem p({{2, 1, 0, 0, 0}, {3, 2, 1}, 3, {1, 16, 12}, {1, 16, 12}, {1, 16, 12}, 0, 15, 6});
  const KSpaceOfTest block = p.calibration();
  auto& context = this->context();
  const auto there = this->upload(block.single(), block.shape());
  const GrappaKernels kernels = fit_grappa(context, there.cview(), p.c.lattice, p.c.options, p.rows);
  const HybridKernels hybrid = hybrid_kernels(context, kernels, p.geometry());
  const auto maps = this->upload(p.maps, {3, 1, 16, 12});
  EXPECT_THROW(unmixing(context, kernels, hybrid, maps.cview().reshaped({3, 1, 12, 16}), p.geometry()),
               std::invalid_argument);
  RowPlan other = p.rows;
  other.ny = 8, other.nz = 2;
  EXPECT_THROW(plan_corrections(context, kernels, hybrid, other, p.geometry()), std::invalid_argument);
  const LineCorrections corrections = plan_corrections(context, kernels, hybrid, p.rows, p.geometry());
  const auto half = context.template zeros<cfloat>({3, 16, 12});
  auto e = context.template allocate<cfloat>({3, corrections.count() + 1, 12});
  EXPECT_THROW(correct_lines(context, hybrid, corrections, half.cview(), e.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
