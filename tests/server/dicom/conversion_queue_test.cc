#include "server/dicom/conversion_queue.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <vector>

#include "protocol/wire/slab_pool.h"

namespace echotrain::server {
namespace {

constexpr std::size_t kMost = 1 << 20;

protocol::Image waiting_image(std::uint16_t index = 1, std::size_t attribute_bytes = 0) {
  protocol::Image image;
  image.head.image_index = index;
  image.attributes = std::string(attribute_bytes, 'x');
  image.pixels = protocol::Payload::take(std::vector<std::uint16_t>(1));
  return image;
}

/// Takes the first piece of work out; its image's index.
int take_first(ConversionQueue& queue) {
  const Conversion out = queue.pop(queue.front());
  return out.image ? +out.image->head.image_index : 0;
}

TEST(ConversionQueue, CountsAllMemoryThatTinyImagesTake) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "a sanitizer's allocator does not tell";
#endif
  constexpr int kMany = 4000;
  for (const std::size_t attribute_bytes : {std::size_t{0}, std::size_t{100}}) {
    ConversionQueue queue(kMost);
    const std::uint64_t before = ::mallinfo2().uordblks;
    for (int i = 0; i < kMany; ++i) queue.push("a", Conversion(nullptr, waiting_image(1, attribute_bytes)));
    const std::uint64_t took = ::mallinfo2().uordblks - before;
    EXPECT_GE(queue.bytes(), took);
    EXPECT_LE(queue.bytes(), 2 * took) << "and not far more";
    while (!queue.empty()) take_first(queue);
    EXPECT_EQ(queue.bytes(), 0U);
  }
}

TEST(ConversionQueue, ASmallImageDoesNotKeepTheMemoryThatItCameIn) {
  constexpr std::size_t kSlab = protocol::SlabPool::kSlabBytes;
  const auto slab = std::make_shared<std::vector<std::byte>>(2 * kSlab);
  protocol::Image image = waiting_image();
  for (const std::size_t bytes : {std::size_t{2}, kSlab - 1}) {
    image.pixels = {slab, std::span<const std::byte>(*slab).subspan(1000, bytes)};
    const Conversion small(nullptr, image);
    EXPECT_EQ(small.image->pixels.bytes.size(), bytes);
    EXPECT_NE(small.image->pixels.bytes.data(), slab->data() + 1000);
  }
  image.pixels = {slab, std::span<const std::byte>(*slab).subspan(1000, kSlab)};
  const Conversion large(nullptr, image);
  EXPECT_EQ(large.image->pixels.bytes.data(), slab->data() + 1000) << "is not copied";
  EXPECT_GE(large.bytes, kSlab + kSlab / 4) << "counts with what it may have come in";
}

TEST(ConversionQueue, ClientsTakeTurns) {
  ConversionQueue queue(kMost);
  for (const std::uint16_t i : {1, 2, 3}) queue.push("a", Conversion(nullptr, waiting_image(i)));
  for (const std::uint16_t i : {11, 12}) queue.push("b", Conversion(nullptr, waiting_image(i)));
  std::vector<int> order;
  while (!queue.empty()) {
    const std::string* const whose = queue.whose();
    order.push_back(take_first(queue));
    if (queue.whose() == whose) queue.pass();
  }
  EXPECT_EQ(order, (std::vector<int>{1, 11, 2, 12, 3}));
}

TEST(ConversionQueue, WorkMayGoBeforeWhatHasBegun) {
  ConversionQueue queue(kMost);
  queue.push("a", Conversion(nullptr, waiting_image(1)));
  const Conversion& begun = queue.front();
  queue.push_front("a", Conversion(nullptr));
  EXPECT_FALSE(queue.front().image);
  EXPECT_EQ(queue.pop(begun).image->head.image_index, 1);
  EXPECT_EQ(take_first(queue), 0);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.whose(), nullptr);
}

TEST(ConversionQueue, AClientLeavesAsMuchAsItHasAndAlwaysHasRoomForSomething) {
  ConversionQueue queue(kMost);
  const std::size_t each = kMost / 8;
  const auto fill = [&](const std::string& client, std::size_t kept) {
    int fitted = 0;
    for (; queue.fits(client, each, kept); ++fitted) {
      Conversion work(nullptr);
      work.bytes = each;
      queue.push(client, std::move(work));
    }
    return fitted;
  };
  EXPECT_FALSE(queue.fits("a", kMost + 1, 0));
  EXPECT_EQ(fill("a", 0), 4) << "a fifth one of eight would leave three";
  EXPECT_EQ(fill("b", 0), 2);
  EXPECT_EQ(fill("c", each), 1) << "the eighth is kept elsewhere";
  EXPECT_FALSE(queue.fits("d", each, each));
}

TEST(ConversionQueue, WhatIsCountedElsewhereIsNoLongerCountedHere) {
  ConversionQueue queue(kMost);
  Conversion work(nullptr);
  const std::size_t place = work.bytes;
  work.bytes += 1000;
  queue.push("a", std::move(work));
  EXPECT_EQ(queue.bytes(), place + 1000);
  queue.count_as(queue.front(), place);
  EXPECT_EQ(queue.bytes(), place);
  queue.pop(queue.front());
  EXPECT_EQ(queue.bytes(), 0U);
}

}  // namespace
}  // namespace echotrain::server
