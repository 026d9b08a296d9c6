// Whether this server should be given work, and why not.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace echotrain::server {

/// starting -> ready -> draining, and broken from anywhere and for good. Thread-safe.
class Readiness {
 public:
  enum class State { starting, ready, draining, broken };

  State state() const;
  /// One sentence for an operator; empty when ready.
  std::string reason() const;

  /// The server accepts sessions from now on. Does nothing unless the state is starting.
  void set_ready();
  /// The server accepts no more sessions; those that run may finish.
  void drain();
  /// Something that only a new process mends. The first reason counts, and calls on_broken.
  void break_down(std::string_view reason);
  /// break_down() calls `react` once, on its caller's thread. Call this before threads start.
  void on_broken(std::function<void()> react) { react_ = std::move(react); }

 private:
  mutable std::mutex mutex_;
  State state_ = State::starting;
  std::string reason_ = "the server is starting";
  std::function<void()> react_;
};

std::string_view to_string(Readiness::State state);

}  // namespace echotrain::server
