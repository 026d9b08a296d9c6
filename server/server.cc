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
  const bool captures = !options.capture.directory.empty();
  const std::int64_t queues = 4 * options.queue_mib + (captures ? options.capture.queue_mib : 0);
  if (options.memory_mib < queues)
    throw std::invalid_argument(fmt::format(
        "memory_mib: {} MiB do not hold the queues of even one session (up to 4 x queue_mib{} = {} MiB); "
        "raise memory_mib or lower queue_mib{}",
        options.memory_mib, captures ? " + capture.queue_mib" : "", queues, captures ? " or capture.queue_mib" : ""));
  return std::make_shared<Memory>(static_cast<std::uint64_t>(options.memory_mib) << 20);
}

std::shared_ptr<CaptureStore> make_captures(const config::CaptureOptions& options, std::shared_ptr<Memory> memory,
                                            Disk disk) {
  if (options.directory.empty()) return nullptr;
  return std::make_shared<CaptureStore>(options, std::move(memory), std::move(disk));
}

}  // namespace

Server::Server(config::ServerOptions options, config::PipelineLibrary library, const Registry& registry, Disk disk)
    : environment_{options, protocol::Limits{}, Catalogue(std::move(library), options.default_pipeline, registry),
                   make_memory(options), make_captures(options.capture, environment_.memory, std::move(disk))},
      control_(asio::make_strand(context_)),
      signals_(control_),
      patience_(control_),
      listener_(context_, environment_, [this] { emptied(); }) {
  require(environment_.options.backend);
  std::signal(SIGPIPE, SIG_IGN);  // a peer that is gone is an error of send(), not the end of the process
  std::signal(SIGXFSZ, SIG_IGN);  // likewise a capture that reaches the process's bound of a file's size
}

void Server::stop_on_signals() {
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

void Server::run() {
  listener_.start();
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads);
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back([this] { context_.run(); });
  context_.run();
}

void Server::stop() {
  asio::post(control_, [this] {
    if (std::exchange(stopping_, true)) return;
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
  });
}

}  // namespace echotrain::server
