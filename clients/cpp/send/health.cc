#include "clients/cpp/send/health.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "clients/cpp/base/json_output.h"
#include "clients/cpp/connection/server_connection.h"

namespace echotrain::client {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostAnswer = 16 << 10;
constexpr std::chrono::milliseconds kPause{50};

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Reads until the server closes, or until there is more than anybody would print.
std::string read_answer(ServerConnection& connection, Clock::time_point until) {
  std::string answer;
  std::array<std::byte, 4096> room{};
  while (answer.size() < kMostAnswer) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) throw ConnectionError("the server did not answer in time");
    const auto read = connection.read(room, left);
    if (!read) continue;
    if (*read == 0) break;
    answer.append(reinterpret_cast<const char*>(room.data()), *read);
  }
  return answer;
}

struct Answer {
  std::string status;  // "200 "
  std::string body;
};

Answer ask(const HealthOptions& options) {
  const Clock::time_point until = Clock::now() + duration_of(options.timeout_s);
  ServerConnection connection({options.address, options.port, {}}, std::chrono::duration<double>(options.timeout_s));
  const std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", options.path, options.address);
  const std::atomic<bool> stop = false;
  connection.write(std::as_bytes(std::span(request)), stop);
  const std::string answer = read_answer(connection, until);
  const std::size_t body = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.") || body == std::string::npos)
    throw std::runtime_error(fmt::format("what answers at {} port {} is no admin port: give the number of admin.port",
                                         options.address, options.port));
  constexpr std::size_t kStatus = std::string_view("HTTP/1.1 ").size();
  return {answer.substr(kStatus, 4), answer.substr(body + 4)};
}

}  // namespace

config::OptionTable<HealthOptions> health_options() {
  using O = HealthOptions;
  return config::OptionTable<O>()
      .text("address", &O::address, "host of the server")
      .letter('a')
      .text("host", &O::address, "the same as --address")
      .default_in_help()
      .integer("port", &O::port, 1, 65535, "its admin port")
      .letter('p')
      .text("path", &O::path, "what to ask for: /readyz, /livez, /metrics or /sessions")
      .number("timeout", &O::timeout_s, 0.001, 1e6, "longest wait for an answer")
      .unit("s")
      .number("wait", &O::wait_s, 0, 1e6, "asks again for so long until the answer is that it is ready; 0: asks once")
      .unit("s")
      .flag("json", &O::json, kJsonHelp);
}

int health(const HealthOptions& options, std::ostream& out) {
  const Clock::time_point end = Clock::now() + duration_of(options.wait_s);
  for (;;) {
    std::optional<Answer> answer;
    std::string failure;
    try {
      answer = ask(options);
    } catch (const ConnectionError& error) {
      failure = error.what();
    }
    const bool ready = answer && answer->status == "200 ";
    if (!ready && Clock::now() + kPause < end) {
      std::this_thread::sleep_for(kPause);
      continue;
    }
    if (!ready && options.wait_s > 0) {
      std::string last = answer ? answer->body : failure;
      last.erase(last.find_last_not_of(" \r\n") + 1);
      throw ConnectionError(
          fmt::format("not ready within {:g} s (the server's log may say why): {}", options.wait_s, last));
    }
    if (!answer) throw ConnectionError(failure);
    if (options.json) {
      Json document = json_document("health");
      document["ready"] = ready;
      document["path"] = options.path;
      const Json body = Json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
      document["answer"] = body.is_discarded() ? Json(answer->body) : body;
      write_json(document, out);
    } else {
      out << answer->body;
    }
    return ready ? 0 : 1;
  }
}

}  // namespace echotrain::client
