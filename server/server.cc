#include "server/server.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/priority.h"
#include "server/detached/detached_store.h"
#include "server/session/optional_parts.h"

namespace echotrain::server {

namespace {

// The times after shutdown_timeout_s until clients that do not hang up are cut off, and until the process is ended by
// force.
constexpr std::chrono::milliseconds kGoodbye{1000}, kEnd{1700};

// A server that still warms up is ready all the same after this time.
constexpr std::chrono::milliseconds kReadyAnyway{800};

std::string text_of(const std::optional<tcp::endpoint>& endpoint) {
  return endpoint ? server::text_of(*endpoint) : std::string();
}

}  // namespace

Server::Server(const config::ServerOptions& options, config::PipelineLibrary library, const Registry& registry,
               std::shared_ptr<numerics::Resources> resources, Disk disk)
    : environment_(make_environment(options, std::move(library), registry, std::move(resources), std::move(disk))),
      control_(asio::make_strand(context_)),
      signals_(control_),
      hangup_(control_),
      patience_(control_),
      trimming_(control_),
      warming_(control_),
      watching_(control_),
      systemd_service_(control_, environment_),
      listener_(context_, environment_, [this] { emptied(); }) {
  open_admin_port();
  if (environment_.detached)
    environment_.detached->serve(
        [this](int socket, const SessionOrigin& origin) { return listener_.add_detached(socket, origin); },
        [this] { return environment_.memory_admission->waiting() > 0 || environment_.compute->waiting() > 0; });
  environment_.readiness->on_broken([this] {
    write_log(LogLevel::error, environment_.readiness->reason() +
                                   "; no longer ready: running scans may finish, then this process ends with an error");
    if (owns_process_) arm(broken_exit_);
    stop();
  });
  std::signal(SIGPIPE, SIG_IGN);  // a peer that is gone is an error of send(), not the end of the process
}

Server::~Server() {
  if (environment_.detached) environment_.detached->finish();  // its threads add sessions to the listener
  environment_.end_texts();
  environment_.canary->stop();
  environment_.stuck->wait();  // while there is a context, of which their sessions' wakers know
}

// An address that an option names must work. The default one may be taken by another server of this machine, which must
// not keep this one from serving.
void Server::open_admin_port() {
  const config::AdminOptions& options = environment_.options.admin;
  const OptionalParts& parts = OptionalParts::built();
  if (options.agent_port >= 0) {
    if (parts.agent == nullptr) throw std::invalid_argument(not_built("admin.agent_port", "port for agent-checks"));
    agent_ = parts.agent(context_, environment_);
  }
  if (!options.enabled) return;
  if (parts.admin == nullptr) {
    const std::string none = not_built("admin.port", "admin port, and so no live page and no metrics");
    if (options.asked_for) throw std::invalid_argument(none);
    write_log(LogLevel::info, none);
    return;
  }
  try {
    admin_ = parts.admin(
        context_, environment_,
        [this](std::uint64_t id, const protocol::Error& reason) { return listener_.stop_session(id, reason); },
        [this](int socket, const std::string& peer, const std::string& capture) {
          return listener_.add_own(socket, peer, capture);
        });
  } catch (const std::runtime_error& error) {
    if (options.asked_for) throw;
    write_log(LogLevel::warning, fmt::format("no admin port: {}", error.what()));
  }
}

std::string Server::agent_address() const { return agent_ ? server::text_of(agent_->endpoint()) : ""; }
std::string Server::admin_address() const { return admin_ ? server::text_of(admin_->endpoint()) : ""; }

std::uint16_t Server::port() const { return listener_.plain_endpoint().value_or(tcp::endpoint()).port(); }
std::string Server::address() const { return text_of(listener_.plain_endpoint()); }
std::uint16_t Server::tls_port() const { return listener_.tls_endpoint().value_or(tcp::endpoint()).port(); }
std::string Server::tls_address() const { return text_of(listener_.tls_endpoint()); }

void Server::handle_signals() {
  owns_process_ = true;
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  hangup_.add(SIGHUP);
  await_stop_signal();
  await_hangup();
}

void Server::await_stop_signal() {
  signals_.async_wait([this](const error_code& cancelled, int) {
    if (cancelled) return;
    write_log(LogLevel::info, "asked to stop: running scans may finish; a second signal ends at once");
    stop();
    signals_.async_wait([](const error_code& error, int) {
      if (!error) std::_Exit(EXIT_FAILURE);
    });
  });
}

void Server::await_hangup() {
  hangup_.async_wait([this](const error_code& cancelled, int) {
    if (cancelled) return;
    reload_secrets();
    await_hangup();
  });
}

void Server::reload_secrets() {
  if (!environment_.certificates && !environment_.tokens && !environment_.admin_tokens)
    write_log(LogLevel::info, "asked to read certificates and tokens again, but this server has none");
  const auto reload = [](const char* what, auto& files) {
    if (!files) return;
    try {
      files->reload();
      write_log(LogLevel::info, fmt::format("the {} were read again", what));
    } catch (const std::exception& error) {
      write_log(LogLevel::error, fmt::format("the {} stay as they were: {}", what, error.what()));
    }
  };
  reload("TLS certificates", environment_.certificates);
  reload("tokens", environment_.tokens);
  reload("administrators' tokens", environment_.admin_tokens);
}

Server::End Server::run() {
  fill_emergency_reserve();
  listener_.start();
  if (admin_) admin_->start();
  if (agent_) agent_->start();
  if (owns_process_ && environment_.options.warm_up)
    begin_warm_up();
  else
    become_ready();
  trim_later();
  if (warm_up_) warm_up_progress_.emplace(warm_up_->progress());
  watch_later();
  // Sessions catch what they throw. An exception outside of them (no memory left for a handler, for example) ends that
  // handler only, not the process.
  const auto serve = [this] {
    raise_priority();
    for (;;) {
      try {
        run_context(context_, environment_);
        return;
      } catch (const std::exception& error) {
        write_log(LogLevel::error, error.what());
      }
    }
  };
  std::vector<std::jthread> helpers;
  for (int i = io_threads(environment_.options); i > 1; --i) helpers.emplace_back(serve);
  serve();
  helpers.clear();
  if (environment_.detached) environment_.detached->finish();
  if (environment_.captures) environment_.captures->finish();  // here: a process may end without destroying its server
  // Images that wait for peers are on the disk then.
  if (environment_.sinks) environment_.sinks->finish(over_);
  forced_exit_.disarm();
  broken_exit_.disarm();
  return environment_.readiness->state() == Readiness::State::broken ? End::broken : End::asked;
}

void Server::begin_warm_up() {
  warming_.expires_after(kReadyAnyway);
  warming_.async_wait([this](const error_code& cancelled) {
    if (!cancelled) become_ready();
  });
  warm_up_ = std::make_unique<WarmUp>(environment_.compute, WarmUp::steps_of(environment_),
                                      [this] { asio::post(control_, [this] { become_ready(); }); });
}

// Runs on control_, or before anything runs there.
void Server::become_ready() {
  warming_.cancel();
  if (stopping_ || std::exchange(ready_, true)) return;
  environment_.readiness->set_ready();
  systemd_service_.ready();
}

void Server::trim_later() {
  trimming_.expires_after(seconds(environment_.options.spare_memory_s));
  trimming_.async_wait([this](const error_code& cancelled) {
    if (cancelled || ended_) return;
    environment_.heap_trimmer->free_unused();
    environment_.log_bounds->tell();
    trim_later();
  });
}

// Looks now and then at scans that were given up, and at the warm-up. Sessions look at their scans themselves.
void Server::watch_later() {
  constexpr double kMost_s = 1;
  const double most_s = environment_.options.max_step_s;
  watching_.expires_after(seconds(most_s > 0 ? std::min(kMost_s, most_s / 8) : kMost_s));
  watching_.async_wait([this](const error_code& cancelled) {
    if (cancelled || ended_) return;
    environment_.stuck->look();
    look_at(warm_up_progress_, "the warm-up");
    watch_later();
  });
}

void Server::look_at(std::optional<numerics::ProgressAge>& age, const char* whose) {
  const double most_s = environment_.options.max_step_s;
  if (!age || std::chrono::duration<double>(age->look(Clock::now())).count() <= most_s || most_s <= 0) return;
  const std::string* const at = age->progress().at();
  const bool on_device = age->progress().on_device();
  age.reset();
  const std::string text = fmt::format("{} hangs{}: no sign of life for {} s (max_step_s)", whose,
                                       at != nullptr ? fmt::format(" in '{}'", *at) : "", most_s);
  if (on_device)
    environment_.readiness->break_down("a GPU does not answer: " + text);
  else
    write_log(LogLevel::error, text);
}

void Server::stop() {
  environment_.readiness->drain();
  asio::post(control_, [this] {
    const bool again = std::exchange(stopping_, true);
    if (!again) systemd_service_.stopping();
    const double delay_s = environment_.options.shutdown_delay_s;
    if (delay_s <= 0 || environment_.readiness->state() == Readiness::State::broken) {
      close_down();
      return;
    }
    if (again) return;
    patience_.expires_after(seconds(delay_s));
    patience_.async_wait([this](const error_code& cancelled) {
      if (!cancelled) close_down();
    });
  });
}

// Runs on control_.
void Server::close_down() {
  if (std::exchange(closing_, true)) return;
  const Clock::duration allowed = seconds(environment_.options.shutdown_timeout_s);
  over_ = Clock::now() + allowed + kGoodbye / 2;
  if (owns_process_) arm(forced_exit_);
  patience_.expires_after(allowed);
  patience_.async_wait([this](const error_code& cancelled) {
    if (!cancelled) out_of_time();
  });
  if (warm_up_) warm_up_->stop();
  warming_.cancel();
  if (environment_.detached) environment_.detached->stop();
  listener_.stop();
}

void Server::arm(ForcedExit& resort) {
  resort.arm(
      seconds(environment_.options.shutdown_timeout_s) + kEnd, [this] { return what_hangs(); },
      [this] { return environment_.readiness->state() == Readiness::State::broken ? kBrokenStatus : EXIT_FAILURE; });
}

// Runs on control_.
void Server::out_of_time() {
  if (ended_) return;
  systemd_service_.out_of_time();
  listener_.stop_sessions_now();
  patience_.expires_after(kGoodbye);
  patience_.async_wait([this](const error_code& cancelled) {
    if (!cancelled) listener_.cut_sessions_off();
  });
}

std::string Server::what_hangs() const {
  std::string text;
  for (const auto& session : environment_.session_registry->list())
    text += fmt::format("{}session {} ({}, {} on {}, {})", text.empty() ? "" : ", ", session->id,
                        to_string(session->state), session->pipeline(), session->backend(), session->peer);
  return fmt::format(
      "the server did not end within shutdown_timeout_s and {} s, and is ended by force; still there: {}",
      std::chrono::duration<double>(kEnd).count(), text.empty() ? "no session" : text);
}

// Ends all that is left in the context, so that run() returns.
void Server::emptied() {
  asio::post(control_, [this] {
    patience_.cancel();
    ended_ = true;
    trimming_.cancel();
    watching_.cancel();
    signals_.cancel();
    systemd_service_.end();
    if (admin_) admin_->stop();
    if (agent_) agent_->stop();
    hangup_.cancel();
  });
}

}  // namespace echotrain::server
