#include "server/console/live/recent_images.h"

#include <gtest/gtest.h>

#include <chrono>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "protocol/data/meta.h"
#include "server/console/live/image_view.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;

protocol::Image image(std::uint16_t width, std::uint16_t height, float first, std::uint16_t series = 1) {
  protocol::Image image;
  image.head.data_type = 5;
  image.head.matrix_size[0] = width;
  image.head.matrix_size[1] = height;
  image.head.matrix_size[2] = image.head.channels = 1;
  image.head.image_series_index = series;
  std::vector<float> pixels(static_cast<std::size_t>(width) * height);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = first + static_cast<float>(i);
  image.pixels = protocol::Payload::take(std::move(pixels));
  return image;
}

bool wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

struct View {
  std::string head;
  std::vector<float> values;
};
View take_apart(const std::string& bytes) {
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data(), 4);
  View view{bytes.substr(4, length), std::vector<float>((bytes.size() - 4 - length) / 4)};
  EXPECT_EQ(length % 4, 0U);
  if (!view.values.empty()) std::memcpy(view.values.data(), bytes.data() + 4 + length, view.values.size() * 4);
  return view;
}
bool has(const View& view, const std::string& text) { return view.head.find(text) != std::string::npos; }

View view(protocol::Image made, const ViewRequest& wish) {
  KeptImage image(std::make_shared<numerics::MemoryBudget>());
  image.image = std::move(made);
  return take_apart(view_of(image, wish));
}

TEST(RecentImages, KeepsTheNewestWithinItsBound) {
  const auto budget = std::make_shared<numerics::MemoryBudget>();
  {
    RecentImages images(10'000, budget);  // two images of 32 x 32 floats
    for (int i = 0; i < 5; ++i) {
      images.add(7, image(32, 32, static_cast<float>(i)));
      ASSERT_TRUE(wait_until([&] { return images.newest().number == static_cast<std::uint64_t>(i) + 1; }));
    }
    const auto kept = images.of(7);
    ASSERT_EQ(kept.size(), 2U);
    EXPECT_EQ(kept[0]->number, 4U);
    EXPECT_EQ(kept[1]->number, 5U);
    EXPECT_EQ(images.newest(7)->number, 5U);
    EXPECT_EQ(images.newest(8), nullptr);
    EXPECT_EQ(images.find(7, 4)->number, 4U);
    EXPECT_EQ(images.find(7, 3), nullptr);
    EXPECT_EQ(images.find(8, 4), nullptr);  // of another scan
    EXPECT_EQ(budget->used(), images.bytes());
    EXPECT_LE(images.bytes(), 10'000U);
    images.add(7, image(64, 64, 0));  // larger than the bound
    EXPECT_EQ(images.left_out(), 1U);
  }
  EXPECT_EQ(budget->used(), 0U);
}

/// Room for six images. A client with a third of it or less loses none to the others, also to scans that need memory.
TEST(RecentImages, OfOneClientPushOutNoneOfAnother) {
  const auto budget = std::make_shared<numerics::MemoryBudget>(40'000);
  RecentImages images(30'000, budget);
  std::uint64_t made = 0;
  const auto add = [&](std::uint64_t session, const std::string& client) {
    images.add(session, image(32, 32, 0), client);
    EXPECT_TRUE(wait_until([&] { return images.newest().number == made + 1; }));
    ++made;
  };
  add(1, "little");
  add(2, "little");
  for (int i = 0; i < 20; ++i) add(3, "much");
  add(4, "other");
  EXPECT_EQ(images.extent(1).count, 1U);
  EXPECT_EQ(images.extent(2).count, 1U);
  EXPECT_EQ(images.extent(3).count, 3U);
  EXPECT_EQ(images.extent(4).count, 1U);
  ASSERT_TRUE(budget->take(14'000));  // one image goes for it
  EXPECT_EQ(images.extent(1).count, 1U);
  EXPECT_EQ(images.extent(3).count, 2U);
  EXPECT_EQ(images.extent(3).last, 22U);
  budget->give(14'000);
}

/// At most 100,000 are kept.
TEST(RecentImages, TinyOnesOfOneClientPushOutNoneOfAnother) {
  RecentImages images(256 << 20, std::make_shared<numerics::MemoryBudget>());
  const protocol::Image tiny = image(1, 1, 0);
  images.add(1, tiny, "little");
  std::uint64_t made = 0;
  for (; made < 100'010; ++made) {
    if (made % 60 == 0) {
      ASSERT_TRUE(wait_until([&] { return images.newest().number == made + 1; }));
    }
    images.add(2, tiny, "much");
  }
  ASSERT_TRUE(wait_until([&] { return images.newest().number == made + 1; }));
  EXPECT_EQ(images.left_out(), 0U);
  EXPECT_EQ(images.extent(1).count, 1U);
  EXPECT_LT(images.extent(2).count, 100'000U);
  EXPECT_GT(images.extent(2).count, 99'000U);
}

/// Those that wait to be copied wait in parts, too: the thread copies the first one for longer than it takes to add
/// all.
TEST(RecentImages, AFloodOfOneClientLeavesOutNoneOfAnother) {
  RecentImages images(1 << 30, std::make_shared<numerics::MemoryBudget>());
  const protocol::Image large = image(2048, 2048, 0);
  for (int i = 0; i < 200; ++i) images.add(1, large, "much");
  ASSERT_GT(images.left_out(), 0U);
  images.add(2, large, "little");
  EXPECT_TRUE(wait_until([&] { return images.extent(2).count == 1; }));
}

TEST(RecentImages, GiveWayToScans) {
  const auto budget = std::make_shared<numerics::MemoryBudget>(20'000);
  RecentImages images(15'000, budget);
  for (int i = 0; i < 3; ++i) {
    images.add(1, image(32, 32, 0));
    ASSERT_TRUE(wait_until([&] { return images.newest().number == static_cast<std::uint64_t>(i) + 1; }));
  }
  ASSERT_EQ(images.of(1).size(), 3U);
  ASSERT_TRUE(budget->take(12'000));  // of which some 7,000 were left
  ASSERT_EQ(images.of(1).size(), 1U);
  EXPECT_EQ(images.of(1)[0]->number, 3U);  // the oldest have gone
  ASSERT_TRUE(budget->take(8'000));
  EXPECT_TRUE(images.of(1).empty());
  EXPECT_EQ(images.newest(1), nullptr);
  images.add(1, image(32, 32, 0));  // takes nothing that others have
  EXPECT_TRUE(wait_until([&] { return images.left_out() == 1; }));
  budget->give(20'000);
}

TEST(RecentImages, AreListedInPartsAndBySession) {
  RecentImages images(1 << 20, std::make_shared<numerics::MemoryBudget>());
  const std::size_t count = kMostListed + 2;
  for (std::size_t i = 0; i < count; ++i) {
    images.add(1 + i % 2, image(2, 2, 0));
    ASSERT_TRUE(wait_until([&] { return images.newest().number == i + 1; }));
  }
  EXPECT_EQ(images.extent(1).count, count / 2);
  EXPECT_EQ(images.extent(1).first, 1U);
  EXPECT_EQ(images.extent(2).last, count);
  EXPECT_EQ(images.extent(3).count, 0U);
  const auto some = images.of(2, 3, 2);
  ASSERT_EQ(some.size(), 2U);
  EXPECT_EQ(some[0]->number, 4U);
  EXPECT_EQ(some[1]->number, 6U);
  EXPECT_TRUE(images.of(2, count).empty());
  for (std::size_t i = 0; i < count; ++i) {
    images.add(5, image(1, 1, 0));
    ASSERT_TRUE(wait_until([&] { return images.newest().number == count + i + 1; }));
  }
  EXPECT_NE(images_json(images, 5, 0).find("\"more\":true"), std::string::npos);
  EXPECT_NE(images_json(images, 5, count + 2).find("\"more\":false"), std::string::npos);
  EXPECT_NE(images_json(images, 6, 0).find("{\"first\":0,\"more\":false,\"images\":[]}"), std::string::npos);
  images.evict(1);  // the oldest, of session 1
  EXPECT_EQ(images.extent(1).first, 3U);
}

TEST(RecentImages, LeaveOutWhatItsHeaderDoesNotDescribe) {
  RecentImages images(1 << 20, std::make_shared<numerics::MemoryBudget>());
  protocol::Image lies = image(2, 2, 0);
  lies.head.matrix_size[0] = lies.head.matrix_size[1] = 65535;
  images.add(1, lies);
  lies.head.data_type = 0;
  images.add(1, lies);
  EXPECT_EQ(images.left_out(), 2U);
  EXPECT_TRUE(view(lies, {}).values.empty());  // 16 GiB otherwise
}

TEST(RecentImages, HaveCopiesOfTheirOwn) {
  const auto budget = std::make_shared<numerics::MemoryBudget>();
  RecentImages images(1 << 20, budget);
  auto pixels = std::make_shared<std::vector<float>>(16, 3.0f);
  protocol::Image sent = image(4, 4, 0);
  sent.pixels = {pixels, std::as_bytes(std::span(*pixels))};
  images.add(1, sent);
  ASSERT_TRUE(wait_until([&] { return images.newest().number == 1; }));
  sent.pixels = {};
  EXPECT_TRUE(wait_until([&] { return pixels.use_count() == 1; }));  // the scan's memory is its own again
  (*pixels)[0] = 9;
  float kept = 0;
  std::memcpy(&kept, images.newest(1)->image.pixels.bytes.data(), sizeof(kept));
  EXPECT_EQ(kept, 3);
}

// Memory of images that were dropped is used again, but not while somebody looks at one.
TEST(RecentImages, StayAsTheyAreForWhoHasThem) {
  RecentImages images(10'000, std::make_shared<numerics::MemoryBudget>());  // two images of 32 x 32 floats
  std::vector<std::shared_ptr<const KeptImage>> had;
  std::vector<protocol::Payload> pixels;
  for (int i = 0; i < 24; ++i) {
    images.add(1, image(32, 32, static_cast<float>(1000 * i)));
    ASSERT_TRUE(wait_until([&] { return images.newest().number == static_cast<std::uint64_t>(i) + 1; }));
    if (i % 3 == 0) had.push_back(images.newest(1));
    if (i % 3 == 1) pixels.push_back(images.newest(1)->image.pixels);
  }
  const auto last = [](const protocol::Payload& payload) {
    float value = 0;
    EXPECT_EQ(payload.bytes.size(), 32 * 32 * sizeof(float));
    std::memcpy(&value, payload.bytes.data() + payload.bytes.size() - sizeof(value), sizeof(value));
    return value;
  };
  for (std::size_t i = 0; i < had.size(); ++i) {
    EXPECT_EQ(last(had[i]->image.pixels), static_cast<float>(3000 * i + 1023));
    EXPECT_EQ(last(pixels[i]), static_cast<float>(3000 * i + 1000 + 1023));
  }
}

TEST(ImageView, IsThePlaneThatIsAskedFor) {
  protocol::Image volume = image(3, 8, 0);
  volume.head.matrix_size[1] = 2;
  volume.head.matrix_size[2] = 2;
  volume.head.channels = 2;
  ViewRequest wish;
  wish.z = 1;
  wish.channel = 1;
  const View asked = view(volume, wish);
  EXPECT_EQ(asked.values, (std::vector<float>{18, 19, 20, 21, 22, 23}));
  EXPECT_TRUE(has(asked, "\"low\":18.0,\"high\":23.0")) << asked.head;
  wish.z = wish.channel = 99;  // the last ones
  EXPECT_EQ(view(volume, wish).values, asked.values);
}

TEST(ImageView, SmallerPlanesHoldMeans) {
  const View small = view(image(3, 3, 0), {0, 0, ViewPart::magnitude, 2});
  EXPECT_EQ(small.values, (std::vector<float>{2, 3.5f, 6.5f, 8}));  // of 0 1 3 4, of 2 5, of 6 7, of 8
  EXPECT_TRUE(has(small, "\"width\":2,\"height\":2")) << small.head;
  EXPECT_TRUE(has(small, "\"low\":0.0,\"high\":8.0")) << small.head;  // of all pixels
  protocol::Image phases = image(2, 2, 1);
  phases.head.image_type = 2;
  EXPECT_EQ(view(phases, {0, 0, ViewPart::magnitude, 2}).values, (std::vector<float>{1}));  // one of them
}

TEST(ImageView, SaysWhatAMapSays) {
  protocol::Image map = image(2, 1, 0);
  EXPECT_TRUE(has(view(map, {}), "\"map\":null"));
  map.attributes = protocol::meta_text({{"map_quantity", {"T1"}},
                                        {"map_unit", {"ms"}},
                                        {"map_statistic", {"value"}},
                                        {"RescaleSlope", {"0.1"}},
                                        {"WindowCenter", {"800"}},
                                        {"WindowWidth", {"1600"}}});
  EXPECT_TRUE(
      has(view(map, {}),
          R"("map":{"quantity":"T1","unit":"ms","deviation":false,"slope":0.1,"intercept":0.0,"window":[0.0,1600.0]})"))
      << view(map, {}).head;
  EXPECT_EQ(view(map, {}).values, (std::vector<float>{0, 1}));  // as they were sent
  map.attributes = protocol::meta_text({{"map_quantity", {std::string(40, 'q') + "\n"}},
                                        {"map_statistic", {"sd"}},
                                        {"RescaleSlope", {"nan"}},
                                        {"RescaleIntercept", {"1e999"}},
                                        {"WindowWidth", {"-1"}}});
  const View odd = view(map, {});
  EXPECT_TRUE(has(odd, R"("deviation":true,"slope":1.0,"intercept":0.0,"window":null})")) << odd.head;
  EXPECT_FALSE(has(odd, std::string(17, 'q')));
  map.attributes += std::string(1 << 20, ' ');  // not read for each viewer
  EXPECT_TRUE(has(view(map, {}), "\"map\":null"));
}

TEST(ImageView, TakesComplexAndWholeNumbers) {
  protocol::Image one = image(2, 1, 0);
  one.head.data_type = 7;
  one.pixels = protocol::Payload::take(std::vector<std::complex<float>>{{3, 4}, {0, -2}});
  EXPECT_EQ(view(one, {}).values, (std::vector<float>{5, 2}));
  const View phase = view(one, {0, 0, ViewPart::phase, 1});
  EXPECT_NEAR(phase.values[1], -1.57079633, 1e-6);
  EXPECT_TRUE(has(phase, "\"part\":\"phase\""));
  one.head.data_type = 2;
  one.pixels = protocol::Payload::take(std::vector<std::int16_t>{-3, 7});
  EXPECT_EQ(view(one, {}).values, (std::vector<float>{-3, 7}));
  one.pixels = {};  // fewer pixels than the head says
  EXPECT_TRUE(view(one, {}).values.empty());
}

TEST(ImageView, RangeIsOfFinitePixels) {
  protocol::Image one = image(3, 1, 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  one.pixels = protocol::Payload::take(std::vector<float>{nan, 2, 5});
  EXPECT_TRUE(has(view(one, {}), "\"low\":2.0,\"high\":5.0"));
  one.pixels = protocol::Payload::take(std::vector<float>{nan, nan, nan});
  EXPECT_TRUE(has(view(one, {}), "\"low\":0,\"high\":0") || has(view(one, {}), "\"low\":0.0,\"high\":0.0"));
}

}  // namespace
}  // namespace echotrain::server
