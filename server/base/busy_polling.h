// Busy polling lets a thread look all the time for what it waits for, instead of sleeping: the option `latency`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace echotrain::server {

/// Lets other threads of the same core go first for a moment (a processor's hint, no system call).
inline void spin_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Lends cores to the threads of this process that spin: each gets one of its own, and some are left to all other
/// threads. Other processes may use them all the same. Thread-safe.
class DedicatedCores {
 public:
  /// Lends at most `most` of the cores that the process may use.
  explicit DedicatedCores(int most);

  /// Keeps the thread that made it on one core; for that thread only.
  class Lease {
   public:
    Lease(DedicatedCores& cores, int core);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    DedicatedCores& cores_;
    const int core_;
  };
  /// Lends a core to the calling thread; null when all that may be lent are.
  std::unique_ptr<Lease> take();
  /// Lets the calling thread use all cores: it inherits the one core of the thread that has started it.
  void unpin() const;

  int all() const { return static_cast<int>(all_.size()); }  ///< cores that the process may use
  int lendable() const { return lendable_; }

 private:
  void bind(const std::vector<int>& cores) const;

  std::vector<int> all_;
  int lendable_ = 0;
  std::mutex mutex_;
  std::vector<int> free_;
};

/// Counts the threads that wait for something that comes soon. Thread-safe.
class BusyPolling {
 public:
  /// At most `cores` cores are used. Throws std::invalid_argument when there are fewer than two: a thread that spins
  /// would keep the others from what it waits for.
  explicit BusyPolling(int cores);

  /// Sets what is called, on some thread, when somebody waits after nobody did. It is set before anybody waits; the
  /// first call counts.
  void on_begin(std::function<void()> begin) {
    if (!begin_) begin_ = std::move(begin);
  }
  bool wanted() const { return waiting_ > 0; }
  DedicatedCores& cores() { return cores_; }

  /// Somebody waits for something that comes soon, from construction to destruction, but for rests.
  class Wait {
   public:
    explicit Wait(BusyPolling& busy_polling) : busy_polling_(busy_polling) { rest(false); }
    ~Wait() { rest(true); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    void rest(bool on);

   private:
    BusyPolling& busy_polling_;
    bool rests_ = true;
  };

 private:
  DedicatedCores cores_;
  std::function<void()> begin_;
  std::atomic<int> waiting_ = 0;
};

}  // namespace echotrain::server
