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

#include "gadgets/numerics/context.h"

namespace echotrain::server {

namespace {

// Sockets need few threads: pipelines have their own.
constexpr unsigned kMostThreads = 4;

void require(config::BackendChoice choice) {
  if (choice == config::BackendChoice::automatic) return;
  const auto backend = choice == config::BackendChoice::cuda ? numerics::Backend::cuda : numerics::Backend::cpu;
  std::string reason;
  if (!numerics::available(backend, &reason))
    throw std::runtime_error(fmt::format("--backend {} cannot run here: {}; --backend auto takes what works",
                                         numerics::to_string(backend), reason));
}

// A bound so low that one session's queues fill it would end scans that back-pressure should slow down.
std::shared_ptr<Memory> make_memory(const config::ServerOptions& options) {
  if (options.memory_mib == 0) return std::make_shared<Memory>(machine_memory() / 4 * 3);
  if (options.memory_mib < 4 * options.queue_mib)
    throw std::invalid_argument(
        fmt::format("memory_mib: {} MiB do not hold the queues of even one session (up to 4 x queue_mib = {} MiB); "
                    "raise memory_mib or lower queue_mib",
                    options.memory_mib, 4 * options.queue_mib));
  return std::make_shared<Memory>(static_cast<std::uint64_t>(options.memory_mib) << 20);
}

}  // namespace

Server::Server(config::ServerOptions options, config::PipelineLibrary library, const Registry& registry)
    : environment_{options, protocol::Limits{}, Catalogue(std::move(library), options.default_pipeline, registry),
                   make_memory(options)},
      control_(asio::make_strand(context_)),
      signals_(control_),
      patience_(control_),
      supervision_(control_, environment_),
      listener_(context_, environment_, [this] { emptied(); }) {
  require(environment_.options.backend);
  open_admin_port();
  environment_.readiness->on_broken([this] {
    write_log(LogLevel::error,
              environment_.readiness->reason() +
                  "; not ready any more: running scans may finish, then this process ends with an error");
    stop();
  });
  std::signal(SIGPIPE, SIG_IGN);  // a peer that is gone is an error of send(), not the end of the process
}

// An address that somebody asked for must work. The default one may be taken by another server of this machine, which
// must not keep this one from serving.
void Server::open_admin_port() {
  const config::AdminOptions& options = environment_.options.admin;
  if (!options.enabled) return;
  try {
    admin_ = std::make_unique<Admin>(context_, environment_);
  } catch (const std::runtime_error& error) {
    if (options.asked_for) throw;
    write_log(LogLevel::warning, fmt::format("no admin port: {}", error.what()));
  }
}

std::string Server::admin_address() const { return admin_ ? admin_->address() : ""; }

void Server::stop_on_signals() {
  std::signal(SIGHUP, SIG_IGN);  // "reload" must not end the server
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.async_wait([this](const error_code& error, int) {
    if (!error) on_signal();
  });
}

void Server::on_signal() {
  write_log(LogLevel::info, "asked to stop: running scans may finish; a second signal ends at once");
  stop();
  signals_.async_wait([](const error_code& error, int) {
    if (!error) std::_Exit(EXIT_FAILURE);
  });
}

Server::End Server::run() {
  listener_.start();
  if (admin_) admin_->start();
  environment_.readiness->set_ready();
  supervision_.ready();
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads);
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back([this] { context_.run(); });
  context_.run();
  helpers.clear();
  return environment_.readiness->state() == Readiness::State::broken ? End::broken : End::asked;
}

void Server::stop() {
  environment_.readiness->drain();
  asio::post(control_, [this] {
    if (std::exchange(stopping_, true)) return;
    supervision_.stopping();
    patience_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(environment_.options.shutdown_timeout_s)));
    patience_.async_wait([this](const error_code& cancelled) {
      if (!cancelled) listener_.stop_sessions_now();
    });
    listener_.stop();
  });
}

// What is left in the context ends with this, and run() returns.
void Server::emptied() {
  asio::post(control_, [this] {
    patience_.cancel();
    signals_.cancel();
    supervision_.end();
    if (admin_) admin_->stop();
  });
}

}  // namespace echotrain::server
