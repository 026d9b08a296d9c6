// The server is a listener, its sessions and the threads that move their bytes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/strand.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/server_options.h"
#include "gadgets/numerics/core/progress.h"
#include "server/base/service_port.h"
#include "server/base/signal.h"
#include "server/forced_exit.h"
#include "server/session/listener.h"
#include "server/systemd_service.h"
#include "server/warm_up/warm_up.h"

namespace echotrain::server {

/// A whole server. Construct it, run() it in one thread, and stop() it from any other.
class Server {
 public:
  /// Makes the environment and binds the sockets: clients may connect from here on. Throws as make_environment() and
  /// Listener.
  Server(const config::ServerOptions& options, config::PipelineLibrary library, const Registry& registry,
         std::shared_ptr<numerics::Resources> resources, Disk disk = {});
  ~Server();

  /// The plain port's number; 0 if it is not open.
  std::uint16_t port() const;
  std::string address() const;  ///< "127.0.0.1:9002"
  std::uint16_t tls_port() const;
  std::string tls_address() const;
  std::string admin_address() const;  ///< empty when there is no admin port
  std::uint16_t admin_port() const { return admin_ ? admin_->endpoint().port() : 0; }
  std::string agent_address() const;  ///< empty when HAProxy's agent-check is not answered
  std::uint16_t agent_port() const { return agent_ ? agent_->endpoint().port() : 0; }

  /// SIGTERM and SIGINT call stop(); a second one ends the process at once. SIGHUP calls reload_secrets(). The process
  /// is this server's: it ends, one way or another, within 2 s after shutdown_timeout_s. Such a server also warms up
  /// (server/warm_up) once it runs, unless the options turn that off, and is ready when that is done, or after 0.8 s.
  void handle_signals();
  /// Reads the files of TLS and the tokens again, for connections to come; files that cannot be used leave what was
  /// read before in use.
  void reload_secrets();
  /// Sets the program that tries a GPU on which scans fail (see Canary).
  void use_canary(std::vector<std::string> program) { environment_.canary->use(std::move(program)); }
  /// Serves until stop() has been called, or a device is lost, the last session has ended and its capture is on the
  /// disk. It is called once.
  enum class End { asked, broken };
  static constexpr int kBrokenStatus = 3;  ///< of a process whose server is broken
  End run();
  /// Makes the server not ready; it accepts no more clients after shutdown_delay_s (at once when a device is lost);
  /// running scans may then finish for shutdown_timeout_s, are ended with fatal `shutdown`, and a second later
  /// their connections are reset.
  void stop();

 private:
  void emptied();
  void begin_warm_up();
  void become_ready();
  void open_admin_port();
  void close_down();
  void out_of_time();
  void arm(ForcedExit& resort);
  std::string what_hangs() const;
  void await_stop_signal();
  void await_hangup();
  void trim_later();
  void watch_later();
  void look_at(std::optional<numerics::ProgressAge>& age, const char* whose);

  const Environment environment_;
  asio::io_context context_;
  asio::strand<asio::io_context::executor_type> control_;
  asio::signal_set signals_, hangup_;
  asio::steady_timer patience_, trimming_, warming_, watching_;
  bool ready_ = false;         // on control_
  bool stopping_ = false;      // on control_
  bool closing_ = false;       // on control_
  bool ended_ = false;         // on control_
  bool owns_process_ = false;  // set before run()
  /// When a server that closes down is to be at its end; on control_.
  Clock::time_point over_ = Clock::time_point::max();
  /// The progress of threads that work beside the sessions; none where one hangs, or where there is none; on control_.
  std::optional<numerics::ProgressAge> warm_up_progress_;
  SystemdService systemd_service_;  // on control_
  Listener listener_;
  std::unique_ptr<ServicePort> admin_;    // null: there is none; ends before the listener, which its threads may ask
  std::unique_ptr<ServicePort> agent_;    // null: there is none
  ForcedExit forced_exit_, broken_exit_;  // of a stop; of a server that breaks down, whose control_ may hang, too
  std::unique_ptr<WarmUp> warm_up_;       // null: there is none; ends first, as it posts to the context
};

}  // namespace echotrain::server
