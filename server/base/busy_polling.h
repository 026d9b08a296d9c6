// Busy polling lets a thread spin while it waits, instead of sleeping: the option `latency`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace echotrain::server {

/// Tells the processor that this thread spins, so that other threads of the core go first (no system call).
inline void spin_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Lends each spinning thread of this process a core of its own and leaves some cores to the other threads. Other
/// processes may use all cores. Thread-safe.
class DedicatedCores {
 public:
  /// Lends at most `most` of the cores that the process may use.
  explicit DedicatedCores(int most);

  /// Keeps the thread that took it on one core, until destroyed by that thread.
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
  /// Lends a core to the calling thread; returns null when none is left to lend.
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

  /// Sets the function that is called, on some thread, when the number of waiting threads rises from zero. Call it
  /// before any thread waits; only the first call counts.
  void on_begin(std::function<void()> begin) {
    if (!begin_) begin_ = std::move(begin);
  }
  bool wanted() const { return waiting_ > 0; }
  DedicatedCores& cores() { return cores_; }

  /// Counts its thread as waiting from construction to destruction, except between rest(true) and rest(false).
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
