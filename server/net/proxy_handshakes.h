// The PROXY handshakes learn from balancers which client each connection is for.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/signal.h"

namespace echotrain::server {

/// Reads the PROXY header of each connection that comes from a balancer. For one strand.
class ProxyHandshakes {
 public:
  /// A balancer has `patience` for its header.
  ProxyHandshakes(asio::any_io_executor strand, Clock::duration patience, std::shared_ptr<LogBounds> log)
      : strand_(std::move(strand)), patience_(patience), log_(std::move(log)) {}

  /// Returns the client of a connection, or the balancer where it speaks for itself. Nothing when there is no header or
  /// a wrong one: the log says why, and the connection is to be closed.
  asio::awaitable<std::optional<asio::ip::tcp::endpoint>> client_of(std::shared_ptr<asio::ip::tcp::socket> socket,
                                                                    asio::ip::tcp::endpoint balancer);
  /// Makes room when there are as many handshakes as may be: closes the oldest connection whose client is not known
  /// yet, unless it has had less than kGrace for its header. Its client_of() returns soon, and its slot is free.
  void make_room();
  static constexpr Clock::duration kGrace = std::chrono::milliseconds(250);
  /// Closes the connections whose clients are not known yet, and those to come.
  void stop();

 private:
  struct Open {
    std::shared_ptr<asio::ip::tcp::socket> socket;
    Clock::time_point since;
    bool dropped = false;
  };
  /// Takes its connection out of the list again.
  class Entry {
   public:
    Entry(std::list<Open>& all, Open open) : all_(all), place_(all.insert(all.end(), std::move(open))) {}
    ~Entry() { all_.erase(place_); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    const Open* operator->() const { return &*place_; }

   private:
    std::list<Open>& all_;
    const std::list<Open>::iterator place_;
  };
  void tell_of_drop(const asio::ip::tcp::endpoint& balancer);

  const asio::any_io_executor strand_;
  const Clock::duration patience_;
  const std::shared_ptr<LogBounds> log_;
  std::list<Open> open_;
  std::optional<Clock::time_point> told_of_drop_;
  bool stopped_ = false;
};

}  // namespace echotrain::server
