#include "gadgets/numerics/weighted_power.h"

#include <limits>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

template <class B>
class WeightedPowerTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(WeightedPowerTest, testing::Backends, testing::BackendNames);

TYPED_TEST(WeightedPowerTest, IsTheSum) {
  for (const auto& [n, coils] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {17, 3}, {10001, 5}}) {
    testing::Random random(7);
    auto samples = random.normals(n * coils);
    std::vector<float> weights;
    for (std::int64_t s = 0; s < n; ++s) weights.push_back(static_cast<float>(random.uniform(0, 2)));
    if (n > 10) {
      weights[5] = 0;
      samples[static_cast<std::size_t>(5 * coils)] = {std::numeric_limits<float>::quiet_NaN(), 1};
    }
    double weighted = 0, plain = 0;
    for (std::int64_t i = 0; i < n * coils; ++i) {
      const auto w = weights[static_cast<std::size_t>(i / coils)];
      const double power = w == 0 ? 0 : std::norm(cdouble(samples[static_cast<std::size_t>(i)]));
      weighted += static_cast<double>(w) * power;
      plain += power;
    }
    const auto on_device = this->upload(samples, {n, coils});
    const auto w = this->upload(weights, {n});
    auto sum = this->context().template zeros<double>({1});
    add_weighted_power(this->context(), on_device.cview(), w.cview(), sum.view());
    EXPECT_NEAR(this->download(sum)[0], weighted, 1e-12 * weighted);
    add_weighted_power(this->context(), on_device.cview(), w.cview(), sum.view());
    EXPECT_NEAR(this->download(sum)[0], 2 * weighted, 1e-12 * weighted);
    if (n > 10) continue;
    auto all = this->context().template zeros<double>({1});
    add_weighted_power(this->context(), on_device.cview(), {}, all.view());
    EXPECT_NEAR(this->download(all)[0], plain, 1e-12 * plain);
  }
  auto sum = this->context().template zeros<double>({2});
  const auto samples = this->upload(std::vector<cfloat>(4), {2, 2});
  EXPECT_THROW(add_weighted_power(this->context(), samples.cview(), {}, sum.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
