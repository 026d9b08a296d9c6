// Functions that are called by who polls for the end of work.
#include "gadgets/numerics/core/cuda/completion_poller.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/resources.h"
#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

struct Counted final : CompletionPoller::Source {
  explicit Counted(int n) : left(n) {}
  bool poll() noexcept override {
    if (left > 0) --left;
    return left > 0;
  }
  int left;
};

TEST(CompletionPoller, AskEverySourceUntilNoneHasMore) {
  CompletionPoller completions;
  EXPECT_FALSE(completions.poll()) << "nobody waits";
  const auto one = std::make_shared<Counted>(1), three = std::make_shared<Counted>(3);
  completions.add(three);
  completions.add(one);
  EXPECT_TRUE(completions.poll());
  EXPECT_EQ(one->left, 0) << "asked, too, though another has more";
  EXPECT_TRUE(completions.poll());
  completions.remove(one.get());
  EXPECT_FALSE(completions.poll());
  EXPECT_EQ(three->left, 0);
  three->left = 5;
  completions.remove(three.get());
  EXPECT_FALSE(completions.poll());
  EXPECT_EQ(three->left, 5) << "no longer asked";
}

// A source may leave within its own poll(), as the last use of a context may end in one of its functions.
TEST(CompletionPoller, SourceMayLeaveWhileItIsAsked) {
  struct Leaves final : CompletionPoller::Source {
    bool poll() noexcept override {
      from->remove(this);
      return false;
    }
    CompletionPoller* from = nullptr;
  };
  CompletionPoller completions;
  auto leaves = std::make_shared<Leaves>();
  leaves->from = &completions;
  const std::weak_ptr<Leaves> watched = leaves;
  completions.add(std::move(leaves));
  EXPECT_FALSE(completions.poll());
  EXPECT_TRUE(watched.expired());
}

template <class B>
class PolledTest : public ::echotrain::testing::OnBackend<B> {
 protected:
  void SetUp() override {
    ::echotrain::testing::OnBackend<B>::SetUp();
    if (this->IsSkipped()) return;
    resources_ = std::make_shared<Resources>(test_resource_options());
    resources_->get<CompletionPoller>().will_poll();
    this->context_ = std::make_unique<Context>(B::kBackend, resources_);
  }
  std::shared_ptr<Resources> resources_;
};
TYPED_TEST_SUITE(PolledTest, ::echotrain::testing::Backends, ::echotrain::testing::BackendNames);

/// Enqueues `rounds` downloads of numbers that differ; each function looks at its own.
template <class Got>
void download_rounds(Context& context, int rounds, Got got) {
  constexpr std::int64_t kCount = 1 << 18;
  Array<std::int32_t> device = context.allocate<std::int32_t>({kCount});
  for (int round = 0; round < rounds; ++round) {
    HostArray<std::int32_t> from = context.allocate_host<std::int32_t>({kCount});
    std::iota(from.data(), from.data() + kCount, round);
    context.copy<std::int32_t>(from.view(), device.view());
    HostArray<std::int32_t> to = context.allocate_host<std::int32_t>({kCount});
    context.copy<std::int32_t>(device.view(), to.view());
    context.on_complete([got, round, to] { got(round, to.data()[0], to.data()[kCount - 1] - (kCount - 1)); });
  }
}

TYPED_TEST(PolledTest, SynchronizeCallsWhatNobodyPolledForInOrder) {
  std::vector<std::int64_t> seen;
  const auto caller = std::this_thread::get_id();
  download_rounds(this->context(), 20, [&](int round, std::int64_t first, std::int64_t last) {
    EXPECT_EQ(first, round);
    EXPECT_EQ(last, round);
    EXPECT_EQ(std::this_thread::get_id(), caller) << "no thread of CUDA's";
    seen.push_back(round);
  });
  if (this->context().cuda()) {
    EXPECT_TRUE(seen.empty()) << "before anybody looks";
  }
  this->context().synchronize();
  std::vector<std::int64_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
  EXPECT_FALSE(this->resources_->template get<CompletionPoller>().poll());
}

TYPED_TEST(PolledTest, AnotherThreadFindsWhatIsDoneInOrder) {
  CompletionPoller& completions = this->resources_->template get<CompletionPoller>();
  std::atomic<bool> stop = false;
  std::thread poller([&] {
    while (!stop) completions.poll();
  });
  std::atomic<int> next = 0;
  download_rounds(this->context(), 50, [&](int round, std::int64_t first, std::int64_t last) {
    EXPECT_EQ(first, round);
    EXPECT_EQ(last, round);
    EXPECT_EQ(next++, round);
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (next < 50 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(next, 50) << "though nobody has synchronized";
  stop = true;
  poller.join();
}

TYPED_TEST(PolledTest, ContextMayEndWhileAnotherThreadPolls) {
  CompletionPoller& completions = this->resources_->template get<CompletionPoller>();
  std::atomic<bool> stop = false;
  std::thread poller([&] {
    while (!stop) completions.poll();
  });
  std::atomic<int> called = 0;
  constexpr int kContexts = 10;
  for (int i = 0; i < kContexts; ++i) {
    Context own(TypeParam::kBackend, this->resources_);
    download_rounds(own, 3, [&](int, std::int64_t, std::int64_t) { ++called; });
  }
  EXPECT_EQ(called, 3 * kContexts) << "each has called all before it was gone";
  stop = true;
  poller.join();
}

}  // namespace
}  // namespace echotrain::numerics
