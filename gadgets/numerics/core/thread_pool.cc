#include "gadgets/numerics/core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace echotrain::numerics {
namespace {

/// Pieces per thread: more pieces even out the load, fewer cost less.
constexpr std::int64_t kPiecesPerThread = 8;

/// One parallel_for in progress. It lives on its caller's stack until no worker is in it.
struct Job {
  Job(std::int64_t elements, std::int64_t parts, const std::function<void(std::int64_t, std::int64_t)>& f)
      : n(elements), pieces(parts), work(f) {}

  const std::int64_t n, pieces;
  const std::function<void(std::int64_t, std::int64_t)>& work;
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  int workers = 0;  // guarded by the pool's mutex

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= pieces; }
  void run() {
    for (;;) {
      const std::int64_t piece = next.fetch_add(1);
      if (piece >= pieces) return;
      try {
        work(piece * n / pieces, (piece + 1) * n / pieces);
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

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()), size_(std::max(1, threads)) {
  for (int i = 1; i < size_; ++i) impl_->threads.emplace_back([this] { impl_->serve(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  for (auto& thread : impl_->threads) thread.join();
}

void ThreadPool::parallel_for(std::int64_t n, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& work) {
  if (n <= 0) return;
  const std::int64_t pieces = std::min(size_ * kPiecesPerThread, n / std::max(std::int64_t{1}, grain));
  if (size_ == 1 || pieces <= 1) {
    work(0, n);
    return;
  }
  Job job(n, pieces, work);
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
