// The listener accepts connections and admits and counts sessions.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/base/signal.h"
#include "server/net/allow_list.h"
#include "server/net/connection_admission.h"
#include "server/net/proxy_handshakes.h"
#include "server/session/session.h"

namespace echotrain::server {

using asio::ip::tcp;

class Listener {
 public:
  /// Binds to the address and the ports of the options. Throws std::runtime_error when that fails and
  /// std::invalid_argument when everybody can reach the plain port and --insecure is not given; both say what to do.
  /// `emptied` is called, on any thread, when stop() has been called and no session is left.
  Listener(asio::io_context& context, const Environment& environment, std::function<void()> emptied);

  void start();
  /// Stops accepting and ends the sessions that run no scan. Any thread may call this and the members below.
  void stop();
  /// Ends all sessions, with fatal `shutdown`.
  void stop_sessions_now();
  /// Ends all sessions without waiting for their clients.
  void cut_sessions_off();
  /// Ends the session of this number with a reason that its client is told. False: there is none.
  bool stop_session(std::uint64_t id, const protocol::Error& reason);

  /// Begins a session on a connected socket of this process, which is closed when that fails. `peer` is "address:port"
  /// of the one who wants it: the bounds of that address hold. Its bytes come from `capture`, and are not captured.
  /// Returns its number.
  protocol::Result<std::uint64_t> add_own(int socket, const std::string& peer, const std::string& capture);

  /// Does the same for a detached scan, beside the sessions of clients.
  protocol::Result<std::uint64_t> add_detached(int socket, const SessionOrigin& origin);

  std::optional<tcp::endpoint> plain_endpoint() const { return endpoint_of(false); }
  std::optional<tcp::endpoint> tls_endpoint() const { return endpoint_of(true); }

 private:
  /// A listening port.
  struct ListeningPort {
    tcp::acceptor acceptor;
    tcp::endpoint endpoint;
    bool tls;
  };

  /// A connection in the line of those that wait for room.
  struct Waiting {
    asio::ip::address who;  // as ConnectionAdmission counts it
    asio::steady_timer timer;
  };
  class WaitInLine;

  std::optional<tcp::endpoint> endpoint_of(bool tls) const;
  void open_port(tcp::endpoint endpoint, bool tls);
  asio::awaitable<void> accept(ListeningPort& port);
  asio::awaitable<void> wait(Clock::duration time);
  asio::awaitable<void> take(tcp::socket socket, bool tls);
  bool begin_handshake(bool waits);
  void end_handshake(bool waited);
  asio::awaitable<void> handshake(std::shared_ptr<tcp::socket> socket, bool tls, tcp::endpoint peer, bool waits);
  asio::any_io_executor off_strand_executor() const;
  bool try_to_add(tcp::socket& socket, bool tls, const tcp::endpoint& peer, bool& waits);
  void end_wait(const tcp::endpoint& peer, bool& waits);
  std::optional<protocol::Error> refusal_of(const tcp::endpoint& peer, bool tls) const;
  bool make_room(const asio::ip::address& address);
  void log_overload(const asio::ip::address& address);
  void start(const std::shared_ptr<Session>& session, std::uint64_t id, const std::optional<protocol::Error>& refusal);
  std::optional<protocol::Error> admit(std::uint64_t id);
  void remove(std::uint64_t id, bool refused);
  void shut_down_sessions(bool now);
  bool is_empty() const { return sessions_.empty() && handshaking_ == 0 && came_to_wait_ == 0; }

  asio::io_context& context_;
  const Environment& environment_;
  const std::function<void()> emptied_;
  const AllowList allow_, balancers_;
  const asio::strand<asio::io_context::executor_type> strand_;  // of accept(), take() and handshake()
  std::list<ListeningPort> ports_;
  ProxyHandshakes handshakes_;  // on strand_
  std::list<Waiting> line_;     // on strand_

  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
  std::uint64_t last_id_ = 0;
  ConnectionAdmission admission_;  // of the sessions that are not refused
  std::int64_t refused_ = 0;       // sessions that only hear that they are refused
  std::int64_t handshaking_ = 0;   // connections whose balancer is asked for the client, or that then wait for room
  std::int64_t came_to_wait_ = 0;  // connections that have waited for room since they came
  std::optional<Clock::time_point> logged_overload_;
  bool stopping_ = false;
};

std::string text_of(const asio::ip::tcp::endpoint& endpoint);  ///< "127.0.0.1:9002", "[::1]:9002"

}  // namespace echotrain::server
