#include "gadgets/numerics/core/context.h"

#include <gtest/gtest-spi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <thread>

#include "tests/support/backends.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;

template <class B>
class ContextTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(ContextTest, Backends, testing::BackendNames);

TYPED_TEST(ContextTest, SaysWhereItRuns) {
  EXPECT_EQ(this->context().backend(), TypeParam::kBackend);
  EXPECT_EQ(this->context().cuda(), TypeParam::kBackend == Backend::cuda);
  EXPECT_EQ(this->context().stream() != nullptr, this->context().cuda());
  EXPECT_FALSE(describe(TypeParam::kBackend, this->context().resources()).empty());
}

TYPED_TEST(ContextTest, CopiesComeBackUnchanged) {
  std::vector<float> values(100003);
  std::iota(values.begin(), values.end(), 0.5f);
  auto array = this->upload(values, {100003});
  EXPECT_EQ(this->download(array), values);
  auto second = this->context().template allocate<float>({100003});
  this->context().template copy<float>(array.cview(), second.view());
  EXPECT_EQ(this->download(second), values);
  std::vector<float> plain(values.size());
  this->context().template copy<float>(second.cview(), HostView<float>(plain.data(), second.shape()));
  this->context().synchronize();
  EXPECT_EQ(plain, values);
}

// Copies go from every place to every other, host memory of both kinds.
TYPED_TEST(ContextTest, CopiesGoEveryWay) {
  Context& context = this->context();
  const Shape shape{50021};
  std::vector<std::int32_t> values(50021), got(values.size());
  std::iota(values.begin(), values.end(), -7);
  const HostView<const std::int32_t> pageable(values.data(), shape);
  const HostView<std::int32_t> back(got.data(), shape);
  auto pinned = context.template allocate_host<std::int32_t>(shape), other = pinned;
  other = context.template allocate_host<std::int32_t>(shape);
  std::copy(values.begin(), values.end(), pinned.data());
  auto first = context.template allocate<std::int32_t>(shape), second = context.template allocate<std::int32_t>(shape);
  const auto arrives = [&](View<const std::int32_t> from, View<std::int32_t> to) {
    std::fill(got.begin(), got.end(), 0);
    std::fill_n(other.data(), other.size(), 0);
    context.template clear<std::int32_t>(second.view());
    context.copy(from, to);
    if (to.data() != back.data()) context.copy(to, back);
    context.synchronize();
    return got == values;
  };
  context.template copy<std::int32_t>(pageable, first.view());
  EXPECT_TRUE(arrives(first.view(), back));
  EXPECT_TRUE(arrives(first.view(), other.view()));
  EXPECT_TRUE(arrives(first.view(), second.view()));
  EXPECT_TRUE(arrives(pinned.view(), back));
  EXPECT_TRUE(arrives(pinned.view(), other.view()));
  EXPECT_TRUE(arrives(pinned.view(), second.view()));
  EXPECT_TRUE(arrives(pageable, back));
  EXPECT_TRUE(arrives(pageable, other.view()));
  EXPECT_TRUE(arrives(pageable, second.view()));
}

TYPED_TEST(ContextTest, ViewsSayWhereTheirMemoryIs) {
  Context& context = this->context();
  auto array = context.template allocate<float>({4, 6});
  auto host = context.template allocate_host<float>({4, 6});
  const MemoryKind of_host = context.cuda() ? MemoryKind::pinned : MemoryKind::pageable;
  const View<const float> both[] = {array.view(), array.view().slice(2), host.view(), host.view().slice(2)};
  EXPECT_EQ(both[0].memory_kind(), MemoryKind::device);
  EXPECT_EQ(both[1].memory_kind(), MemoryKind::device);
  EXPECT_EQ(both[2].memory_kind(), of_host);
  EXPECT_EQ(both[3].memory_kind(), of_host);
  EXPECT_EQ(host.reshaped({24}).view().part(5, {2}).memory_kind(), of_host);
  std::vector<float> values(24);
  EXPECT_EQ(HostView<float>(values.data(), {24}).memory_kind(), MemoryKind::pageable);
  EXPECT_EQ(both[3].data(), host.data() + 12);
}

// On the CPU both are the same memory; on CUDA the copies are ordered with other work.
TYPED_TEST(ContextTest, ArraysMoveBetweenHostAndDevice) {
  Context& context = this->context();
  auto host = context.template allocate_host<float>({1000});
  std::iota(host.data(), host.data() + host.size(), 0.25f);
  const Array<float> array = context.place(host);
  const HostArray<float> back = context.place_on_host(array);
  context.synchronize();
  EXPECT_TRUE(std::equal(host.data(), host.data() + host.size(), back.data(), back.data() + back.size()));
  EXPECT_EQ(array.data() == host.data(), !context.cuda());
  EXPECT_EQ(array.data() == back.data(), !context.cuda());
}

// Ordinary host memory may be changed as soon as the copy returns, also when it is larger than a staging buffer.
TYPED_TEST(ContextTest, OrdinaryMemoryIsReadBeforeTheCopyReturns) {
  std::vector<std::int32_t> values(9 * 1000 * 1000, 7);
  auto array = this->context().template allocate<std::int32_t>({static_cast<std::int64_t>(values.size())});
  this->context().template copy<std::int32_t>(HostView<const std::int32_t>(values.data(), array.shape()), array.view());
  std::fill(values.begin(), values.end(), -1);
  const auto got = this->download(array);
  EXPECT_EQ(std::count(got.begin(), got.end(), 7), static_cast<std::ptrdiff_t>(got.size()));
}

// Pinned memory that was released is not handed out again while a copy from it is under way.
TYPED_TEST(ContextTest, ReleasedHostMemoryIsNotReusedTooEarly) {
  const Shape shape{1 << 20};
  std::vector<Array<std::int32_t>> arrays;
  for (std::int32_t i = 0; i < 20; ++i) {
    auto host = this->context().template allocate_host<std::int32_t>(shape);
    std::fill_n(host.data(), host.size(), i);
    arrays.push_back(this->context().template allocate<std::int32_t>(shape));
    this->context().template copy<std::int32_t>(host.cview(), arrays.back().view());
  }
  for (std::int32_t i = 0; i < 20; ++i) {
    const auto got = this->download(arrays[static_cast<std::size_t>(i)]);
    ASSERT_EQ(std::count(got.begin(), got.end(), i), shape.size());
  }
}

TYPED_TEST(ContextTest, ZerosAreZero) {
  for (int again = 0; again < 3; ++again) {
    auto array = this->context().template zeros<float>({333, 1001});
    const auto got = this->download(array);
    EXPECT_EQ(std::count(got.begin(), got.end(), 0.0f), array.size());
    std::vector<float> ones(got.size(), 1.0f);  // so that reused memory is not zero by luck
    this->context().template copy<float>(HostView<const float>(ones.data(), array.shape()), array.view());
  }
}

TYPED_TEST(ContextTest, BudgetIsKept) {
  Context context(TypeParam::kBackend, test_resources(), {.memory_budget = 10000});
  auto first = context.allocate<float>({1000});
  auto host = context.allocate_host<float>({1000});
  EXPECT_EQ(context.bytes_in_use(), 8000u);
  try {
    context.allocate<float>({501});
    FAIL() << "more than the budget";
  } catch (const ResourceError& error) {
    EXPECT_NE(std::string(error.what()).find("2004 bytes asked for, 2000 bytes left"), std::string::npos)
        << error.what();
  }
  auto shared = first;  // a copy shares
  first = {};
  EXPECT_EQ(context.bytes_in_use(), 8000u);
  shared = {};
  host = {};
  EXPECT_EQ(context.bytes_in_use(), 0u);
  EXPECT_EQ(context.peak_bytes(), 8000u);
  auto all = context.allocate<float>({2500});
  EXPECT_EQ(context.peak_bytes(), 10000u);
}

TYPED_TEST(ContextTest, AbsurdSizesAreRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_THROW(this->context().template allocate<float>({kHuge, kHuge}), ResourceError);
  EXPECT_THROW(this->context().template allocate<float>({kHuge}), ResourceError);
  EXPECT_EQ(this->context().bytes_in_use(), 0u);
}

TYPED_TEST(ContextTest, EmptyArrays) {
  auto empty = this->context().template zeros<float>({0, 7});
  EXPECT_TRUE(empty);
  EXPECT_EQ(empty.size(), 0);
  EXPECT_TRUE(this->download(empty).empty());
}

TYPED_TEST(ContextTest, ArraysOutliveTheContext) {
  auto array = this->context().template allocate_host<float>({100000});
  auto device = this->context().template allocate<float>({100000});
  this->context_.reset();
  std::fill_n(array.data(), array.size(), 2.0f);
  EXPECT_EQ(array.data()[99999], 2.0f);
}

TYPED_TEST(ContextTest, CompletionComesAfterTheWork) {
  auto array = this->context().template zeros<float>({1 << 20});
  auto host = this->context().template allocate_host<float>(array.shape());
  std::fill_n(host.data(), host.size(), 1.0f);
  this->context().template copy<float>(array.cview(), host.view());
  std::atomic<float> last{2.0f};
  std::atomic<bool> done{false};
  this->context().on_complete([&last, &done, host] {
    last = host.data()[host.size() - 1];
    done = true;
  });
  host = {};  // the callback holds the last reference
  this->context().synchronize();
  EXPECT_TRUE(done);
  EXPECT_EQ(last, 0.0f);
  this->context().check();
}

TYPED_TEST(ContextTest, DeviceToHostBytesAreCounted) {
  auto array = this->context().template zeros<float>({1000});
  EXPECT_EQ(this->context().device_to_host_bytes(), 0u);
  this->download(array);
  EXPECT_EQ(this->context().device_to_host_bytes(), this->context().cuda() ? 4000u : 0u);
}

TYPED_TEST(ContextTest, CacheKeepsOneOfEachType) {
  struct Counter {
    int value = 0;
  };
  struct Other {
    int value = 5;
  };
  this->context().template cache<Counter>().value = 3;
  EXPECT_EQ(this->context().template cache<Counter>().value, 3);
  EXPECT_EQ(this->context().template cache<Other>().value, 5);
  Context second(TypeParam::kBackend, test_resources());
  EXPECT_EQ(second.template cache<Counter>().value, 0);
}

// Sessions use their contexts at the same time.
TYPED_TEST(ContextTest, SeveralAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &good] {
      Context context(TypeParam::kBackend, test_resources());
      for (int i = 0; i < 20; ++i) {
        const std::vector<std::int32_t> values(50000, t * 100 + i);
        auto array = context.template upload<std::int32_t>({values.data(), {50000}});
        auto back = context.template download<std::int32_t>(array.cview());
        if (std::equal(values.begin(), values.end(), back.data())) ++good;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 80);
}

// Tests on CUDA that vanish where a GPU is are failures. Elsewhere they are skips, unless they are asked for.
TEST(Backends, AreMissedWhereCudaIsExpected) {
  using testing::cuda_is_expected;
  const std::string broken = "the CUDA device cannot be used: out of memory";
  EXPECT_TRUE(cuda_is_expected("", broken, true));
  EXPECT_TRUE(cuda_is_expected("", "there is no CUDA device", true));
  EXPECT_FALSE(cuda_is_expected("", broken, false));
  EXPECT_FALSE(cuda_is_expected("0", broken, true));
  for (const char* why : {"this program was built without CUDA", "no CUDA driver is installed",
                          "the CUDA driver reports: CUDA driver version is insufficient for CUDA runtime version",
                          "the CUDA device is too old: compute capability 7.5, needed 8.0"}) {
    EXPECT_FALSE(cuda_is_expected("", why, true)) << why;
    EXPECT_TRUE(cuda_is_expected("1", why, false)) << why;
  }
  EXPECT_EQ(testing::missing_backend(Backend::cpu), "");
  std::string reason;
  if (available(Backend::cuda, &reason)) return;
  const char* had = std::getenv("ECHOTRAIN_EXPECT_CUDA");
  const std::string kept = had == nullptr ? "" : had;
  setenv("ECHOTRAIN_EXPECT_CUDA", "1", 1);
  EXPECT_FATAL_FAILURE(testing::missing_backend(Backend::cuda), "CUDA is expected here");
  setenv("ECHOTRAIN_EXPECT_CUDA", "0", 1);
  EXPECT_EQ(testing::missing_backend(Backend::cuda), "no usable CUDA device: " + reason);
  if (had == nullptr)
    unsetenv("ECHOTRAIN_EXPECT_CUDA");
  else
    setenv("ECHOTRAIN_EXPECT_CUDA", kept.c_str(), 1);
}

TEST(Backends, AnUnavailableOneSaysWhy) {
  EXPECT_TRUE(available(Backend::cpu));
  EXPECT_NE(describe(Backend::cpu, *test_resources()).find("CPU, "), std::string::npos);
  std::string reason;
  if (available(Backend::cuda, &reason)) {
    EXPECT_EQ(reason, "");
    EXPECT_THROW(Context(Backend::cuda, test_resources(), {.device = 1000}), ResourceError);
    return;
  }
  EXPECT_FALSE(reason.empty());
  try {
    Context context(Backend::cuda, test_resources());
    FAIL() << "there is no device";
  } catch (const ResourceError& error) {
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos);
  }
}

TEST(ThreadPoolTest, PiecesCoverEverythingOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (std::int64_t n : {0, 1, 2, 7, 100, 10007})
      for (std::int64_t grain : {1, 3, 64, 20000}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
        std::atomic<std::int64_t> smallest{std::numeric_limits<std::int64_t>::max()};
        pool.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
          std::int64_t now = smallest;
          while (end - begin < now && !smallest.compare_exchange_weak(now, end - begin)) {
          }
          for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        for (auto& count : seen) ASSERT_EQ(count, 1);
        if (n > 0) {
          EXPECT_GE(smallest, std::min(n, grain));
        }
      }
  }
}

TEST(ThreadPoolTest, AnExceptionReachesTheCaller) {
  ThreadPool pool(3);
  for (int again = 0; again < 20; ++again) {
    try {
      pool.parallel_for(1000, 1, [](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          if (i == 777) throw std::runtime_error("piece 777");
      });
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "piece 777");
    }
  }
  std::atomic<int> sum{0};
  pool.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { sum += static_cast<int>(end - begin); });
  EXPECT_EQ(sum, 100);
}

TEST(ThreadPoolTest, ManyCallersAndNestedCalls) {
  ThreadPool pool(3);
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        pool.parallel_for(40, 1, [&](std::int64_t begin, std::int64_t end) {
          pool.parallel_for(end - begin, 1, [&](std::int64_t b, std::int64_t e) { sum += e - b; });
        });
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 50 * 40);
}

TEST(ThreadPoolTest, SeveralThreadsTakePart) {
  ThreadPool pool(2);
  std::atomic<int> inside{0};
  std::atomic<bool> together{false};
  pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    ++inside;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (inside < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    if (inside >= 2) together = true;
  });
  EXPECT_TRUE(together);
}

}  // namespace
}  // namespace echotrain::numerics
