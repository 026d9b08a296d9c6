// The bounded queues of a session.
#include <gmock/gmock.h>
#include <malloc.h>

#include <atomic>
#include <future>

#include "server/scan/inbox.h"
#include "server/scan/outbox.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;

std::vector<protocol::Acquisition> readouts(std::size_t n, std::size_t bytes_each, std::uint32_t first = 0) {
  std::vector<protocol::Acquisition> batch(n);
  for (std::size_t i = 0; i < n; ++i) {
    batch[i].head.scan_counter = first + static_cast<std::uint32_t>(i);
    batch[i].data = protocol::Payload::take(std::vector<std::byte>(bytes_each));
  }
  return batch;
}
protocol::Image image(std::size_t bytes) {
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = 1;  // uint16
  image.head.matrix_size[0] = static_cast<std::uint16_t>(bytes / 2);
  image.head.matrix_size[1] = image.head.matrix_size[2] = image.head.channels = 1;
  image.pixels = protocol::Payload::take(std::vector<std::byte>(bytes));
  return image;
}

// Not under a sanitizer, whose allocator does not tell.
std::uint64_t heap_in_use() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(Inbox, MergesReadoutsAndKeepsTheirOrderAmongImages) {
  Inbox inbox(1 << 30, [] {});
  inbox.push(readouts(2, 100, 0));
  inbox.push(readouts(3, 100, 2));
  inbox.push(image(10));
  inbox.push(readouts(1, 100, 5));
  inbox.finish(End::truncated);
  const auto first = inbox.take();
  const auto& batch = std::get<std::vector<protocol::Acquisition>>(*first.work);
  ASSERT_EQ(batch.size(), 5U);
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(+batch[i].head.scan_counter, i);
  EXPECT_TRUE(std::holds_alternative<protocol::Image>(*inbox.take().work));
  EXPECT_EQ(std::get<0>(*inbox.take().work).size(), 1U);
  const auto end = inbox.take();
  EXPECT_FALSE(end.work);
  EXPECT_EQ(end.end, End::truncated);
}

TEST(Inbox, SaysHowManyReadoutsWaitBehindWhatItHasGiven) {
  Inbox inbox(1 << 30, [] {});
  inbox.push(readouts(2, 100, 0));
  inbox.push(image(10));
  inbox.push(readouts(3, 100, 2));
  inbox.push(readouts(1, 2 * Inbox::kBatchBytes, 5));
  for (const std::int64_t waiting : {4, 4, 1, 0}) {
    inbox.take();
    EXPECT_EQ(inbox.waiting(), waiting);
  }
  inbox.push(readouts(1, 100, 6));
  EXPECT_EQ(inbox.waiting(), 1) << "what has come since, too";
}

/// Heads are copies: what came, and they, are two things to pay for.
TEST(Inbox, SaysWhatOfItLiesInTheMemoryThatItCameIn) {
  Inbox inbox(1 << 30, [] {});
  const std::size_t own = 3 * sizeof(protocol::Acquisition) + sizeof(protocol::Image);
  inbox.push(readouts(3, 100));
  inbox.push(image(10));
  EXPECT_EQ(inbox.payload_bytes(), 310U);
  EXPECT_GT(inbox.bytes(), 310 + own) << "and their places in the queue";
  inbox.take();
  EXPECT_EQ(inbox.payload_bytes(), 310U) << "the worker has it";
  inbox.take();
  EXPECT_EQ(inbox.payload_bytes(), 10U);
  inbox.cancel();
  EXPECT_EQ(inbox.payload_bytes(), 10U);
}

/// Whatever is small takes more place than its bytes.
TEST(Inbox, PaysForTheHeapThatItTakes) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "a sanitizer's allocator does not tell";
#endif
  const auto small_batch = [] {  // as a read leaves it that was like one of many readouts
    std::vector<protocol::Acquisition> batch;
    batch.reserve(4);
    batch.resize(1);
    batch[0].data.owner = std::make_shared<const std::shared_ptr<int>>();
    return batch;
  };
  const auto small_image = [] {
    protocol::Image image;
    image.attributes = std::string(100, 'a');
    return image;
  };
  const std::function<Work()> kinds[] = {[] { return protocol::Waveform(); }, small_image, small_batch};
  for (const auto& small : kinds) {
    const auto memory = std::make_shared<QueueMemory>(1 << 30);
    Inbox inbox(
        1 << 30, [] {}, memory);
    const std::uint64_t before = heap_in_use();
    for (int i = 0; i < 10000; ++i) inbox.push(small());
    EXPECT_GE(memory->used(), heap_in_use() - before);
  }
}

TEST(Inbox, LeavesTheScanWhatWasReservedForIt) {
  const auto budget = std::make_shared<numerics::MemoryBudget>(200000);
  const auto account = std::make_shared<numerics::MemoryAccount>(budget);
  const auto memory = std::make_shared<QueueMemory>(account);
  Inbox inbox(
      1 << 30, [] {}, memory);
  ASSERT_TRUE(account->reserve(100000));
  inbox.push(readouts(1, 60000));
  EXPECT_GE(memory->held(), 60000U);
  EXPECT_EQ(memory->used(), memory->held());
  EXPECT_FALSE(memory->borrows());
  budget->take(budget->left());  // others have the rest
  EXPECT_NO_THROW(account->take(90000)) << "as much was reserved";
  EXPECT_TRUE(memory->borrows());
  EXPECT_NO_THROW(memory->check());
  EXPECT_THROW(account->take(20000), OverBudget);
  inbox.take();
  inbox.finish(End::complete);
  inbox.take();
  EXPECT_FALSE(memory->borrows());
  EXPECT_EQ(memory->used(), 0U);
  account->give(90000);
}

TEST(Inbox, IsFullUntilTheWorkIsDoneAndSaysWhenThereIsRoom) {
  int room = 0;
  Inbox inbox(100000, [&] { ++room; });
  inbox.push(readouts(1, 60000));
  EXPECT_FALSE(inbox.full());
  inbox.push(image(60000));
  EXPECT_TRUE(inbox.full());
  inbox.take();  // what the worker holds still counts
  EXPECT_TRUE(inbox.full());
  EXPECT_EQ(room, 0);
  inbox.take();
  EXPECT_FALSE(inbox.full());
  EXPECT_EQ(room, 1);
}

TEST(Inbox, BatchesAreBounded) {
  Inbox inbox(1 << 30, [] {});
  for (int i = 0; i < 8; ++i) inbox.push(readouts(1, 1 << 20));
  EXPECT_LE(bytes_of(*inbox.take().work), Inbox::kBatchBytes);
  inbox.push(readouts(1, 2 * Inbox::kBatchBytes));
  std::size_t most = 0;
  inbox.finish(End::complete);
  for (auto taken = inbox.take(); taken.work; taken = inbox.take()) most = std::max(most, bytes_of(*taken.work));
  EXPECT_GT(most, 2 * Inbox::kBatchBytes);  // a larger message comes alone
}

TEST(Inbox, CancelWakesTheWorkerAndDropsWhatIsThere) {
  Inbox inbox(1 << 20, [] {});
  auto taken = std::async(std::launch::async, [&] { return inbox.take(); });
  std::this_thread::sleep_for(10ms);
  inbox.cancel();
  const auto result = taken.get();
  EXPECT_FALSE(result.work);
  EXPECT_FALSE(result.end);
  inbox.push(image(10));
  EXPECT_FALSE(inbox.take().work);
  EXPECT_FALSE(inbox.full());
}

/// Many small things take long to free: that is not for who cancels.
TEST(Inbox, WhatWasQueuedIsFreedByWhoIsGivenIt) {
  const auto memory = std::make_shared<QueueMemory>(1 << 30);
  Inbox inbox(
      1 << 30, [] {}, memory);
  auto pixels = std::make_shared<std::vector<std::byte>>(5000);
  const std::weak_ptr<std::vector<std::byte>> held = pixels;
  protocol::Image large = image(5000);
  large.pixels = {pixels, *pixels};
  pixels.reset();
  inbox.push(std::move(large));
  inbox.cancel();
  EXPECT_FALSE(held.expired());
  std::shared_ptr<void> rest = inbox.hand_over();
  EXPECT_EQ(inbox.bytes(), 0u);
  EXPECT_FALSE(held.expired());
  EXPECT_GE(memory->used(), 5000u) << "it is still there";
  rest.reset();
  EXPECT_TRUE(held.expired());
  EXPECT_EQ(memory->used(), 0u);
  EXPECT_FALSE(inbox.hand_over());
}

TEST(Outbox, WaitsForRoomUntilMessagesAreSentOrTheWaitIsCancelled) {
  Outbox outbox(1000, [] {});
  std::atomic<bool> cancelled = false;
  outbox.wait_for_room(cancelled);  // returns at once
  outbox.image(image(2000));
  auto waiting = std::async(std::launch::async, [&] { outbox.wait_for_room(cancelled); });
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
  std::vector<Outgoing> messages;
  outbox.take(messages, 16);
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);  // messages that are taken are not sent yet
  outbox.sent(messages);
  waiting.get();
  outbox.image(image(2000));
  auto second = std::async(std::launch::async, [&] { outbox.wait_for_room(cancelled); });
  EXPECT_EQ(second.wait_for(20ms), std::future_status::timeout);
  cancelled = true;
  outbox.kick();
  second.get();
  EXPECT_TRUE(outbox.flooded());
}

TEST(Outbox, PaysForTheHeapThatItTakes) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "a sanitizer's allocator does not tell";
#endif
  const auto memory = std::make_shared<QueueMemory>(1 << 30);
  Outbox outbox(
      1 << 30, [] {}, memory);
  const std::uint64_t before = heap_in_use();
  for (std::uint64_t i = 0; i < 10000; ++i) outbox.response({i, std::string(i % 100, 'a')});
  EXPECT_GE(memory->used(), heap_in_use() - before);
  EXPECT_EQ(outbox.control_bytes(), memory->used());
  std::vector<Outgoing> messages;
  outbox.take(messages, 9000);
  EXPECT_EQ(outbox.control_bytes(), memory->used()) << "they are not sent yet";
  outbox.sent(messages);
  EXPECT_GT(memory->used(), 0U);
  outbox.take(messages, 10000);
  messages.erase(messages.begin(), messages.begin() + 9000);
  outbox.sent(messages);
  EXPECT_EQ(memory->used(), 0U);
  EXPECT_EQ(outbox.control_bytes(), 0U);
}

TEST(Outbox, NothingFollowsCloseAndItIsThereOnce) {
  Outbox outbox(1000, [] {});
  outbox.close();
  outbox.close();
  outbox.image(image(10));
  outbox.text(protocol::Level::info, "late");
  std::vector<Outgoing> messages;
  outbox.take(messages, 16);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].head, (protocol::Buffer{std::byte{4}, std::byte{0}}));
  EXPECT_TRUE(outbox.finished());
}

TEST(Outbox, TextsAreLimitedButTheFatalOneIsSent) {
  Outbox outbox(1 << 20, [] {});
  for (int i = 0; i < 1000; ++i) outbox.text(protocol::Level::warning, "again");
  outbox.fatal({"bad-data", "why"});
  std::vector<Outgoing> messages;
  outbox.take(messages, 2000);
  ASSERT_EQ(messages.size(), 102U);
  const auto text = [&](std::size_t i) {
    return std::string(reinterpret_cast<const char*>(messages[i].head.data()) + 6, messages[i].head.size() - 6);
  };
  EXPECT_EQ(text(0), std::string("WARNING  again\n\0", 16));
  EXPECT_THAT(text(100), testing::HasSubstr("server's log"));
  EXPECT_EQ(text(101), std::string("ERROR    bad-data: why\n\0", 24));
}

std::shared_ptr<std::vector<std::byte>> add_image(Outbox& outbox) {
  auto pixels = std::make_shared<std::vector<std::byte>>(5000);
  protocol::Image large = image(5000);
  large.pixels = {pixels, *pixels};
  outbox.image(std::move(large));
  return pixels;
}

/// Others wait for the memory of a client that does not read.
TEST(Outbox, LastWordsStayWhenTheRestIsDropped) {
  for (const bool before : {true, false}) {
    const auto memory = std::make_shared<QueueMemory>(1 << 30);
    Outbox outbox(
        1000, [] {}, memory);
    const std::weak_ptr<std::vector<std::byte>> first = add_image(outbox), second = add_image(outbox);
    std::vector<Outgoing> in_hand;
    outbox.take(in_hand, 1);
    outbox.response({1, "an answer"});
    const auto end = [&] {
      outbox.fatal({"budget", "why"});
      outbox.close();
    };
    if (before) end();
    std::shared_ptr<void> dropped = outbox.drop_all_but_last_words();
    EXPECT_EQ(outbox.dropped(), 2u);
    EXPECT_FALSE(second.expired());
    EXPECT_GE(memory->used(), 10000u) << "both are still there";
    dropped.reset();
    EXPECT_TRUE(second.expired());
    EXPECT_FALSE(first.expired()) << "it is being sent";
    EXPECT_GE(memory->used(), 5000u);
    if (!before) {
      add_image(outbox);
      outbox.text(protocol::Level::info, "late");
      end();
    }
    outbox.sent(in_hand);
    in_hand.clear();
    outbox.take(in_hand, 16);
    ASSERT_EQ(in_hand.size(), 2u);
    EXPECT_EQ(in_hand[0].head.size(), 6 + std::string("ERROR    budget: why\n").size() + 1);
    EXPECT_EQ(in_hand[1].head, (protocol::Buffer{std::byte{4}, std::byte{0}}));
    outbox.sent(in_hand);
    EXPECT_EQ(memory->used(), 0u);
    EXPECT_TRUE(outbox.finished());
  }
}

TEST(Outbox, ADropEndsTheWaitForRoom) {
  Outbox outbox(1000, [] {});
  add_image(outbox);
  std::vector<Outgoing> in_hand;
  outbox.take(in_hand, 1);
  const std::atomic<bool> never = false;
  auto waiting = std::async(std::launch::async, [&] { outbox.wait_for_room(never); });
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
  outbox.drop_all_but_last_words();
  waiting.get();
}

/// What a write has in its hands cannot be dropped.
TEST(Outbox, AWriteTakesNoMoreThanIsAsked) {
  Outbox outbox(1 << 20, [] {});
  for (int i = 0; i < 5; ++i) add_image(outbox);
  std::vector<Outgoing> messages;
  outbox.take(messages, 16, 6000);
  EXPECT_EQ(messages.size(), 2u);
  messages.clear();
  outbox.take(messages, 16, 1);
  EXPECT_EQ(messages.size(), 1u);
}

TEST(Outbox, GivesBackWhatAnAnswerHoldsWhenItIsSent) {
  Outbox outbox(1 << 20, [] {});
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> known = held;
  outbox.response({1, "text"}, std::move(held));
  std::vector<Outgoing> messages;
  outbox.take(messages, 16);
  outbox.sent(messages);
  EXPECT_FALSE(known.expired());
  messages.clear();
  EXPECT_TRUE(known.expired());
}

TEST(Outbox, DiscardFreesEverything) {
  Outbox outbox(1000, [] {});
  auto pixels = std::make_shared<std::vector<std::byte>>(5000);
  const std::weak_ptr<std::vector<std::byte>> held = pixels;
  protocol::Image large = image(5000);
  large.pixels = {pixels, *pixels};
  pixels.reset();
  outbox.image(std::move(large));
  EXPECT_FALSE(held.expired());
  outbox.discard();
  EXPECT_TRUE(held.expired());
  outbox.image(image(5000));
  EXPECT_TRUE(outbox.finished());
  const std::atomic<bool> never = false;
  outbox.wait_for_room(never);
}

}  // namespace
}  // namespace echotrain::server
