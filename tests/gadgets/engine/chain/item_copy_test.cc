// Copies of items have data of their own, and share what no gadget writes to.
#include "gadgets/engine/chain/item_copy.h"

#include <memory>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

using ItemCopyTest = OnEachBackend;

Array<cfloat> numbers(numerics::Context& compute, float first) {
  HostArray<cfloat> host = compute.allocate_host<cfloat>({2, 3});
  for (std::int64_t i = 0; i < host.size(); ++i) host.data()[i] = {first + static_cast<float>(i), -first};
  return compute.upload<cfloat>(host.view());
}

template <class T>
T copied(const T& item, numerics::Context& compute) {
  return std::get<T>(copy_of(Item(item), compute));
}

template <class T>
void expect_own_data(numerics::Context& compute) {
  T item;
  item.frame = std::make_shared<Frame>();
  item.data = numbers(compute, 5);
  const T copy = copied(item, compute);
  EXPECT_EQ(copy.frame, item.frame);
  EXPECT_NE(copy.data.data(), item.data.data());
  EXPECT_EQ(copy.data.shape(), item.data.shape());
  EXPECT_EQ(elements(compute, copy.data), elements(compute, item.data));
  EXPECT_FALSE(copied(T{}, compute).data);
}

TEST_P(ItemCopyTest, EveryTypeHasItsDataOnItsOwn) {
  numerics::Context compute(GetParam(), test_resources());
  expect_own_data<Readouts>(compute);
  expect_own_data<PlaneReadouts>(compute);
  expect_own_data<Samples>(compute);
  expect_own_data<PlaneSamples>(compute);
  expect_own_data<KSpace>(compute);
  expect_own_data<Grid>(compute);
  expect_own_data<OversampledImages>(compute);
  expect_own_data<CoilImages>(compute);
  expect_own_data<Echoes>(compute);
  expect_own_data<EchoSpectra>(compute);
}

TEST_P(ItemCopyTest, OtherDataToo) {
  numerics::Context compute(GetParam(), test_resources());
  PlaneReadouts noise;
  noise.kind = protocol::ReadoutKind::noise;
  noise.planes = 4;
  noise.heads.resize(2);
  noise.host_data = compute.allocate_host<cfloat>({2, 1});
  noise.host_data.data()[0] = 3;
  noise.host_data.data()[1] = 4;
  noise.trajectory = compute.allocate_host<float>({2, 1, 1});
  const PlaneReadouts copy = copied(noise, compute);
  EXPECT_NE(copy.host_data.data(), noise.host_data.data());
  EXPECT_EQ(copy.host_data.data()[1], cfloat(4));
  EXPECT_EQ(copy.trajectory.data(), noise.trajectory.data());
  EXPECT_EQ(copy.heads.size(), 2u);
  EXPECT_EQ(copy.planes, 4);

  NormalEquations equations;
  equations.right = numbers(compute, 1);
  equations.maps = numbers(compute, 2);
  EXPECT_NE(copied(equations, compute).right.data(), equations.right.data());
  EXPECT_EQ(elements(compute, copied(equations, compute).right), elements(compute, equations.right));
  EXPECT_EQ(copied(equations, compute).maps.data(), equations.maps.data());

  Image image;
  image.message.pixels = protocol::Payload::take(std::vector<float>{1, 2});
  image.times = std::make_shared<ImageTimes>();
  EXPECT_NE(copied(image, compute).times, image.times);
  EXPECT_EQ(copied(image, compute).message.pixels.bytes.data(), image.message.pixels.bytes.data());
}

TEST_P(ItemCopyTest, CountInTheBudget) {
  numerics::Context compute(GetParam(), test_resources(), {.memory_budget = 3 << 20});
  const CoilImages images{nullptr, compute.allocate<cfloat>({2, 512, 256})};  // 2 MiB
  EXPECT_THROW(copy_of(Item(images), compute), numerics::ResourceError);
}
ECHOTRAIN_ON_BACKENDS(ItemCopyTest);

}  // namespace
}  // namespace echotrain::testing
