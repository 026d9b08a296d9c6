// Accepts connections and keeps count of the sessions.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "server/session.h"
#include "server/signal.h"

namespace echotrain::server {

class Listener {
 public:
  /// Binds to the address and port of the options. Throws std::runtime_error that says what to do when that fails.
  /// `emptied` is called, on any thread, when stop() has been called and no session is left.
  Listener(asio::io_context& context, const Environment& environment, std::function<void()> emptied);

  void start();
  /// Accepts no more, ends the sessions that run no scan. From any thread, as are the others below.
  void stop();
  /// Ends all sessions, with fatal `shutdown`.
  void stop_sessions_now();

  const tcp::endpoint& endpoint() const { return endpoint_; }
  std::string address() const;  ///< "127.0.0.1:9002"

 private:
  asio::awaitable<void> accept();
  void add(tcp::socket socket);
  void remove(std::uint64_t id, bool refused);
  void shut_down_sessions(bool now);

  asio::io_context& context_;
  const Environment& environment_;
  const std::function<void()> emptied_;
  tcp::acceptor acceptor_;
  tcp::endpoint endpoint_;

  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
  std::uint64_t last_id_ = 0;
  std::int64_t served_ = 0;   // sessions that count against the limit
  std::int64_t refused_ = 0;  // sessions that are only told so
  bool stopping_ = false;
};

}  // namespace echotrain::server
