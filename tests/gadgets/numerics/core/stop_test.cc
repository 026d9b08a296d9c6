// Work that somebody no longer wants.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/inverse/solver/pcg.h"
#include "gadgets/numerics/mri/density/density_voronoi.h"
#include "gadgets/numerics/mri/espirit/espirit.h"
#include "gadgets/numerics/transforms/exact/direct_transform.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"
#include "tests/support/backends.h"
#include "tests/support/cpu_time.h"
#include "tests/support/matter_of_time.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

using namespace std::chrono_literals;
using ::echotrain::testing::OnBackend;
using Clock = std::chrono::steady_clock;

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

/// Returns the time that counts: on the CPU this process's processor time, as other programs take cores; on CUDA a
/// clock's.
double spent(Backend backend) {
  return backend == Backend::cpu ? cpu_seconds()
                                 : std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Stops `work` `moment_s` after it began; what it still takes from then on, enqueued work included [s]. It must be far
/// from its end by then.
template <class Work>
double spent_after_stop(Backend backend, double moment_s, const Work& work) {
  std::stop_source source;
  Context context(backend, test_resources(2), {.stop_token = source.get_token()});
  const double begin = spent(backend);
  auto ends = std::async(std::launch::async, [&] {
    EXPECT_THROW(work(context), Stopped) << kMatterOfTime << "it must be far from its end when it is stopped";
    context.synchronize();
  });
  while (spent(backend) < begin + moment_s && ends.wait_for(1ms) == std::future_status::timeout) {
  }
  const double before = spent(backend);
  source.request_stop();
  ends.get();
  return spent(backend) - before;
}

/// Sanitizers make each step several times as long: 0.4 s was seen where 0.13 s is usual.
#ifdef ECHOTRAIN_SANITIZED
constexpr double kSlower = 4;
#else
constexpr double kSlower = 1;
#endif
/// The bound holds for two threads together. Each ends its step (20 ms, at most 16 times as long where the steps before
/// were short), and memory is freed: 0.13 s was the most that was seen in some hundred stops.
constexpr double kBound_s = kSlower * 0.3;
/// Stops `work`, on the CPU, after each of `parts` of the time that the whole takes here.
template <class Work>
void expect_soon_in_parts(const std::vector<double>& parts, const Work& work) {
  Context whole(Backend::cpu, test_resources(2));
  double whole_s = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 2; ++run) {  // a first run also pays for its memory's pages
    const double begin = spent(Backend::cpu);
    work(whole);
    whole_s = std::min(whole_s, spent(Backend::cpu) - begin);
  }
  for (const double part : parts)
    EXPECT_LT(spent_after_stop(Backend::cpu, part * whole_s, work), kBound_s)
        << kMatterOfTime << part << " of " << whole_s << " s";
}

/// Qhull runs on one thread, beside one that looks at the token every 10 ms; each point that it still adds may be a
/// slow one.
constexpr double kQhullBound_s = kSlower * 0.45;
/// Two steps of the host's pace, of 65,536 samples at most (7e12 products at 256^3 voxels, 40 ms at a third of what an
/// H100 can do), or the solver's iteration (some ms); the rest is for memory that is freed and for a busy machine.
constexpr double kCudaBound_s = 0.5;

template <class B>
class StopOn : public OnBackend<B> {
 protected:
  static constexpr bool kCuda = B::kBackend == Backend::cuda;
  template <class Work>
  static void expect_soon(const std::vector<double>& moments_s, const Work& work) {
    // CUDA's first run loads kernels and makes plans, which libraries do in calls of their own.
    if (kCuda) spent_after_stop(B::kBackend, 0.5, work);
    for (const double moment_s : moments_s)
      EXPECT_LT(spent_after_stop(B::kBackend, moment_s, work), kCuda ? kCudaBound_s : kBound_s)
          << kMatterOfTime << moment_s;
  }
};
TYPED_TEST_SUITE(StopOn, ::echotrain::testing::Backends, ::echotrain::testing::BackendNames);

// All of it takes a minute of two CPU threads. 100 times the samples make 1e15 products, 2 s of an H100 at its best.
TYPED_TEST(StopOn, TheExactPointSpread) {
  const std::int64_t n = TestFixture::kCuda ? 20'000'000 : 200'000;
  const std::vector<double> k = points(n, 3);
  const std::vector<float> weights(static_cast<std::size_t>(n), 1.0f);
  this->expect_soon({0.03, 0.3, 1.0}, [&](Context& context) {
    Array<cfloat> q = context.allocate<cfloat>({256, 256, 256});
    point_spread(context, {k.data(), {n, 3}}, {weights.data(), {n}}, {128, 128, 128}, VoxelBasis::delta, q.view());
  });
}

// Samples that come in small parts, all of which could be enqueued at once: 3e15 products, 5 s of an H100 at its best.
TYPED_TEST(StopOn, TheExactAdjointOfAStream) {
  constexpr std::int64_t kPart = 65'536, kParts = 400;
  const std::vector<double> k = points(kPart, 3);
  const std::vector<cfloat> ones(kPart, cfloat(1, 0));
  this->expect_soon({0.03, 0.3, 1.0}, [&](Context& context) {
    const Array<cfloat> samples = context.upload<cfloat>({ones.data(), {kPart, 1}});
    DirectAdjoint sum(context, {256, 256, 256}, 1);
    for (std::int64_t i = 0; i < kParts; ++i) sum.add(context, {k.data(), {kPart, 3}}, samples.cview());
    context.synchronize();
  });
}

/// The lags of exp(-|l|^2 / 2): its Toeplitz matrix has eigenvalues from 16 down to 1e-6.
std::vector<cfloat> gaussian_lags(std::int64_t n) {
  std::vector<float> line;
  for (std::int64_t i = 0; i < 2 * n; ++i) {
    const auto lag = static_cast<float>(i < n ? i : i - 2 * n);
    line.push_back(std::exp(-lag * lag / 2));
  }
  std::vector<cfloat> lags;
  for (const float z : line)
    for (const float y : line)
      for (const float x : line) lags.emplace_back(z * y * x);
  return lags;
}

// 10,000 iterations that do not converge: hours of the CPU, and 5 s at least of a GPU, which moves 2 GB in each.
TYPED_TEST(StopOn, TheSolversLoop) {
  constexpr std::int64_t kExtent = 128;
  const std::vector<cfloat> lags = gaussian_lags(kExtent);
  const Shape image{kExtent, kExtent, kExtent}, batch{4, kExtent, kExtent, kExtent};
  const std::vector<double> random = points(batch.size(), 1);
  const std::vector<cfloat> right(random.begin(), random.end());
  // On the CPU, the operator takes the first second or two.
  const auto moments_s = TestFixture::kCuda ? std::vector{0.03, 0.3, 1.0} : std::vector{0.3, 1.0, 4.0};
  this->expect_soon(moments_s, [&](Context& context) {
    const PlainNormal a(std::make_shared<const ToeplitzOperator>(
        context, context.upload<cfloat>({lags.data(), {2 * kExtent, 2 * kExtent, 2 * kExtent}}).cview()));
    const Array<cfloat> b = context.upload<cfloat>({right.data(), batch});
    Array<cfloat> x = context.zeros<cfloat>(batch);
    pcg(context, a, tikhonov(image).get(), b.cview(), x.view(),
        {.iterations = 10'000, .tolerance = 0, .lambda = 1e-5, .largest_eigenvalue = 16});
  });
}

// Parts of the whole, as a machine may take half or twice the time of another.
TEST(Stop, APlan) {
  const std::vector<double> k = points(6'000'000, 3);
  const auto work = [&](Context& context) { NufftPlan::make(context, {k.data(), {6'000'000, 3}}, {160, 160, 160}); };
  expect_soon_in_parts({0.03, 0.2, 0.4, 0.6}, work);
}

// Kernels of 32 x 6 x 6 numbers, whose eigenvectors take some 10 s.
TEST(Stop, EspiritMaps) {
#ifdef ECHOTRAIN_SANITIZED
  constexpr std::int64_t kCoils = 16;  // steps of the decomposition take ten times as long
#else
  constexpr std::int64_t kCoils = 32;
#endif
  constexpr std::int64_t kExtent = 48;
  const std::vector<double> random = points(kCoils * kExtent * kExtent, 1);
  const std::vector<cfloat> kspace(random.begin(), random.end());
  const auto work = [&](Context& context) {
    const Shape shape{kCoils, 1, kExtent, kExtent};
    Array<cfloat> maps = context.allocate<cfloat>(shape);
    espirit_maps(context, context.upload<cfloat>({kspace.data(), shape}).cview(), {}, maps.view());
  };
  expect_soon_in_parts({0.1, 0.4, 0.7}, work);
}

// Qhull's own loop is stopped too, wherever it is.
TEST(Stop, VoronoiCells) {
  const std::vector<double> k = points(450'000, 2);
  const auto work = [&](Context& context) { voronoi_density(context.threads(), {k.data(), {450'000, 2}}, 1); };
  for (const double moment_s : {0.03, 0.2, 0.8, 2.0})
    EXPECT_LT(spent_after_stop(Backend::cpu, moment_s, work), kQhullBound_s) << kMatterOfTime;
}

}  // namespace
}  // namespace echotrain::numerics
