// The cut of a NUFFT's work into tiles and pieces: results do not depend on it beyond rounding.
#include "gadgets/numerics/transforms/nufft/tuning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/nufft_problem.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::make_problem;
using testing::Problem;

HostView<const double> coordinates_of(const Problem& p) {
  return {p.coordinates.data(), {p.count(), static_cast<std::int64_t>(p.image.rank())}};
}

template <class B>
class TuningTest : public testing::OnBackend<B> {
 protected:
  NufftTuning usual(const Problem& p) { return default_tuning(static_cast<int>(p.image.rank()), B::kBackend); }
  /// The default, and other tiles and lengths of pieces; on CUDA all tiles are alike.
  std::vector<NufftTuning> tunings(const Problem& p) {
    std::vector<NufftTuning> all{usual(p)};
    for (const std::int64_t piece : {64, 500, 2048}) all.push_back({{1, 1, 1}, piece});
    if (B::kBackend == Backend::cuda) {
      for (NufftTuning& tuning : all) std::copy_n(all.front().tile, 3, tuning.tile);
      return all;
    }
    const std::int32_t tiles[3][3] = {{1, 1, 2048}, {1, 16, 64}, {8, 8, 16}};
    for (NufftTuning& tuning : all)
      if (tuning.tile[2] == 1) std::copy_n(tiles[p.image.rank() - 1], 3, tuning.tile);
    return all;
  }
  std::vector<cfloat> adjoint(const Problem& p, const NufftTuning& tuning) {
    const auto plan = NufftPlan::make(this->context(), coordinates_of(p), p.image, p.options, tuning);
    EXPECT_EQ(plan->tuning(), tuning);
    auto samples = this->upload(p.samples, {p.count(), p.coils});
    auto weights = this->upload(p.weights, {p.count()});
    Shape shape{p.coils};
    for (const auto extent : p.image) shape.push_back(extent);
    auto image = this->context().template allocate<cfloat>(shape);
    plan->adjoint(this->context(), samples.cview(), weights.cview(), image.view());
    return this->download(image);
  }
};
TYPED_TEST_SUITE(TuningTest, Backends, testing::BackendNames);

TYPED_TEST(TuningTest, EveryCutGivesTheSameImage) {
  // Grids larger than the tiles, and tiles with more samples than a piece takes.
  for (const Shape& size : {Shape{1500}, Shape{67, 90}, Shape{13, 24, 46}}) {
    const Problem p = make_problem(size, 5, {5, 1.5}, 7000, 11);
    const auto expected = this->adjoint(p, this->usual(p));
    const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
    Shape grid;  // only the tolerance's small part depends on it
    for (const auto extent : size) grid.push_back(extent * 3 / 2);
    ASSERT_LT(testing::relative_error(expected, truth, truth.size()), testing::tolerance(p.options, p.image, grid));
    // Sums of some thousand numbers in fp32, in another order: each differs by some 1e-7.
    for (const NufftTuning& tuning : this->tunings(p))
      EXPECT_LT(testing::relative_error(this->adjoint(p, tuning), expected, expected.size()), 1e-6)
          << fmt::format("tiles of {}, pieces of {}", fmt::join(tuning.tile, " x "), tuning.most_piece);
  }
}

TYPED_TEST(TuningTest, ImpossibleTuningsAreRefused) {
  const Problem p = make_problem({20, 20}, 1, {5, 1.5}, 50, 9);
  const auto make = [&](const auto& change) {
    NufftTuning tuning = this->usual(p);
    change(tuning);
    return NufftPlan::make(this->context(), coordinates_of(p), p.image, p.options, tuning);
  };
  EXPECT_THROW(make([](NufftTuning& t) { t.tile[1] = 0; }), std::invalid_argument);
  EXPECT_THROW(make([](NufftTuning& t) { t.most_piece = 0; }), std::invalid_argument);
  EXPECT_NE(make([](NufftTuning&) {}), nullptr);
}

}  // namespace
}  // namespace echotrain::numerics
