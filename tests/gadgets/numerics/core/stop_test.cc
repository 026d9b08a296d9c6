// Work that somebody no longer wants.
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/density/density_voronoi.h"
#include "gadgets/numerics/exact/direct_transform.h"
#include "gadgets/numerics/fft/fft.h"
#include "gadgets/numerics/nufft/nufft.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// What the threads of this process have computed so far [s]: other programs of the machine do not count.
double computed() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Pieces that a parallel_for gives out.
struct Pieces {
  std::mutex mutex;
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  void take(std::int64_t begin, std::int64_t end) {
    const std::scoped_lock lock(mutex);
    all.emplace_back(begin, end);
  }
};

TEST(Stop, WorkThatMayBeStoppedIsDoneOnceAndInPiecesOfAtLeastTheGrain) {
  std::stop_source source;
  for (const int threads : {1, 2, 3}) {
    ThreadPool shared(threads);
    ThreadPool pool(shared, source.get_token());
    for (const std::int64_t grain : {1, 7, 100})
      for (const std::int64_t n : {1, 6, 7, 13, 99, 1000, 12345}) {
        Pieces pieces;
        pool.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) { pieces.take(begin, end); });
        std::sort(pieces.all.begin(), pieces.all.end());
        std::int64_t at = 0;
        for (const auto& [begin, end] : pieces.all) {
          EXPECT_EQ(begin, at);
          EXPECT_GE(end - begin, std::min(grain, n));
          at = end;
        }
        EXPECT_EQ(at, n);
      }
  }
}

TEST(Stop, EndsAParallelLoopWithinItsPieces) {
  for (const int threads : {1, 2}) {
    ThreadPool shared(threads);
    std::stop_source source;
    ThreadPool pool(shared, source.get_token());
    std::atomic<int> done = 0;
    std::jthread stopper([&] {
      while (done < 100) std::this_thread::sleep_for(1ms);
      source.request_stop();
    });
    // All would take 100 s of a thread.
    EXPECT_THROW(pool.parallel_for(100'000, 1,
                                   [&](std::int64_t begin, std::int64_t end) {
                                     for (; begin < end; ++begin, ++done) std::this_thread::sleep_for(1ms);
                                   }),
                 Stopped);
    EXPECT_LT(done, 2000);
    EXPECT_THROW(pool.parallel_for(1, 1, [](std::int64_t, std::int64_t) { ADD_FAILURE(); }), Stopped);
    std::atomic<int> others = 0;
    shared.parallel_for(1000, 1,
                        [&](std::int64_t begin, std::int64_t end) { others += static_cast<int>(end - begin); });
    EXPECT_EQ(others, 1000);  // those of other scans go on
  }
}

TEST(Stop, NoOperationBegins) {
  std::stop_source source;
  Context context(Backend::cpu, test_resources(2), {.stop_token = source.get_token()});
  Array<cfloat> data = context.zeros<cfloat>({64, 64});
  context.check_stop();
  fft(context, data.view(), 2, Direction::forward);
  source.request_stop();
  EXPECT_THROW(context.check_stop(), Stopped);
  EXPECT_THROW(fft(context, data.view(), 2, Direction::forward), Stopped);
  EXPECT_THROW(context.clear(data.view()), Stopped);
  EXPECT_THROW(context.download<cfloat>(data.cview()), Stopped);
}

/// Points of the disc or ball of radius 1/2, the same in every run.
std::vector<double> points(std::int64_t count, int dims) {
  std::vector<double> all;
  std::uint64_t state = 1;
  while (static_cast<std::int64_t>(all.size()) < count * dims) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    all.push_back(static_cast<double>(state >> 11) * 0x1p-53 - 0.5);
  }
  return all;
}

/// Stops `work` once it has computed for `moment_s`; what it still computes from then on [s]. It must be far from its
/// end by then.
template <class Work>
double computed_after_stop(double moment_s, const Work& work) {
  std::stop_source source;
  Context context(Backend::cpu, test_resources(2), {.stop_token = source.get_token()});
  const double begin = computed();
  auto ends = std::async(std::launch::async, [&] { EXPECT_THROW(work(context), Stopped); });
  while (computed() < begin + moment_s && ends.wait_for(1ms) == std::future_status::timeout) {
  }
  const double before = computed();
  source.request_stop();
  ends.get();
  return computed() - before;
}

constexpr double kBound_s = 0.3;  // of two threads together

TEST(Stop, TheExactPointSpread) {
  const std::vector<double> k = points(200'000, 3);
  const std::vector<float> weights(200'000, 1.0f);
  const auto work = [&](Context& context) {
    Array<cfloat> q = context.allocate<cfloat>({256, 256, 256});
    point_spread(context, {k.data(), {200'000, 3}}, {weights.data(), {200'000}}, {128, 128, 128}, VoxelBasis::delta,
                 q.view());
  };
  for (const double moment_s : {0.03, 0.3, 1.0}) EXPECT_LT(computed_after_stop(moment_s, work), kBound_s);
}

TEST(Stop, APlan) {
  const std::vector<double> k = points(6'000'000, 3);
  const auto work = [&](Context& context) { NufftPlan::make(context, {k.data(), {6'000'000, 3}}, {160, 160, 160}); };
  for (const double moment_s : {0.03, 0.3, 0.6, 0.9}) EXPECT_LT(computed_after_stop(moment_s, work), kBound_s);
}

// Qhull's own loop is stopped too, wherever it is.
TEST(Stop, VoronoiCells) {
  const std::vector<double> k = points(450'000, 2);
  const auto work = [&](Context& context) { voronoi_density(context.threads(), {k.data(), {450'000, 2}}, 1); };
  for (const double moment_s : {0.03, 0.2, 0.8, 2.0}) EXPECT_LT(computed_after_stop(moment_s, work), 1.5 * kBound_s);
}

}  // namespace
}  // namespace echotrain::numerics
