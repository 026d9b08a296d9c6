// Operators on disk are found by all that they depend on.
#include <gtest/gtest.h>

#include <cstring>

#include "gadgets/shared/cache/operator_cache.h"

namespace echotrain::testing {
namespace {

TEST(OperatorKeyTest, EveryBitOfATrajectoryCounts) {
  auto positions = std::make_shared<SamplePositions>();
  for (int i = 0; i < 10; ++i) positions->coordinates.push_back(0.01 * i);
  positions->weights.assign(5, 0.5f);
  OperatorRequest request{.positions = positions, .image = {1, 8, 8}};
  const std::string key = request.disk_key();
  EXPECT_EQ(request.disk_key(), key);
  const auto flip_all = [&](void* data, std::size_t bytes) {
    for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
      auto& byte = static_cast<unsigned char*>(data)[bit / 8];
      byte = static_cast<unsigned char>(byte ^ 1u << bit % 8);
      const std::string other = request.disk_key();
      ASSERT_EQ(other.size(), key.size());
      std::size_t differ = 0;  // the key holds the bits themselves, no digest that others could share
      for (std::size_t i = 0; i < key.size(); ++i) differ += other[i] != key[i] ? 1 : 0;
      ASSERT_EQ(differ, 1u) << bit;
      byte = static_cast<unsigned char>(byte ^ 1u << bit % 8);
    }
  };
  flip_all(positions->coordinates.data(), positions->coordinates.size() * sizeof(double));
  flip_all(positions->weights.data(), positions->weights.size() * sizeof(float));
  request.method.accuracy = 1e-5;
  EXPECT_EQ(request.disk_key(), key);  // of the other method only
  request.method.precision = numerics::Precision::fast;
  EXPECT_NE(request.disk_key(), key);
}

}  // namespace
}  // namespace echotrain::testing
