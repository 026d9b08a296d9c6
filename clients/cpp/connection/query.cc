#include "clients/cpp/connection/query.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "protocol/wire/codec.h"
#include "protocol/wire/message_buffer.h"

namespace echotrain::client {
namespace {

constexpr std::uint64_t kMostAnswer = std::uint64_t{64} << 20;

/// Returns the answer, once it has come. Throws ConnectionError when nothing else will.
std::optional<std::string> answer_in(protocol::MessageBuffer& buffer) {
  while (true) {
    auto message = buffer.next();
    if (!message) throw ConnectionError("the server sent bytes that are not a message: " + message.error().message);
    if (!message->has_value()) return std::nullopt;
    if (auto* response = std::get_if<protocol::Response>(&**message)) return std::move(response->text);
    if (const auto* text = std::get_if<protocol::Text>(&**message); text != nullptr && text->text.starts_with("ERROR"))
      throw ConnectionError("the server says: " + text->text);
    if (std::holds_alternative<protocol::Close>(**message)) throw ConnectionError("the server did not answer");
  }
}

}  // namespace

std::string ask(const ServerAddress& server, const std::string& question, std::chrono::duration<double> timeout,
                const protocol::Buffer& config) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  ServerConnection connection(server, timeout);
  protocol::Buffer bytes = config;
  protocol::encode(protocol::Query{1, question}, bytes);
  protocol::encode(protocol::Close{}, bytes);
  const std::atomic<bool> stop = false;
  connection.write(std::as_bytes(std::span(bytes)), stop);
  protocol::Limits limits;
  limits.response_bytes = kMostAnswer;
  protocol::MessageBuffer buffer(limits);
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0)
      throw ConnectionError(fmt::format("the server did not answer within {:g} s", timeout.count()));
    const auto read = connection.read(buffer.prepare(), left);
    if (!read) continue;
    if (*read == 0) throw ConnectionError("the server ended the connection without an answer");
    buffer.commit(*read);
    if (auto answer = answer_in(buffer)) return std::move(*answer);
  }
}

}  // namespace echotrain::client
