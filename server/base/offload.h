// Work that takes long goes to other threads than those that move the sessions' bytes.
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
/// Runs `work` on a thread of `executor`, likewise.
asio::awaitable<void> run_offloaded(asio::any_io_executor executor, std::function<void()> work);

/// A fair queue for what clients make the server read (fair share by address): however much one has in line, next is
/// the address whose last turn is longest ago, and one address has at most half of the threads, so that a thread is
/// free for others. An address without a turn for kRested counts as if it had one that long ago: many addresses that
/// ask again and again hold up nobody who asks now and then, and ever new ones hold up nobody for longer. Thread-safe.
class FairQueue {
 public:
  static constexpr std::chrono::seconds kRested{10};
  static constexpr std::size_t kMostKnown = 1024;  ///< addresses whose turns are known, beside those in line

  /// Starts `threads` threads: at least 2.
  explicit FairQueue(int threads);
  ~FairQueue();  ///< as end()
  /// Waits for what has begun and for its `wake`, whose strand belongs to a context that ends next. Nothing may be in
  /// line, nor be added. May be called again.
  void end();
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  class Job {
   public:
    bool done() const;
    /// Takes the job out of the line. False: it has begun, and goes on.
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
