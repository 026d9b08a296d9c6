#include "server/session/writer.h"

#include <cstddef>

namespace echotrain::server {

namespace {
// Per write, which holds all of them until they are sent, whoever wants their memory.
constexpr std::size_t kMostMessages = 16, kMostBytes = 1 << 20;

void add_buffers(const std::vector<Outgoing>& messages, std::vector<asio::const_buffer>& buffers) {
  for (const Outgoing& message : messages) {
    buffers.emplace_back(message.head.data(), message.head.size());
    if (!message.pixels.bytes.empty()) buffers.emplace_back(message.pixels.bytes.data(), message.pixels.bytes.size());
  }
}

}  // namespace

asio::awaitable<void> Writer::write() {
  std::vector<Outgoing> messages;
  std::vector<asio::const_buffer> buffers;
  const bool& gone = connection_.end.gone;
  while (!connection_.opened && !gone) co_await connection_.wait();
  while (!gone) {
    messages.clear();
    connection_.outbox->take(messages, kMostMessages, kMostBytes);
    if (messages.empty()) {
      if (connection_.outbox->finished()) break;
      co_await connection_.wait();
      continue;
    }
    buffers.clear();
    add_buffers(messages, buffers);
    watchdog_.write_begins();
    error_code error;
    co_await connection_.transport->write(
        buffers,
        [this, &messages](std::uint64_t n) {
          watchdog_.wrote(n);
          note_written(messages, n);
        },
        error);
    watchdog_.write_ends();
    if (error) {
      if (!gone) connection_.lose("sending failed: " + error.message());
      break;
    }
    count(messages, asio::buffer_size(buffers));
    connection_.notify();  // the reader may have waited for room
  }
}

// All of these messages have been given to the network.
void Writer::count(std::vector<Outgoing>& messages, std::uint64_t bytes) {
  connection_.outbox->sent(messages);
  for (const Outgoing& message : messages)
    if (const auto latency = latency_of(message.times, message.written)) {
      scan_.meter()->sent(*latency);
      if (connection_.observer) connection_.observer->sent(*latency);
    }
  connection_.environment.metrics->add_bytes_out(bytes);
  connection_.status->bytes_out += bytes;
  connection_.status->last_activity = Clock::now();
}

}  // namespace echotrain::server
