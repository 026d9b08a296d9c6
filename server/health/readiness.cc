#include "server/health/readiness.h"

#include <utility>

namespace echotrain::server {

Readiness::State Readiness::state() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

std::string Readiness::reason() const {
  const std::scoped_lock lock(mutex_);
  return reason_;
}

void Readiness::set_ready() {
  const std::scoped_lock lock(mutex_);
  if (state_ != State::starting) return;
  state_ = State::ready;
  reason_.clear();
}

void Readiness::drain() {
  const std::scoped_lock lock(mutex_);
  if (state_ == State::broken) return;
  state_ = State::draining;
  reason_ = "the server is shutting down: running scans may finish, new ones are refused";
}

void Readiness::break_down(std::string_view reason) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(state_, State::broken) == State::broken) return;
    reason_ = reason;
  }
  if (react_) react_();
}

std::string_view to_string(Readiness::State state) {
  switch (state) {
    case Readiness::State::starting:
      return "starting";
    case Readiness::State::ready:
      return "ready";
    case Readiness::State::draining:
      return "draining";
    case Readiness::State::broken:
      return "broken";
  }
  return "unknown";
}

}  // namespace echotrain::server
