// Kernels against normal equations written out in float64, and on k-space that kernels predict exactly.
#include "gadgets/numerics/mri/parallel/grappa_fit.h"

#include <limits>
#include <set>
#include <stop_token>

#include "tests/gadgets/numerics/mri/parallel/plain_grappa.h"

namespace echotrain::numerics {
namespace {

using namespace testing;

template <class B>
class GrappaFitTest : public OnBackend<B> {
 protected:
  KernelsOfTest fit(const KSpaceOfTest& block, const Lattice& lattice, const GrappaOptions& options,
                    const RowPlan& rows) {
    const auto there = this->upload(block.single(), block.shape());
    return {this->context(), fit_grappa(this->context(), there.cview(), lattice, options, rows)};
  }
};
TYPED_TEST_SUITE(GrappaFitTest, Backends, BackendNames);

/// All lattice rows between two others, and no further ones.
RowPlan rows_of(const Lattice& lattice, std::int64_t ny, std::int64_t nz, std::int64_t first = 0,
                std::int64_t last = 1 << 20) {
  std::vector<std::uint8_t> came;
  for (std::int64_t z = 0; z < nz; ++z)
    for (std::int64_t y = 0; y < ny; ++y) came.push_back(y >= first && y <= last && lattice.contains(y, z) ? 1 : 0);
  return plan_rows(lattice, ny, nz, came);
}

/// The first and last lattice rows of both axes.
struct Acquired {
  RowStep first{1 << 20, 1 << 20}, last{-1, -1};
  explicit Acquired(const RowPlan& rows) {
    for (std::int64_t z = 0; z < rows.nz; ++z)
      for (std::int64_t y = 0; y < rows.ny; ++y)
        if (rows.at(y, z) == RowPlan::on_lattice)
          for (std::size_t a = 0; a < 2; ++a) {
            first[a] = std::min(first[a], a == 0 ? y : z);
            last[a] = std::max(last[a], a == 0 ? y : z);
          }
  }
  /// Steps of the lattice outside of these.
  double outside(const Lattice& l, std::int64_t y, std::int64_t z) const {
    const double dy = static_cast<double>(std::max(first[0] - y, y - last[0])) / static_cast<double>(l.step_y);
    const double dz = static_cast<double>(std::max(first[1] - z, z - last[1])) / static_cast<double>(l.step_z);
    return std::max({0.0, dy, dz});
  }
};

struct FitCase {
  Lattice lattice;
  GrappaOptions options;
  std::int64_t coils, nz, ny, nx;
};

TYPED_TEST(GrappaFitTest, SolvesTheNormalEquations) {
  const std::vector<FitCase> cases{{{3, 1, 0, 1, 0}, {5, 4, 1}, 3, 1, 16, 23},
                                   {{2, 1, 0, 0, 0}, {3, 2, 4}, 5, 1, 12, 16},
                                   {{4, 1, 0, 0, 0}, {2, 3, 1}, 9, 1, 18, 20},
                                   {{2, 2, 0, 1, 0}, {1, 4, 4}, 4, 16, 15, 1},
                                   {{2, 2, 1, 0, 1}, {3, 2, 2}, 3, 8, 9, 10},
                                   {{1, 3, 0, 0, 0}, {3, 1, 2}, 2, 9, 3, 12},
                                   {{3, 2, 1, 0, 0}, {4, 2, 2}, 2, 7, 10, 9},
                                   {{3, 1, 0, 1, 0}, {5, 4, 1}, 9, 1, 40, 51}};  // several blocks of unknowns, and more
                                                                                 // places than a GPU sums at once
  for (const FitCase& c : cases) {
    SCOPED_TRACE(::testing::Message() << c.lattice.step_y << "x" << c.lattice.step_z << ", " << c.coils << " coils");
    const KSpaceOfTest block = correlated_kspace(c.coils, c.nz, c.ny, c.nx, 5);
    const RowPlan rows = rows_of(c.lattice, 24, c.nz > 1 ? 12 : 1, 3, 20);
    const Acquired acquired(rows);
    const KernelsOfTest made = this->fit(block, c.lattice, c.options, rows);
    ASSERT_EQ(made.coils, c.coils);
    int inside = 0, refitted = 0;
    for (std::int64_t of = 1; of < c.lattice.size(); ++of) {
      const GrappaKernel& full = made.kernels[static_cast<std::size_t>(of - 1)];
      const auto steps = kernel_sources(c.lattice, of, c.options.kernel_y, c.options.kernel_z);
      ASSERT_EQ(std::set(full.sources.begin(), full.sources.end()), std::set(steps.begin(), steps.end()));
      const PlainFit plain(block, full.sources, made.kernel_x);
      const double share = plain.share(c.options.regularization);
      const auto truth = plain.kernel(full.sources, share);
      EXPECT_LE((made.matrix(full) - truth).norm(), 1e-5 * truth.norm()) << "class " << of;
      if (c.lattice.size() == 2) {
        EXPECT_NEAR(made.residual, plain.residual(truth), 1e-6);
      }

      for (std::int64_t z = 0; z < rows.nz; ++z)
        for (std::int64_t y = 0; y < rows.ny; ++y) {
          if (c.lattice.class_of(y, z) != of) continue;
          const std::int32_t number = made.of_row[static_cast<std::size_t>(z * rows.ny + y)];
          const double outside = acquired.outside(c.lattice, y, z);
          std::vector<RowStep> present;
          for (const RowStep& s : full.sources)
            if (rows.at(y - s[0], z - s[1]) == RowPlan::on_lattice) present.push_back(s);
          ASSERT_EQ(number<0, outside> 0.5 || present.empty()) << y << " " << z;
          if (number < 0) continue;
          if (number == of - 1) {
            ++inside;
            EXPECT_TRUE(outside == 0 && present == full.sources) << y << " " << z;
            continue;
          }
          ++refitted;
          const GrappaKernel& kernel = made.kernels[static_cast<std::size_t>(number)];
          ASSERT_EQ(kernel.sources, present) << y << " " << z;
          const auto own = plain.kernel(present, outside > 0 ? std::max(share, c.options.outside) : share);
          EXPECT_LE((made.matrix(kernel) - own).norm(), 1e-5 * own.norm()) << y << " " << z;
        }
    }
    EXPECT_GT(inside, 0);
    EXPECT_GT(refitted, 0);
  }
}

TYPED_TEST(GrappaFitTest, HasTheSameBitsOnAnyNumberOfThreads) {
  const KSpaceOfTest block = correlated_kspace(9, 1, 20, 40, 7);
  const Lattice lattice{3, 1, 0, 0, 0};
  const RowPlan rows = rows_of(lattice, 30, 1);
  const KernelsOfTest made = this->fit(block, lattice, {}, rows);
  Context one(TypeParam::kBackend, test_resources(1));
  const auto values = block.single();
  const auto there = one.upload<cfloat>({values.data(), block.shape()});
  const KernelsOfTest again(one, fit_grappa(one, there.cview(), lattice, {}, rows));
  ASSERT_EQ(made.kernels.size(), again.kernels.size());
  EXPECT_EQ(made.values, again.values);
  EXPECT_EQ(made.residual, again.residual);
}

TYPED_TEST(GrappaFitTest, DoesNotDependOnTheScale) {
  const KSpaceOfTest block = correlated_kspace(4, 1, 20, 30, 7);
  const Lattice lattice{2, 1, 0, 0, 0};
  const RowPlan rows = rows_of(lattice, 30, 1);
  const auto first_of = [](const KernelsOfTest& made) { return made.matrix(made.kernels[0]); };
  const Eigen::MatrixXcd truth = first_of(this->fit(block, lattice, {}, rows));
  for (const double scale : {1e-15, 1e15}) {
    KSpaceOfTest scaled = block;
    for (cdouble& v : scaled.data) v *= scale;
    EXPECT_LE((first_of(this->fit(scaled, lattice, {}, rows)) - truth).norm(), 1e-5 * truth.norm());
  }
}

// What comes to the host is whether it went well, and how much each target has and is predicted.
TYPED_TEST(GrappaFitTest, KeepsKernelsWhereTheContextComputes) {
  const KSpaceOfTest block = correlated_kspace(6, 1, 20, 30, 7);
  const auto there = this->upload(block.single(), block.shape());
  const Lattice lattice{3, 1, 0, 0, 0};
  const std::uint64_t before = this->context().device_to_host_bytes();
  const GrappaKernels made = fit_grappa(this->context(), there.cview(), lattice, {}, rows_of(lattice, 30, 1));
  EXPECT_LE(this->context().device_to_host_bytes() - before, sizeof(double) * (3 + 2 * 2 * 6));
  EXPECT_EQ(made.weights.size(), made.kernels.back().first + 6 * 6 * 5 * std::ssize(made.kernels.back().sources));
}

TYPED_TEST(GrappaFitTest, StopsWithTheScan) {
  const KSpaceOfTest block = correlated_kspace(4, 1, 20, 30, 7);
  const auto there = this->upload(block.single(), block.shape());
  const Lattice lattice{2, 1, 0, 0, 0};
  std::stop_source stop;
  Context stopped(TypeParam::kBackend, test_resources(), {.stop_token = stop.get_token()});
  stop.request_stop();
  EXPECT_THROW(fit_grappa(stopped, there.cview(), lattice, {}, rows_of(lattice, 30, 1)), Stopped);
}

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "not refused";
}

TYPED_TEST(GrappaFitTest, SaysWhyACalibrationDoesNotDo) {
  const Lattice lattice{3, 1, 0, 0, 0};
  const RowPlan rows = rows_of(lattice, 30, 1);
  const auto of = [&](const KSpaceOfTest& block, const GrappaOptions& options = {}) {
    return refusal([&] { this->fit(block, lattice, options, rows); });
  };
  EXPECT_NE(
      of(correlated_kspace(4, 1, 9, 30, 1)).find("5 x 10 x 1 (x, y, z) points, and calibration lines have 30 x 9 x 1"),
      std::string::npos);
  EXPECT_NE(of(correlated_kspace(30, 1, 10, 30, 1)).find("26 equations for a kernel of 600 unknowns"),
            std::string::npos);
  KSpaceOfTest bad = correlated_kspace(4, 1, 20, 30, 1);
  bad.at(1, 0, 3, 3) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(of(bad).find("not finite"), std::string::npos);
  EXPECT_NE(of(KSpaceOfTest(4, 1, 20, 30)).find("singular calibration"), std::string::npos);
  // Two channels that hold the same, without regularization.
  KSpaceOfTest twins = correlated_kspace(2, 1, 20, 30, 1);
  for (std::int64_t y = 0; y < 20; ++y)
    for (std::int64_t x = 0; x < 30; ++x) twins.at(1, 0, y, x) = twins.at(0, 0, y, x);
  EXPECT_NE(of(twins, {5, 4, 4, 0, 0}).find("singular calibration"), std::string::npos);
  EXPECT_EQ(of(twins), "not refused");
  EXPECT_NE(of(twins, {0, 4, 4}).find("extent of 1 or more"), std::string::npos);
  EXPECT_NE(of(twins, {5, 4, 4, 2}).find("0 to 1"), std::string::npos);
}

}  // namespace
}  // namespace echotrain::numerics
