// A signal wakes the coroutines of one strand that wait for a condition.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>  // Boost 1.74's Asio headers use std::exchange without including it.

namespace echotrain::server {

namespace asio = boost::asio;
using boost::system::error_code;

/// Wakes coroutines of one strand that wait for something to change. A notification with nobody waiting is lost, so
/// waiters test their condition first: `while (!condition) co_await signal.wait();`.
class Signal {
 public:
  explicit Signal(const asio::any_io_executor& strand) : timer_(strand, asio::steady_timer::time_point::max()) {}

  void notify() { timer_.cancel(); }

  asio::awaitable<void> wait() {
    error_code aborted;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, aborted));
  }

 private:
  asio::steady_timer timer_;  // never expires; cancelling it wakes all waiters
};

}  // namespace echotrain::server
