// The readiness tells whether new scans are taken, and if not, why.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace echotrain::server {

/// The states are starting -> ready -> draining, and broken from anywhere and for good. Thread-safe.
class Readiness {
 public:
  enum class State { starting, ready, draining, broken };

  State state() const;
  /// Returns one sentence for an operator; empty when ready.
  std::string reason() const;

  /// Says that the server accepts sessions from now on. Does nothing unless the state is starting.
  void set_ready();
  /// Says that the server accepts no more sessions; those that run may finish.
  void drain();
  /// Says that something is broken that only a new process mends. The first reason counts, and calls on_broken.
  void break_down(std::string_view reason);
  /// Makes break_down() call `react` once, on its caller's thread. It is called before threads start.
  void on_broken(std::function<void()> react) { react_ = std::move(react); }

 private:
  mutable std::mutex mutex_;
  State state_ = State::starting;
  std::string reason_ = "the server is starting";
  std::function<void()> react_;
};

std::string_view to_string(Readiness::State state);

}  // namespace echotrain::server
