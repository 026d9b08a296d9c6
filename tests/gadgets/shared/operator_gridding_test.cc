// The gridding of an operator's point spread function, which scans choose before their data come.
#include <gtest/gtest.h>

#include <random>

#include "gadgets/shared/operator_cache.h"
#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

template <class B>
class OperatorGriddingTest : public OnBackend<B> {
 protected:
  OperatorGriddingTest() {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> anywhere(-0.5, 0.5);
    auto positions = std::make_shared<SamplePositions>();
    positions->dims = 2;
    for (int i = 0; i < 600; ++i) positions->coordinates.push_back(anywhere(random));
    positions->weights.assign(300, 1.0f);
    request_.positions = positions;
    request_.image = {24, 20};
    request_.method = {.exact = false, .accuracy = 1e-5};
  }

  /// T x for an x of ones.
  std::vector<numerics::cfloat> applied() {
    const auto matrix = request_.make(this->context());
    const auto x = this->upload(std::vector<numerics::cfloat>(24 * 20, 1.0f), {24, 20});
    auto y = this->context().template zeros<numerics::cfloat>({24, 20});
    matrix->apply(this->context(), x.cview(), y.view());
    return this->download(y);
  }

  OperatorRequest request_;
};
TYPED_TEST_SUITE(OperatorGriddingTest, Backends, BackendNames);

TYPED_TEST(OperatorGriddingTest, ChosenAheadGivesTheSameBits) {
  const auto chosen_by_make = this->applied();
  this->request_.gridding = gridding_of(this->request_.method, this->request_.image, this->context().backend());
  EXPECT_EQ(this->applied(), chosen_by_make);
  this->request_.gridding->kernel_width = 2;  // an error of some 1e-2: it is this one that make() takes
  EXPECT_NE(this->applied(), chosen_by_make);
}

TYPED_TEST(OperatorGriddingTest, AnAccuracyThatNoneReachesIsRefused) {
  this->request_.method.accuracy = 1e-12;
  EXPECT_THROW(gridding_of(this->request_.method, this->request_.image, this->context().backend()),
               std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::testing
