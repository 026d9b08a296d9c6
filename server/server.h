// The server: a listener, its sessions and the threads that move their bytes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/strand.hpp>
#include <cstdint>
#include <string>

#include "config/server_options.h"
#include "server/listener.h"
#include "server/signal.h"

namespace echotrain::server {

/// Construct, run() in one thread, stop() from any other.
class Server {
 public:
  /// Checks all pipelines and the backend, and binds the socket: clients may connect from here on. Throws
  /// config::ConfigError (a pipeline file), std::invalid_argument (an option), std::runtime_error (backend, socket),
  /// each saying what to do.
  /// Pipelines may name the gadgets of `registry`, which outlives the server. `disk` is how raw captures are written.
  Server(config::ServerOptions options, config::PipelineLibrary library, const Registry& registry = Registry::builtin(),
         Disk disk = {});

  std::uint16_t port() const { return listener_.endpoint().port(); }
  std::string address() const { return listener_.address(); }  ///< "127.0.0.1:9002"

  /// SIGTERM and SIGINT call stop(); a second one ends the process at once.
  void stop_on_signals();
  /// Serves until stop() has been called and the last session has ended.
  void run();
  /// Accepts no more; running scans may finish for shutdown_timeout_s and are then ended with fatal `shutdown`.
  void stop();

 private:
  void emptied();
  void on_signal();

  const Environment environment_;
  asio::io_context context_;
  asio::strand<asio::io_context::executor_type> control_;
  asio::signal_set signals_;
  asio::steady_timer patience_;
  bool stopping_ = false;  // on control_
  Listener listener_;
};

}  // namespace echotrain::server
