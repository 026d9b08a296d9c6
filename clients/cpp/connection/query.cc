#include "clients/cpp/connection/query.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "protocol/data/text.h"
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
      throw ServerError("the server says: " +
                        protocol::printable(text->text.substr(0, text->text.find_last_not_of("\r\n") + 1)));
    if (std::holds_alternative<protocol::Close>(**message)) throw ConnectionError("the server did not answer");
  }
}

/// Sends these messages, one of which is a question, and reads up to its answer.
OpenAnswer answer_to(const protocol::Buffer& messages, const ServerAddress& server,
                     std::chrono::duration<double> timeout) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  OpenAnswer result{{}, open_connection(server, timeout)};
  auto& [connection, buffer] = result.open;
  const std::atomic<bool> stop = false;
  connection->write(std::as_bytes(std::span(messages)), stop);
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0)
      throw ConnectionError(fmt::format("the server did not answer within {:g} s", timeout.count()));
    const auto read = connection->read(buffer->prepare(), left);
    if (!read) continue;
    if (*read == 0) throw ConnectionError("the server ended the connection without an answer");
    buffer->commit(*read);
    if (auto answer = answer_in(*buffer)) {
      result.text = std::move(*answer);
      return result;
    }
  }
}

}  // namespace

OpenConnection open_connection(const ServerAddress& server, std::chrono::duration<double> timeout) {
  protocol::Limits limits;
  limits.response_bytes = kMostAnswer;
  try {
    return {std::make_unique<ServerConnection>(server, timeout), std::make_unique<protocol::MessageBuffer>(limits)};
  } catch (const ConnectionError& error) {
    throw NoConnection(error.what());
  }
}

std::string ask(const ServerAddress& server, const std::string& question, std::chrono::duration<double> timeout,
                const protocol::Buffer& config) {
  protocol::Buffer bytes = config;
  protocol::encode(protocol::Query{1, question}, bytes);
  protocol::encode(protocol::Close{}, bytes);
  return answer_to(bytes, server, timeout).text;
}

OpenAnswer ask_and_stay(const ServerAddress& server, const std::string& question,
                        std::chrono::duration<double> timeout) {
  protocol::Buffer bytes;
  protocol::encode(protocol::Query{1, question}, bytes);
  return answer_to(bytes, server, timeout);
}

}  // namespace echotrain::client
