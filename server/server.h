// The server: a listener, its sessions and the threads that move their bytes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/strand.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "config/server_options.h"
#include "server/admin.h"
#include "server/listener.h"
#include "server/signal.h"
#include "server/supervision.h"

namespace echotrain::server {

/// Construct, run() in one thread, stop() from any other.
class Server {
 public:
  /// Checks all pipelines and the backend, and binds the socket: clients may connect from here on. Throws
  /// config::ConfigError (a pipeline file), std::invalid_argument (an option), std::runtime_error (backend, socket),
  /// each saying what to do.
  /// Pipelines may name the gadgets of `registry`, which outlives the server.
  Server(config::ServerOptions options, config::PipelineLibrary library,
         const Registry& registry = Registry::builtin());

  std::uint16_t port() const { return listener_.endpoint().port(); }
  std::string address() const { return listener_.address(); }  ///< "127.0.0.1:9002"
  std::string admin_address() const;                           ///< empty when there is no admin port
  std::uint16_t admin_port() const { return admin_ ? admin_->endpoint().port() : 0; }

  /// SIGTERM and SIGINT call stop(); a second one ends the process at once. SIGHUP does nothing.
  void stop_on_signals();
  /// Serves until stop() has been called, or a device is lost, and the last session has ended. To be called once.
  enum class End { asked, broken };
  End run();
  /// Accepts no more; running scans may finish for shutdown_timeout_s and are then ended with fatal `shutdown`.
  void stop();

 private:
  void emptied();
  void open_admin_port();
  void on_signal();

  const Environment environment_;
  asio::io_context context_;
  asio::strand<asio::io_context::executor_type> control_;
  asio::signal_set signals_;
  asio::steady_timer patience_;
  bool stopping_ = false;         // on control_
  Supervision supervision_;       // on control_
  std::unique_ptr<Admin> admin_;  // null: there is none
  Listener listener_;
};

}  // namespace echotrain::server
