#include "clients/cpp/send/health.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <ostream>
#include <span>
#include <string_view>

#include "clients/cpp/connection/connection.h"

namespace echotrain::client {

namespace {

constexpr std::size_t kMostAnswer = 16 << 10;

/// Reads until the server closes, or until there is more than anybody would print.
std::string read_answer(Connection& connection, std::chrono::steady_clock::time_point until) {
  std::string answer;
  std::array<std::byte, 4096> room{};
  while (answer.size() < kMostAnswer) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) throw ConnectionError("the server did not answer in time");
    const auto read = connection.read(room, left);
    if (!read) continue;
    if (*read == 0) break;
    answer.append(reinterpret_cast<const char*>(room.data()), *read);
  }
  return answer;
}

}  // namespace

config::OptionTable<HealthOptions> health_options() {
  using O = HealthOptions;
  return config::OptionTable<O>()
      .text("address", &O::address, "host of the server")
      .letter('a')
      .integer("port", &O::port, 1, 65535, "its admin port")
      .letter('p')
      .text("path", &O::path, "what to ask for: /readyz, /livez, /metrics or /sessions")
      .number("timeout", &O::timeout_s, 0.001, 1e6, "longest wait")
      .unit("s");
}

int health(const HealthOptions& options, std::ostream& out) {
  const std::chrono::duration<double> timeout(options.timeout_s);
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout);
  Connection connection({options.address, options.port, {}}, timeout);
  const std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", options.path, options.address);
  const std::atomic<bool> stop = false;
  connection.write(std::as_bytes(std::span(request)), stop);
  const std::string answer = read_answer(connection, until);
  const std::size_t body = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.") || body == std::string::npos)
    throw ConnectionError(fmt::format("what answers at {} port {} is no admin port: give the number of admin.port",
                                      options.address, options.port));
  out << answer.substr(body + 4);
  constexpr std::size_t kStatus = std::string_view("HTTP/1.1 ").size();
  return answer.substr(kStatus, 4) == "200 " ? 0 : 1;
}

}  // namespace echotrain::client
