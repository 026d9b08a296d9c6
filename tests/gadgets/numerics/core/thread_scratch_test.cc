#include "gadgets/numerics/core/thread_scratch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <thread>

namespace echotrain::numerics {
namespace {

std::atomic<int> alive = 0;
thread_local bool no_memory = false;

struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  static void* operator new(std::size_t size) {
    if (no_memory) throw std::bad_alloc();
    return ::operator new(size);
  }
  static void operator delete(void* memory) { ::operator delete(memory); }
  int seen = 0;
};

struct User;
struct AnotherUser;

TEST(ThreadValueTest, IsOneForEachThreadAndUserAndEndsWithTheThread) {
  std::thread([] {
    thread_value<User, Counted>().seen = 1;
    thread_value<AnotherUser, Counted>().seen = 2;
    std::thread([] {
      EXPECT_EQ((thread_value<User, Counted>().seen), 0);
      EXPECT_EQ(alive, 3);
    }).join();
    EXPECT_EQ(alive, 2);
    EXPECT_EQ((thread_value<User, Counted>().seen), 1);
    EXPECT_EQ((thread_value<AnotherUser, Counted>().seen), 2);
  }).join();
  EXPECT_EQ(alive, 0);
}

TEST(ThreadValueTest, ThrowsWithoutMemoryAndIsMadeLater) {
  std::thread([] {
    no_memory = true;
    EXPECT_THROW((thread_value<User, Counted>()), std::bad_alloc);
    no_memory = false;
    EXPECT_EQ((thread_value<User, Counted>().seen), 0);
  }).join();
  EXPECT_EQ(alive, 0);
}

TEST(ThreadScratchTest, IsAlignedAndKeptUntilItMustGrow) {
  std::thread([] {
    float* const first = thread_scratch<User>(100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
    EXPECT_EQ(first[99], 0.0F);
    first[99] = 1;
    EXPECT_EQ(thread_scratch<User>(50), first);
    EXPECT_EQ(thread_scratch<User>(100)[99], 1.0F);
    float* const longer = thread_scratch<User>(1'000'000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(longer) % 64, 0U);
    EXPECT_EQ(longer[999'999], 0.0F);
  }).join();
}

}  // namespace
}  // namespace echotrain::numerics
