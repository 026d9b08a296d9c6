#include "gadgets/numerics/core/thread_pool.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/core/helper_limit.h"
#include "gadgets/numerics/core/thread_scratch.h"

namespace echotrain::numerics {
namespace {

/// Pieces per thread: more pieces even out the load, fewer cost less.
constexpr std::int64_t kPiecesPerThread = 8;

using Clock = std::chrono::steady_clock;
/// The time of a step of a piece. After each step a helper may turn to another caller's work; before each step the stop
/// token is checked.
constexpr std::chrono::milliseconds kStep{5};
/// The largest growth from one step to the next, as the time of a step is only known afterwards.
constexpr double kGrowth = 16;
/// The longest time after which a helper reports its work for a caller.
constexpr std::chrono::milliseconds kMostUncounted{100};
/// The interval at which one idle thread checks whether more may help.
constexpr std::chrono::milliseconds kWatch{10};
/// The credit that a resting caller may save up: so much of the time of each helper. No more, because all others wait
/// that long for help.
constexpr std::chrono::duration<double> kMostSaved{0.005};

struct Range {
  std::int64_t begin = 0, end = 0;
};

/// The number of elements that a thread takes at once: `grain` at first, and then as many as kStep allows.
class Steps {
 public:
  Steps(std::int64_t grain, const ThreadPool& pool) : grain_(std::max(std::int64_t{1}, grain)), pool_(pool) {}

  /// Returns the rest when leave() is true after a step.
  template <class Leave>
  Range run(Range range, const std::function<void(std::int64_t, std::int64_t)>& work, const Leave& leave) {
    while (range.begin < range.end) {
      pool_.check_stop();
      const std::int64_t to = range.end - range.begin < step_ + grain_ ? range.end : range.begin + step_;
      const auto since = Clock::now();
      work(range.begin, to);
      adapt(to - range.begin, Clock::now() - since);
      range.begin = to;
      if (leave()) break;
    }
    return range;
  }

 private:
  void adapt(std::int64_t elements, Clock::duration took) {
    const double ratio = std::chrono::duration<double>(kStep) / std::max(took, Clock::duration(1));
    const double wanted = static_cast<double>(elements) * std::min(ratio, kGrowth);
    constexpr double kMost = 1e15;
    step_ = std::max(grain_, static_cast<std::int64_t>(std::min(wanted, kMost)));
  }

  const std::int64_t grain_;
  const ThreadPool& pool_;
  std::int64_t step_ = grain_;
};

/// One parallel_for in progress. It lives on its caller's stack until no helper is in it.
struct Job {
  const std::int64_t n, pieces, grain;
  const std::function<void(std::int64_t, std::int64_t)>& work;
  const ThreadPool& pool;
  const bool stoppable;
  HelperTime& own;    // the caller's; guarded by the pool's mutex, as is `group`
  HelperTime& group;  // the caller's own if it belongs to no group
  const bool grouped;
  const HelperLimit* const lender;  // null: as many helpers as there are
  HeapAccount* const heap;          // the caller's: helpers allocate for it
  int helpers = 0;                  // guarded by the pool's mutex
  std::condition_variable left{};   // a helper has left the job; the caller waits for it
  std::atomic<std::int64_t> next{0};
  std::mutex mutex{};
  std::exception_ptr error{};
  std::vector<Range> rests{};  // parts of pieces that helpers have left undone
  std::atomic<bool> has_rests{false};

  bool exhausted() const { return next >= pieces && !has_rests; }

  // Requires the pool's mutex; so do the two functions below.
  bool needs_more_than(const Job& other) const {
    if (&group != &other.group) return group.seconds < other.group.seconds;
    return own.seconds < other.own.seconds;
  }
  void begin(double least, double most_saved) {
    const auto rise = [most_saved](double& seconds, double to) {
      seconds = std::max(seconds, to - (seconds < 0 ? 0 : most_saved));
    };
    rise(group.seconds, least);
    if (grouped) rise(own.seconds, group.least);
  }
  void help(double seconds) {
    group.seconds += seconds;
    if (grouped) own.seconds += seconds;
  }

  /// Works until nothing is left to take, or leave() is true after a step.
  template <class Leave>
  void run(const Leave& leave) {
    Steps steps(grain, pool);
    while (const auto range = take()) {
      try {
        if (stoppable)
          put_back(steps.run(*range, work, leave));
        else
          work(range->begin, range->end);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = pieces;  // the other pieces are dropped
        rests.clear();
        has_rests = false;
      }
      if (leave()) return;
    }
  }

 private:
  std::optional<Range> take() {
    if (has_rests) {
      std::lock_guard lock(mutex);
      if (!rests.empty()) {
        const Range range = rests.back();
        rests.pop_back();
        has_rests = !rests.empty();
        return range;
      }
    }
    const std::int64_t piece = next < pieces ? next.fetch_add(1) : pieces;
    if (piece >= pieces) return std::nullopt;
    return Range{piece * n / pieces, (piece + 1) * n / pieces};
  }

  void put_back(Range rest) {
    if (rest.begin == rest.end) return;
    std::lock_guard lock(mutex);
    if (error) return;
    rests.push_back(rest);
    has_rests = true;
  }
};

}  // namespace

/// Fair share: helpers work for the caller for whom they have worked least, and while there are several callers they
/// choose again after each step, so that a scan that computes for a millisecond now and then need not wait for scans
/// that compute for minutes.
struct ThreadPool::Impl {
  /// One thread and its condition variable. Each has its own: only as many are woken as there is work for, and the
  /// waker does not wait for threads that were woken earlier and have no core yet.
  struct Helper {
    std::condition_variable wake{};
    bool woken = false;
  };

  std::mutex mutex;
  std::vector<Helper> crew;
  std::vector<Helper*> asleep;  // in the order of falling asleep: the last is woken first
  std::vector<Job*> jobs;
  std::atomic<bool> crowded{false};  // there are several jobs
  double least_helped = 0;           // value of the caller or group helped last, with which new ones start
  bool stopping = false;
  bool watched = false;  // one idle thread checks at intervals
  std::vector<std::thread> threads;

  explicit Impl(int count) : crew(static_cast<std::size_t>(count)) {
    try {
      asleep.reserve(crew.size());
      threads.reserve(crew.size());
      for (Helper& helper : crew) threads.emplace_back([this, &helper] { serve(helper); });
    } catch (const std::system_error& error) {
      const std::size_t started = threads.size();
      end();
      throw ResourceError(fmt::format("cannot start {} CPU threads (only {}): {}; set `threads` lower", count + 1,
                                      started + 1, error.what()));
    } catch (...) {
      end();
      throw;
    }
  }
  ~Impl() { end(); }

  void end() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    wake(crew.size());
    for (auto& thread : threads) thread.join();
  }

  void add(Job& job) {
    {
      std::lock_guard lock(mutex);
      job.begin(least_helped, kMostSaved.count() * static_cast<double>(crew.size()));
      jobs.push_back(&job);
      crowded = jobs.size() > 1;
    }
    wake(static_cast<std::size_t>(job.pieces - 1));  // the caller takes one
  }

  /// Wakes at most so many of the sleeping threads. Call it without the mutex, which they need next.
  void wake(std::size_t most) {
    while (most > 0) {
      std::array<Helper*, 64> next{};
      std::size_t count = 0;
      {
        std::lock_guard lock(mutex);
        for (; count < std::min({most, next.size()}) && !asleep.empty(); ++count) {
          next.at(count) = asleep.back();
          asleep.pop_back();
          next.at(count)->woken = true;
        }
      }
      for (std::size_t i = 0; i < count; ++i) next.at(i)->wake.notify_one();
      if (count < next.size()) return;
      most -= count;
    }
  }

  /// Requires the mutex, and releases it while asleep.
  void sleep(std::unique_lock<std::mutex>& lock, Helper& self, std::optional<Clock::duration> most = {}) {
    self.woken = false;
    asleep.push_back(&self);
    const auto woken = [&self] { return self.woken; };
    if (!most)
      self.wake.wait(lock, woken);
    else if (!self.wake.wait_for(lock, *most, woken))
      std::erase(asleep, &self);
  }

  /// Waits until no helper is in the job. Returns false if a helper has left some work, which another helper may have
  /// taken since.
  bool remove(Job& job) {
    std::unique_lock lock(mutex);
    job.left.wait(lock, [&job] { return job.helpers == 0 || job.has_rests; });
    if (job.helpers > 0 || job.has_rests) return false;
    std::erase(jobs, &job);
    crowded = jobs.size() > 1;
    return true;
  }

  Job* neediest() const {
    Job* found = nullptr;
    for (Job* job : jobs)
      if (!job->exhausted() && (found == nullptr || job->needs_more_than(*found)) && may_have_more(*job)) found = job;
    return found;
  }

  bool may_have_more(const Job& job) const {
    if (job.lender == nullptr) return true;
    int helpers = 0;
    for (const Job* other : jobs) helpers += &other->group == &job.group ? other->helpers : 0;
    return helpers < job.lender->most_helpers();
  }

  /// Waits for work; returns null when the pool ends. Lenders do not tell when more helpers may come: while somebody
  /// has work for which no more may come yet, one of the idle threads checks at intervals, and wakes the next.
  Job* wait_for_work(std::unique_lock<std::mutex>& lock, Helper& self) {
    for (;;) {
      if (stopping) return nullptr;
      if (Job* const job = neediest()) return job;
      const bool held_back = std::any_of(jobs.begin(), jobs.end(), [](const Job* job) { return !job->exhausted(); });
      if (held_back && !watched) {
        watched = true;
        sleep(lock, self, kWatch);
        watched = false;
      } else {
        sleep(lock, self);
      }
    }
  }

  void serve(Helper& self) {
    std::unique_lock lock(mutex);
    while (Job* const job = wait_for_work(lock, self)) {
      least_helped = std::max(least_helped, job->group.seconds);
      if (job->grouped) job->group.least = std::max(job->group.least, job->own.seconds);
      ++job->helpers;
      const bool bounded = job->lender != nullptr;
      const bool nobody_watches = bounded && !watched;
      lock.unlock();
      if (nobody_watches) wake(1);
      const auto since = Clock::now();
      {
        const HeapScope allocates(job->heap);
        job->run([&] { return Clock::now() - since >= (crowded || bounded ? kStep : kMostUncounted); });
      }
      lock.lock();
      job->help(std::chrono::duration<double>(Clock::now() - since).count());
      --job->helpers;
      if (job->helpers == 0 || job->has_rests) job->left.notify_one();
    }
  }
};

Yield*& Yield::of_thread() {
  thread_local Yield* yield = nullptr;
  return yield;
}

std::shared_ptr<Progress>& Progress::of_thread() { return thread_value<Progress, std::shared_ptr<Progress>>(); }

ThreadPool::ThreadPool(int threads)
    : impl_(std::make_shared<Impl>(std::max(1, threads) - 1)), size_(std::max(1, threads)) {}

ThreadPool::ThreadPool(const ThreadPool& other, std::stop_token stop, std::shared_ptr<HelperTime> group)
    : impl_(other.impl_), size_(other.size_), stop_(std::move(stop)), group_(std::move(group)) {}

ThreadPool::~ThreadPool() = default;

void ThreadPool::parallel_for(std::int64_t n, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& work) {
  if (n <= 0) return;
  const std::int64_t pieces = std::min(size_ * kPiecesPerThread, n / std::max(std::int64_t{1}, grain));
  const bool stoppable = stop_.stop_possible();
  const auto never = [] { return false; };
  if (size_ == 1 || pieces <= 1) {
    if (stoppable)
      Steps(grain, *this).run({0, n}, work, never);
    else
      work(0, n);
    return;
  }
  Job job{n,
          pieces,
          grain,
          work,
          *this,
          stoppable,
          caller_time_,
          group_ ? *group_ : caller_time_,
          group_ != nullptr,
          dynamic_cast<const HelperLimit*>(Yield::of_thread()),
          HeapAccount::of_thread()};
  impl_->add(job);
  do {
    job.run(never);
  } while (!impl_->remove(job));
  if (job.error) std::rethrow_exception(job.error);
}

int usable_cores() {
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (file >> quota >> period && quota > 0 && period > 0)
    cores = std::clamp(static_cast<int>(quota / period + 0.5), 1, cores);
  return cores;
}

}  // namespace echotrain::numerics
