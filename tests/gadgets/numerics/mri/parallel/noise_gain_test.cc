// Noise against the squares of every sample's coefficient, found by reconstructing one sample at a time.
#include "gadgets/numerics/mri/parallel/noise_gain.h"

#include "gadgets/numerics/mri/parallel/unfold.h"
#include "gadgets/numerics/mri/parallel/unmixing.h"
#include "tests/gadgets/numerics/mri/parallel/unmixing_problem.h"

namespace echotrain::numerics {
namespace {

using namespace testing;

template <class B>
class NoiseGainTest : public OnBackend<B> {
 protected:
  std::vector<float> host(const HostArray<float>& values) { return {values.data(), values.data() + values.size()}; }
};
TYPED_TEST_SUITE(NoiseGainTest, Backends, BackendNames);

TYPED_TEST(NoiseGainTest, IsTheSumOfTheSamplesCoefficients) {
  const std::vector<UnmixingCase> cases{{{3, 1, 0, 1, 0}, {3, 4, 1}, 3, {1, 20, 9}, {1, 20, 9}, {1, 20, 9}, 0, 19, 5},
                                        {{2, 1, 0, 0, 0}, {3, 2, 1}, 2, {1, 15, 8}, {1, 18, 8}, {1, 13, 6}, 3, 14, 0},
                                        {{2, 2, 1, 0, 1}, {3, 2, 2}, 2, {6, 9, 5}, {6, 10, 5}, {6, 10, 5}, 0, 8, 3}};
  for (const UnmixingCase& c : cases) {
    SCOPED_TRACE(c.encoded.text());
    const UnmixingProblem p(c);
    const KSpaceOfTest block = p.calibration();
    auto& context = this->context();
    const auto there = this->upload(block.single(), block.shape());
    const GrappaKernels kernels = fit_grappa(context, there.cview(), c.lattice, c.options, p.rows);
    const HybridKernels hybrid = hybrid_kernels(context, kernels, p.geometry());
    const auto maps = this->upload(p.maps, {c.coils, c.image[0], c.image[1], c.image[2]});
    const auto weights = unmixing(context, kernels, hybrid, maps.cview(), p.geometry());
    const LineCorrections corrections = plan_corrections(context, kernels, hybrid, p.rows, p.geometry());
    const std::int64_t samples = c.encoded[2] - 1;
    const NoiseGain gain =
        noise_gain(context, weights.cview(), maps.cview(), &hybrid, &corrections, p.rows, p.geometry(), samples);

    const auto u = this->download(weights);
    const auto voxels = static_cast<std::size_t>(c.image.size());
    std::vector<double> squares(voxels);
    std::int64_t lattice_rows = 0;
    for (std::int64_t row = 0; row < c.encoded[0] * c.encoded[1]; ++row) {
      const std::uint8_t kind = p.rows.kind[static_cast<std::size_t>(row)];
      lattice_rows += kind == RowPlan::on_lattice ? 1 : 0;
      if (kind == RowPlan::missing) continue;
      for (std::int64_t coil = 0; coil < c.coils; ++coil) {
        // One row of ones in image space stands for a sample: its phase along x changes no square.
        const std::vector<cdouble> ones(static_cast<std::size_t>(c.image[2]), 1.0);
        std::vector<cfloat> half(static_cast<std::size_t>(c.coils * c.encoded[0] * c.encoded[1] * c.image[2]));
        const std::int64_t at = (coil * c.encoded[0] * c.encoded[1] + row) * c.image[2];
        std::fill_n(half.begin() + at, c.image[2], cfloat(1));
        const auto half_there = this->upload(half, {c.coils, c.encoded[0] * c.encoded[1], c.image[2]});
        auto e = context.template allocate<cfloat>({c.coils, corrections.count(), c.image[2]});
        correct_lines(context, hybrid, corrections, half_there.cview(), e.view());
        const auto corrected = this->download(e);
        std::vector<cdouble> image(voxels);
        if (kind == RowPlan::on_lattice)
          p.add_row(
              row % c.encoded[1] - c.encoded[1] / 2, row / c.encoded[1] - c.encoded[0] / 2, ones.data(),
              [&](std::size_t v) { return std::conj(cdouble(u[static_cast<std::size_t>(coil) * voxels + v])); }, image);
        for (std::int64_t other = 0; other < c.coils; ++other)
          for (std::int64_t i = 0; i < corrections.count(); ++i) {
            const std::int64_t to = corrections.rows[static_cast<std::size_t>(i)];
            std::vector<cdouble> values;
            for (std::int64_t x = 0; x < c.image[2]; ++x)
              values.emplace_back(
                  corrected[static_cast<std::size_t>((other * corrections.count() + i) * c.image[2] + x)]);
            const auto map = [&](std::size_t v) {
              return std::conj(cdouble(p.maps[static_cast<std::size_t>(other) * voxels + v]));
            };
            p.add_row(to % c.padded[1] - c.padded[1] / 2, to / c.padded[1] - c.padded[0] / 2, values.data(), map,
                      image);
          }
        for (std::size_t v = 0; v < voxels; ++v) squares[v] += std::norm(image[v]);
      }
    }
    const auto deviation = this->host(gain.deviation), g = this->host(gain.g);
    const auto points = static_cast<double>(c.encoded.size());
    const double rows = static_cast<double>(c.encoded[0] * c.encoded[1]);
    for (std::size_t v = 0; v < voxels; ++v) {
      const double truth = std::sqrt(squares[v] * static_cast<double>(samples)) / points;
      ASSERT_NEAR(static_cast<double>(deviation[v]), truth, 1e-5 * truth + 1e-9) << v;
      // Full sampling: coefficients S of all rows.
      const bool mapped = p.maps[v] != cfloat(0);
      const double full = std::sqrt(rows * static_cast<double>(samples)) / points;
      ASSERT_NEAR(static_cast<double>(g[v]),
                  mapped ? truth / full * std::sqrt(static_cast<double>(lattice_rows) / rows) : 0.0,
                  2e-5 * truth / full)
          << v;
    }
  }
}

TYPED_TEST(NoiseGainTest, OfUnfoldingIsThePublishedGFactor) {
  // Pruessmann 1999, eq. 23: g = sqrt((S^H S)^-1_jj (S^H S)_jj), for maps of unit length.
  const std::int64_t coils = 4, ny = 12, nx = 5;
  Random random(2);
  std::vector<cfloat> maps = random.normals(coils * ny * nx);
  for (std::int64_t v = 0; v < ny * nx; ++v) {
    float size = 0;
    for (std::int64_t c = 0; c < coils; ++c) size += std::norm(maps[static_cast<std::size_t>(c * ny * nx + v)]);
    for (std::int64_t c = 0; c < coils; ++c) maps[static_cast<std::size_t>(c * ny * nx + v)] /= std::sqrt(size);
  }
  const Lattice lattice{3, 1, 0, 1, 0};
  std::vector<std::uint8_t> came(static_cast<std::size_t>(ny));
  for (std::int64_t y = 1; y < ny; y += 3) came[static_cast<std::size_t>(y)] = 1;
  const RowPlan rows = plan_rows(lattice, ny, 1, came);
  const LineGeometry geometry{{1, ny, nx}, {1, ny, nx}, {1, ny, nx}, Direction::inverse};
  const auto there = this->upload(maps, {coils, 1, ny, nx});
  const auto u = unfold(this->context(), there.cview(), lattice, geometry, 0);
  const NoiseGain gain = noise_gain(this->context(), u.cview(), there.cview(), nullptr, nullptr, rows, geometry, nx);
  for (std::int64_t y = 0; y < ny; ++y)
    for (std::int64_t x = 0; x < nx; ++x) {
      Eigen::MatrixXcd s(coils, 3);
      for (std::int64_t j = 0; j < 3; ++j)
        for (std::int64_t c = 0; c < coils; ++c)
          s(c, j) = cdouble(maps[static_cast<std::size_t>((c * ny + (y + j * 4) % ny) * nx + x)]);
      const double truth = std::sqrt((s.adjoint() * s).inverse()(0, 0).real());
      ASSERT_NEAR(static_cast<double>(gain.g.data()[y * nx + x]), truth, 1e-5 * truth) << y << " " << x;
    }
}

TYPED_TEST(NoiseGainTest, RefusesShapesThatDoNotFit) {
  const auto maps = this->context().template zeros<cfloat>({2, 1, 6, 4});
  const RowPlan rows = plan_rows({}, 6, 1, std::vector<std::uint8_t>(6, 1));
  const LineGeometry geometry{{1, 6, 4}, {1, 6, 4}, {1, 6, 4}, Direction::inverse};
  const auto call = [&](const RowPlan& plan, std::int64_t samples) {
    return noise_gain(this->context(), maps.cview(), maps.cview(), nullptr, nullptr, plan, geometry, samples);
  };
  EXPECT_EQ(call(rows, 4).g.data()[0], 0);
  EXPECT_THROW(call(rows, 0), std::invalid_argument);
  EXPECT_THROW(call(plan_rows({}, 3, 2, std::vector<std::uint8_t>(6, 1)), 4), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
