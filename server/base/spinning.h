// Threads that look for what they wait for all the time instead of sleeping until it comes: the option `latency`.
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

/// Cores that threads have for themselves while they spin, as far as this process can say: each of its threads that
/// spins is on a core of its own, and some cores are left to all others. Thread-safe.
class OwnCores {
 public:
  /// Of the cores that the process may use, at most `most`.
  explicit OwnCores(int most);

  /// Keeps the thread that made it on one core. For that thread.
  class Lease {
   public:
    Lease(OwnCores& cores, int core);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    OwnCores& cores_;
    const int core_;
  };
  /// For the calling thread; null when all that may be lent are.
  std::unique_ptr<Lease> take();
  /// A thread that such a thread has started may use all cores. For the thread that was started.
  void leave() const;

  int all() const { return static_cast<int>(all_.size()); }  ///< cores that the process may use
  int lendable() const { return lendable_; }

 private:
  void bind(const std::vector<int>& cores) const;

  std::vector<int> all_;
  int lendable_ = 0;
  std::mutex mutex_;
  std::vector<int> free_;
};

/// Whether anybody waits for something that comes soon. Thread-safe.
class Spinning {
 public:
  /// `cores`: at most so many are used. std::invalid_argument when there are fewer than two: a thread that spins would
  /// keep the others from what it waits for.
  explicit Spinning(int cores);

  /// Called, on some thread, when somebody waits after nobody did. To be given before anybody waits; the first counts.
  void on_begin(std::function<void()> begin) {
    if (!begin_) begin_ = std::move(begin);
  }
  bool wanted() const { return waiting_ > 0; }
  OwnCores& cores() { return cores_; }

  /// Somebody waits for something that comes soon, from construction to destruction, but for rests.
  class Wait {
   public:
    explicit Wait(Spinning& spinning) : spinning_(spinning) { rest(false); }
    ~Wait() { rest(true); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    void rest(bool on);

   private:
    Spinning& spinning_;
    bool rests_ = true;
  };

 private:
  OwnCores cores_;
  std::function<void()> begin_;
  std::atomic<int> waiting_ = 0;
};

}  // namespace echotrain::server
