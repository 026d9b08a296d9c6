// The admin port serves HTTP/1.1 to operators and their monitoring. Every client that reaches it may read; to stop a
// session takes a token.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "server/base/service_port.h"
#include "server/base/signal.h"
#include "server/console/admin/admin_actions.h"
#include "server/console/admin/live_pages.h"
#include "server/session/environment.h"

namespace echotrain::server {

/// Returns admin.bind with a port. Throws std::runtime_error where admin.bind is no address.
asio::ip::tcp::endpoint admin_endpoint(const config::AdminOptions& options, std::int64_t port);

/// The port pauses for this long after a failed accept, then tries again.
inline constexpr std::chrono::milliseconds kPauseAfterError{100};

/// The limits of what clients of the port may use.
struct AdminLimits {
  std::size_t connections = 64;  ///< besides those of viewers (4 each); one more closes that of the address that has
                                 ///< most which has been silent for longest
  std::size_t request_bytes = 8 << 10;
  std::chrono::milliseconds request_time = std::chrono::seconds(10);  ///< for a whole request, and to take an answer
  std::chrono::milliseconds idle_time = std::chrono::seconds(75);     ///< between two requests
};

/// Serves /livez, /readyz, /metrics and /sessions, and the actions of admin_actions.h. It reads what others keep up to
/// date, and waits for nobody.
class AdminPort final : public ServicePort {
 public:
  /// Binds to admin.bind and admin.port. Throws std::runtime_error that says what to do when that fails.
  AdminPort(asio::io_context& context, const Environment& environment, const AdminLimits& limits = {},
            StopSession stop_session = {}, AddSession add_session = {});

  void start() override;
  void stop() override;

  const asio::ip::tcp::endpoint& endpoint() const override { return endpoint_; }
  std::string address() const;  ///< "127.0.0.1:9004"

 private:
  struct Connection;
  asio::awaitable<void> accept();
  asio::awaitable<void> serve(std::shared_ptr<Connection> connection);
  void admit(asio::ip::tcp::socket socket);

  const Environment& environment_;
  LivePages live_;  // on the strand
  const AdminLimits limits_;
  const StopSession stop_session_;
  // All handlers run on it: there is little to do.
  const asio::strand<asio::io_context::executor_type> strand_;
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::endpoint endpoint_;
  bool checking_ = false;                               // a text of /live/check
  std::list<std::shared_ptr<Connection>> connections_;  // the one silent for longest first
  // Makes what takes long, as planes of large images, and checks texts: scans wait for the threads of sockets, and for
  // the one that reads their configs. Last: it ends first.
  asio::thread_pool computing_{1};
  asio::thread_pool making_{1};  // files to take away, which may take longer
};

}  // namespace echotrain::server
