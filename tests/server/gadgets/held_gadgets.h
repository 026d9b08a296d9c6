// A held gadget goes on when a test lets it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "gadgets/api/registry.h"

namespace echotrain::server {

/// While this gate is closed, a text with the gadget `laborious` cannot be read to its end.
class TextGate {
 public:
  void set(bool open) {
    {
      const std::scoped_lock lock(mutex_);
      open_ = open;
    }
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    --waiting_;
  }
  void wait_for_somebody() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int waiting_ = 0;
};
TextGate& text_gate();

/// The work of the gadget `slow` on each batch.
class Tap {
 public:
  void close() { set(false); }
  void open() { set(true); }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    if (fails_) throw std::logic_error("no inverse");
    if (!random_) return;
    const auto pause = std::chrono::microseconds((*random_)() % 3000);
    lock.unlock();
    std::this_thread::sleep_for(pause);
  }
  void dawdle(unsigned seed) {
    const std::scoped_lock lock(mutex_);
    random_.emplace(seed);
  }
  void fail() {
    const std::scoped_lock lock(mutex_);
    fails_ = true;
  }
  void reset() {
    const std::scoped_lock lock(mutex_);
    random_.reset();
    fails_ = false;
    open_ = true;
  }

 private:
  void set(bool open) {
    {
      const std::scoped_lock lock(mutex_);
      open_ = open;
    }
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true, fails_ = false;
  std::optional<std::mt19937> random_;
};
Tap& tap();

/// All gadgets, and these: the parameters of `laborious` pass text_gate() when they are read, and the batches of `slow`
/// pass tap(); both give readouts as they are. `dripping` sends an image eight times, one in 0.6 s.
const Registry& held_registry();

}  // namespace echotrain::server
