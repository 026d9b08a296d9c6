#include "gadgets/numerics/core/thread_pool.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace echotrain::numerics {
namespace {

/// Pieces per thread: more pieces even out the load, fewer cost less.
constexpr std::int64_t kPiecesPerThread = 8;

using Clock = std::chrono::steady_clock;
/// A piece is done in steps of about this time, before each of which the stop token is looked at.
constexpr std::chrono::milliseconds kStep{20};
/// Most that a step may be longer than the one before: how long it takes is only known afterwards.
constexpr double kGrowth = 16;

/// How many elements a thread takes at once: `grain` at first, and then as many as kStep allows.
class Steps {
 public:
  Steps(std::int64_t grain, const ThreadPool& pool) : grain_(std::max(std::int64_t{1}, grain)), pool_(pool) {}

  void run(std::int64_t begin, std::int64_t end, const std::function<void(std::int64_t, std::int64_t)>& work) {
    while (begin < end) {
      pool_.check_stop();
      const std::int64_t to = end - begin < step_ + grain_ ? end : begin + step_;
      const auto since = Clock::now();
      work(begin, to);
      adapt(to - begin, Clock::now() - since);
      begin = to;
    }
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

/// One parallel_for in progress. It lives on its caller's stack until no worker is in it.
struct Job {
  const std::int64_t n, pieces, grain;
  const std::function<void(std::int64_t, std::int64_t)>& work;
  const ThreadPool& pool;
  const bool stoppable;
  std::atomic<std::int64_t> next{0};
  std::mutex mutex{};
  std::exception_ptr error{};
  int workers = 0;  // guarded by the pool's mutex

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= pieces; }
  void run() {
    Steps steps(grain, pool);
    for (;;) {
      const std::int64_t piece = next.fetch_add(1);
      if (piece >= pieces) return;
      try {
        const std::int64_t begin = piece * n / pieces, end = (piece + 1) * n / pieces;
        if (stoppable)
          steps.run(begin, end, work);
        else
          work(begin, end);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next.store(pieces);  // the other pieces are dropped
      }
    }
  }
};

}  // namespace

struct ThreadPool::Impl {
  std::mutex mutex;
  std::condition_variable wake, left;
  std::list<Job*> jobs;
  bool stopping = false;
  std::vector<std::thread> threads;

  explicit Impl(int helpers) {
    try {
      threads.reserve(static_cast<std::size_t>(helpers));
      for (int i = 0; i < helpers; ++i) threads.emplace_back([this] { serve(); });
    } catch (const std::system_error& error) {
      const std::size_t started = threads.size();
      end();
      throw ResourceError(fmt::format("cannot start {} CPU threads (only {}): {}; set `threads` lower", helpers + 1,
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
    wake.notify_all();
    for (auto& thread : threads) thread.join();
  }

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [this] { return stopping || !jobs.empty(); });
      if (stopping) return;
      Job* job = jobs.front();
      if (job->exhausted()) {
        jobs.pop_front();
        continue;
      }
      jobs.splice(jobs.end(), jobs, jobs.begin());  // round robin: the next worker helps the next session
      ++job->workers;
      lock.unlock();
      job->run();
      lock.lock();
      jobs.remove(job);
      if (--job->workers == 0) left.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int threads)
    : impl_(std::make_shared<Impl>(std::max(1, threads) - 1)), size_(std::max(1, threads)) {}

ThreadPool::ThreadPool(const ThreadPool& other, std::stop_token stop)
    : impl_(other.impl_), size_(other.size_), stop_(std::move(stop)) {}

ThreadPool::~ThreadPool() = default;

void ThreadPool::parallel_for(std::int64_t n, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& work) {
  if (n <= 0) return;
  const std::int64_t pieces = std::min(size_ * kPiecesPerThread, n / std::max(std::int64_t{1}, grain));
  const bool stoppable = stop_.stop_possible();
  if (size_ == 1 || pieces <= 1) {
    if (stoppable)
      Steps(grain, *this).run(0, n, work);
    else
      work(0, n);
    return;
  }
  Job job{n, pieces, grain, work, *this, stoppable};
  {
    std::lock_guard lock(impl_->mutex);
    impl_->jobs.push_back(&job);
  }
  impl_->wake.notify_all();
  job.run();
  {
    std::unique_lock lock(impl_->mutex);
    impl_->jobs.remove(&job);
    impl_->left.wait(lock, [&job] { return job.workers == 0; });
  }
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
