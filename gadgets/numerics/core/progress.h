// The progress of a scan, for a watchdog that asks whether it still works.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace echotrain::numerics {

/// Counts the steps of a scan's thread, one at each check_stop(), and names the gadget that it is in. Helper threads
/// count none: the scan's thread works itself and never waits for their pieces for long. Images that become complete on
/// a GPU are steps, too. Thread-safe.
class Progress {
 public:
  /// Counts one step.
  void step() { steps_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t steps() const { return steps_.load(std::memory_order_relaxed); }

  /// While one exists, the scan's thread waits for others: for data, for room, for its turn, for a result that another
  /// scan computes.
  class Wait {
   public:
    explicit Wait(Progress& progress) : progress_(progress) { progress_.waits_.fetch_add(1); }
    ~Wait() {
      progress_.step();
      progress_.waits_.fetch_sub(1);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Progress& progress_;
  };
  bool waits() const { return waits_ > 0; }
  /// Ends the scan's work: its thread waits from now on.
  void end() { ++waits_; }

  /// While one exists, the scan's thread is in the gadget `name`, which must outlive all readers of the progress; then
  /// it is where it was.
  class Stay {
   public:
    /// `progress` may be null: it is not watched.
    Stay(Progress* progress, const std::string& name)
        : progress_(progress), before_(progress != nullptr ? progress->at_.exchange(&name) : nullptr) {}
    ~Stay() {
      if (progress_ != nullptr) progress_->at_ = before_;
    }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

   private:
    Progress* const progress_;
    const std::string* const before_;
  };
  /// The gadget's name; null if the thread is in none.
  const std::string* at() const { return at_; }

  /// Notes that a context on a GPU was made.
  void note_device() { on_device_ = true; }
  /// Forgets note_device() for the work that begins now.
  void forget_device() { on_device_ = false; }
  bool on_device() const { return on_device_; }

  /// The progress of the calling thread, whose checks of a stop token are its steps; chains that it makes, and caches
  /// that it asks, use it. Null: it is not watched. Throws std::bad_alloc where a thread's first call finds no memory.
  static std::shared_ptr<Progress>& of_thread();

 private:
  std::atomic<std::uint64_t> steps_ = 0;
  std::atomic<int> waits_ = 0;
  std::atomic<bool> on_device_ = false;
  std::atomic<const std::string*> at_ = nullptr;
};

/// Tells how long a working scan has made no step, when asked again and again. Confined to one thread.
class ProgressAge {
 public:
  using Clock = std::chrono::steady_clock;
  explicit ProgressAge(std::shared_ptr<const Progress> progress, Clock::time_point now = Clock::now())
      : progress_(std::move(progress)), looked_(now) {}

  /// Zero while the scan waits for others, or has made a step since the last call. Between two calls at most
  /// kMostAtOnce counts: a longer gap means that the caller itself was held up (a stopped process, a machine that
  /// slept).
  Clock::duration look(Clock::time_point now) {
    const std::uint64_t steps = progress_->steps();
    if (std::exchange(steps_, steps) != steps || progress_->waits())
      age_ = {};
    else
      age_ += std::min<Clock::duration>(now - looked_, kMostAtOnce);
    looked_ = now;
    return age_;
  }
  const Progress& progress() const { return *progress_; }
  static constexpr std::chrono::seconds kMostAtOnce{1};

 private:
  const std::shared_ptr<const Progress> progress_;
  Clock::time_point looked_;
  std::uint64_t steps_ = 0;
  Clock::duration age_{};
};

}  // namespace echotrain::numerics
