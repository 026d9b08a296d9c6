// The fair scheduler divides the cores among the addresses whose scans compute (fair share), by turns.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "gadgets/numerics/core/helper_limit.h"

namespace echotrain::server {

/// While scans of several addresses compute, each address has an equal part of the cores: so many threads of its scans
/// compute at once, and the others wait, first come first served. A thread that computes makes room for the next one
/// after some 10 ms. No thread waits while only one address computes; an address that has not computed for a second has
/// no part. Priorities (priority.h) do much of the same where the kernel honours them; this works without. The threads
/// of the pool that help a scan leave half a part of the cores to other addresses. Thread-safe.
///
/// The uncontended path takes no lock and makes no system call. Waiting threads hold up their own address only.
///
/// No thread waits for more than a few seconds, so that a computing thread may wait for a result of another one.
class FairScheduler : public std::enable_shared_from_this<FairScheduler> {
  using Clock = std::chrono::steady_clock;

 public:
  /// At most `cores` threads compute at once.
  explicit FairScheduler(int cores) : cores_(cores) {}

  class Scan;
  /// Registers a scan of `address` for as long as the object lives. With an empty address the scan takes no turns.
  std::unique_ptr<Scan> scan(const std::string& address);
  /// Returns the time for which the pool's threads have helped the scans of an address, which count as one for the
  /// pool, whether they take turns or not. Null for an empty address.
  std::shared_ptr<numerics::HelperTime> helped(const std::string& address);

 private:
  struct Address {
    std::string name;
    std::int64_t scans = 0;               // guarded by the scheduler
    std::atomic<int> computing = 0;       // threads
    std::atomic<Clock::duration> last{};  // when a thread last began or ended to compute
    std::atomic<bool> full = false;       // threads that compute make room, and those that begin wait in line
    std::mutex mutex;
    std::list<Scan*> waiting;  // for a turn, the first one longest; guarded by the mutex
  };

  int share() const;
  void count(Clock::time_point now);
  void count_now(Clock::time_point now);
  static bool take(Address& address, int most);
  void look_again(Address& address);

  const int cores_;
  std::atomic<int> active_ = 0;             // addresses that compute
  std::atomic<Clock::duration> counted_{};  // when they were counted; zero: it is to be done at once
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Address>> addresses_;          // that have scans; guarded by the mutex
  std::map<std::string, std::weak_ptr<numerics::HelperTime>> helped_;  // guarded by the mutex
};

class FairScheduler::Scan final : public numerics::HelperLimit {
 public:
  ~Scan() override;

  /// The calling thread computes from construction to destruction, with pauses in check_stop(). Waits for the turn
  /// first; returns at once when `stop` is requested.
  class Computing {
   public:
    Computing(Scan& scan, std::stop_token stop);
    ~Computing();
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;

   private:
    Scan& scan_;
    numerics::Yield* const before_;
  };

  void look() override;
  void rest() override;
  int most_helpers() const override;

 private:
  friend class FairScheduler;
  Scan(std::shared_ptr<FairScheduler> scheduler, std::shared_ptr<Address> address);
  void begin();
  void stand_in_line();
  void end();

  const std::shared_ptr<FairScheduler> scheduler_;
  const std::shared_ptr<Address> address_;  // null: no turns
  std::stop_token stop_;
  bool computing_ = false;  // has a turn; of the thread
  bool granted_ = false;    // guarded by the address
  std::condition_variable_any grants_;
  Clock::time_point since_;
};

}  // namespace echotrain::server
