// The gridding of an operator's point spread function, which scans choose before their data come.
#include <gtest/gtest.h>

#include <random>

#include "gadgets/shared/cache/operator_cache.h"
#include "tests/gadgets/scan.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

class OperatorGriddingTest : public OnEachBackend {
 protected:
  void SetUp() override {
    OnEachBackend::SetUp();
    if (IsSkipped()) return;
    std::mt19937 random(1);
    std::uniform_real_distribution<double> anywhere(-0.5, 0.5);
    auto positions = std::make_shared<SamplePositions>();
    positions->dims = 2;
    for (int i = 0; i < 600; ++i) positions->coordinates.push_back(anywhere(random));
    positions->weights.assign(300, 1.0f);
    request_.positions = positions;
    request_.image = {24, 20};
    request_.method = {.exact = false, .accuracy = 1e-5};
    context_ = std::make_unique<numerics::Context>(GetParam(), test_resources());
  }

  numerics::NufftOptions chosen() { return gridding_of(request_.method, request_.image, GetParam()); }

  /// T x for an x of ones.
  std::vector<cfloat> applied() {
    const auto matrix = request_.make(*context_);
    const std::vector<cfloat> ones(24 * 20, 1.0f);
    const Array<cfloat> x = context_->upload<cfloat>({ones.data(), {24, 20}});
    Array<cfloat> y = context_->zeros<cfloat>({24, 20});
    matrix->apply(*context_, x.cview(), y.view());
    return elements(*context_, y);
  }

  OperatorRequest request_;
  std::unique_ptr<numerics::Context> context_;
};
ECHOTRAIN_ON_BACKENDS(OperatorGriddingTest);

TEST_P(OperatorGriddingTest, ChosenAheadGivesTheSameBits) {
  const std::vector<cfloat> chosen_by_make = applied();
  request_.gridding = chosen();
  EXPECT_EQ(applied(), chosen_by_make);
  request_.gridding->kernel_width = 2;  // an error of some 1e-2: it is this one that make() takes
  EXPECT_NE(applied(), chosen_by_make);
}

TEST_P(OperatorGriddingTest, AnAccuracyThatNoneReachesIsRefused) {
  request_.method.accuracy = 1e-12;
  EXPECT_THROW(chosen(), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::testing
