// Offloading runs long work on threads other than those that move the sessions' bytes.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>  // the Asio headers below use std::exchange without including it
#include <vector>

#include "server/base/clock.h"
#include "server/base/signal.h"

namespace echotrain::server {

/// Runs `work` on a thread of `pool`; when it is done, the caller goes on, on its own executor. Throws what `work`
/// throws.
asio::awaitable<void> run_offloaded(asio::thread_pool& pool, std::function<void()> work);
/// Does the same on a thread of `executor`.
asio::awaitable<void> run_offloaded(asio::any_io_executor executor, std::function<void()> work);

/// A queue with threads for texts of clients that take long to read (fair share by address). The next job is of the
/// address whose last turn is longest ago, however many jobs one address has in line. One address has at most half of
/// the threads. An address without a turn for kRested counts as if its turn was that long ago, so that new addresses
/// delay the others by no more than that. Thread-safe.
class FairQueue {
 public:
  static constexpr std::chrono::seconds kRested{10};
  static constexpr std::size_t kMostKnown = 1024;  ///< addresses whose turns are known, beside those in line

  /// Starts `threads` threads: at least 2.
  explicit FairQueue(int threads);
  ~FairQueue();  ///< as end()
  /// Waits until the jobs that have begun are done and their `wake` has returned. Jobs in line are cancelled. None may
  /// be added meanwhile. May be called again.
  void end();
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  class Job {
   public:
    bool done() const;
    /// Takes the job out of the line. Returns false if it has begun; it then goes on.
    bool cancel();
    /// Throws what the work has thrown. Precondition: done().
    void rethrow() const;

   private:
    friend class FairQueue;
    enum class State { in_line, begun, done, cancelled };
    Job(FairQueue& queue, std::string address, std::function<void()> work, std::function<void()> wake)
        : queue_(queue), address_(std::move(address)), work_(std::move(work)), wake_(std::move(wake)) {}
    FairQueue& queue_;
    const std::string address_;
    const std::function<void()> work_, wake_;
    State state_ = State::in_line;  // guarded by the queue
    std::exception_ptr thrown_;
  };
  /// Puts a job in line. `wake` is called, on any thread, when `work` has been done. What `work` uses has to stay until
  /// then, or until cancel() has returned true.
  std::shared_ptr<Job> add(std::string address, std::function<void()> work, std::function<void()> wake,
                           Clock::time_point now = Clock::now());

 private:
  struct Line {
    std::string address;
    std::deque<std::shared_ptr<Job>> jobs;
    std::size_t running = 0;
    Clock::time_point turn;  // the last one
    bool idle() const { return jobs.empty() && running == 0; }
  };
  std::list<Line>::iterator line_of(const std::string& address);
  void forget(Clock::time_point now);
  std::shared_ptr<Job> next();
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Line> lines_;
  bool ending_ = false;
  const std::size_t most_of_one_;
  std::vector<std::thread> threads_;  // last: everything else exists before they start
};

}  // namespace echotrain::server
