#include "server/session/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/capture/capture_files.h"
#include "server/session/detached_front.h"

namespace echotrain::server {

namespace {
constexpr std::size_t kDrainBytes = 64 << 10;
constexpr std::chrono::milliseconds kCatchUp{2};

/// Returns the identity of a replayed session: it finds only what replays of the same client's captures have left.
std::string replay_of(const std::string& capture) {
  const std::string owner = capture_owner(capture);
  return owner.empty() ? "replay" : "replay of " + owner;
}
}  // namespace

Reader::Reader(const Parts& parts)
    : connection_(parts.connection),
      state_machine_(parts.state_machine),
      capture_(parts.capture),
      watchdog_(parts.watchdog),
      scan_(parts.scan),
      handler_(parts.handler),
      spill_(parts.spill) {}

asio::awaitable<void> Reader::read() {
  std::exception_ptr thrown;
  try {
    co_await open();
    if (connection_.opened) co_await receive();
  } catch (...) {
    thrown = std::current_exception();
  }
  if (thrown) connection_.fail(thrown);
  while (spill_.active()) co_await connection_.wait();  // the spill works on the handler's buffer
  if (connection_.opened) co_await drain();             // otherwise the client would not hear why
}

asio::awaitable<void> Reader::open() {
  Transport& transport = *connection_.transport;
  error_code error;
  std::string why;
  const Transport::Offload offload = [this](std::function<void()> work) {
    return connection_.offload(*connection_.environment.short_texts, std::move(work),
                               [this] { return connection_.end.gone; });
  };
  co_await transport.open(offload, error, why);
  connection_.opened = !error;
  const Environment& environment = connection_.environment;
  state_machine_.set_client({connection_.replayed.empty() ? connection_.status->peer : replay_of(connection_.replayed),
                             transport.subject(), environment.identities.get(), environment.tokens.get(),
                             environment.tokens && !transport.authenticated(),
                             connection_.origin ? std::optional(connection_.origin->identity) : std::nullopt,
                             connection_.origin ? connection_.origin->granted : std::nullopt});
  if (error && !connection_.end.gone) {
    transport.close();  // an orderly end, so that TLS's alert arrives
    connection_.lose(fmt::format("the {} handshake with {} failed: {}", transport.name(), connection_.status->peer,
                                 why.empty() ? error.message() : why));
  } else if (!error && !why.empty()) {
    connection_.fail({"unauthorized", why});
  }
  connection_.notify();
}

asio::awaitable<void> Reader::receive() {
  while (!connection_.ending()) {
    if (may_spill()) {
      spill_.begin();
    } else if (must_wait()) {
      watchdog_.hold_back();
      co_await wait_held_back();
      continue;
    }
    watchdog_.release();
    if (!spill_.active() && scan_.queue_exceeds_cache()) {
      co_await pace_reads();
      if (connection_.ending()) break;
    }
    const bool spilling = spill_.active();  // the spill may end during the read
    const std::span<std::byte> room = spilling ? spill_.room() : handler_.room();
    error_code error;
    watchdog_.set_reading(true);
    const std::size_t n = co_await connection_.transport->read_some(asio::buffer(room.data(), room.size()), error);
    watchdog_.set_reading(false);
    if (error) {
      // The spilled data came before the end.
      while (error == asio::error::eof && spill_.active() && !connection_.ending()) co_await connection_.wait();
      read_failed(error);
      break;
    }
    bytes_ += n;
    capture_.append(spilling ? spill_.commit(n) : handler_.commit(n));
    count(n);
    if (connection_.ending()) {
      drained_bytes_ += n;
      break;
    }
    if (!spilling) {
      co_await handler_.consume();
      begin_spill_for_waiting_scan();
    } else if (!spill_.active()) {
      co_await consume_copy(room.first(n));
      spill_.free_room();
    }
  }
}

// A client that resets the connection meanwhile is noticed, although nothing is read: its scan stops, and what it has
// sent can be read.
asio::awaitable<void> Reader::wait_held_back() {
  if (connection_.transport->is_reset()) scan_.cancel();
  if (must_wait()) co_await connection_.poll_wait();
}

// Bytes that wait long leave the caches: the kernel then writes to memory, and the scan reads from there. A scan that
// takes nothing for longer than a moment gets all that its queue holds nevertheless.
asio::awaitable<void> Reader::pace_reads() {
  const Clock::time_point until = Clock::now() + kCatchUp;
  for (Clock::time_point now = Clock::now(); now < until && !connection_.ending(); now = Clock::now()) {
    co_await connection_.poll_wait(until - now);
    if (!scan_.queue_exceeds_cache()) break;
  }
}

void Reader::count(std::size_t n) {
  connection_.environment.metrics->add_bytes_in(n);
  connection_.status->bytes_in += n;
  connection_.status->last_activity = Clock::now();
}

// True if the scan takes nothing for the moment and its input can go to the raw capture alone.
bool Reader::may_spill() const {
  return !capture_.full() && !spill_.active() && scan_.input_full() && scan_.started() && capture_.can_spill();
}

// True if the socket must be held back.
bool Reader::must_wait() const {
  if (connection_.front && connection_.front->full()) return true;
  if (capture_.full()) return true;
  if (spill_.active())
    return capture_.stopped() || ((handler_.scan_waits() || scan_.regaining()) && spill_.backlog() >= most_waiting());
  return scan_.input_full() && !may_spill();
}

// Bytes that a scan may send while it waits for its place.
std::uint64_t Reader::most_waiting() const {
  return static_cast<std::uint64_t>(connection_.options.capture.waiting_mib) << 20;
}

void Reader::begin_spill_for_waiting_scan() {
  if (handler_.scan_waits() && !spill_.active()) spill_.begin();
}

// Takes bytes that were read for a spill that has ended meanwhile.
asio::awaitable<void> Reader::consume_copy(std::span<const std::byte> bytes) {
  while (!bytes.empty() && !connection_.ending()) {
    const std::span<std::byte> room = handler_.room();
    const std::size_t n = std::min(room.size(), bytes.size());
    std::copy_n(bytes.begin(), n, room.begin());
    handler_.commit(n);
    bytes = bytes.subspan(n);
    co_await handler_.consume();
    begin_spill_for_waiting_scan();
  }
}

// Goes on reading so that the kernel sends no RST, which would cost the client the session's last messages.
asio::awaitable<void> Reader::drain() {
  const std::uint64_t most = static_cast<std::uint64_t>(connection_.options.drain_mib) << 20;
  const Ending& end = connection_.end;
  std::vector<std::byte> scratch(kDrainBytes);
  if (!eof_) handler_.drop_partial_message();
  while (!eof_ && !end.gone && drained_bytes_ <= most) {
    error_code error;
    const std::size_t n =
        co_await connection_.transport->read_some(asio::buffer(scratch.data(), scratch.size()), error);
    if (error) {
      read_failed(error);
      break;
    }
    drained_bytes_ += n;
    if (end.error && !end.closed) {
      capture_.append(protocol::Payload::take(std::vector<std::byte>(scratch.data(), scratch.data() + n)));
      while (capture_.full() && !end.gone && !watchdog_.drain_over()) co_await connection_.wait();
    }
  }
}

void Reader::read_failed(const error_code& error) {
  if (error == asio::error::eof) {
    eof_ = true;
    if (!connection_.ending() && connection_.front) connection_.front->input_ended();
    if (!connection_.ending() && !(connection_.front && connection_.front->closed())) connection_.end.broken_off = true;
  } else if (watchdog_.draining()) {
    eof_ = true;  // all is said; how the peer leaves does not matter
  } else if (error != asio::error::operation_aborted) {
    connection_.lose("receiving failed: " + error.message());
  }
  connection_.notify();
}

}  // namespace echotrain::server
