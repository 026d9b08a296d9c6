#include "server/session/session.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "protocol/data/text.h"
#include "server/session/detached_front.h"

namespace echotrain::server {

Session::Session(std::unique_ptr<Transport> transport, asio::any_io_executor strand, std::string peer, std::uint64_t id,
                 const Environment& environment, std::function<void()> ended,
                 std::function<std::optional<protocol::Error>()> admit)
    : connection_(std::move(transport), std::move(strand), std::move(peer), id, environment),
      state_machine_(environment.catalogue, environment.limits, *environment.resources),
      capture_(connection_, state_machine_),
      watchdog_(connection_),
      scan_(connection_, watchdog_),
      handler_(connection_, state_machine_, capture_, watchdog_, scan_),
      spill_(connection_, capture_, watchdog_, scan_, handler_,
             [this](asio::awaitable<void> coroutine, std::function<void()> spill_ended) {
               spawn(std::move(coroutine), std::move(spill_ended));
             }),
      reader_({connection_, state_machine_, capture_, watchdog_, scan_, handler_, spill_}),
      writer_(connection_, watchdog_, scan_),
      ended_(std::move(ended)) {
  summary_.peer = connection_.status->peer;
  connection_.admit = std::move(admit);
}

void Session::start() {
  spawn(live(), [this] { live_ended(); });
}

void Session::refuse(protocol::Error reason) {
  if (connection_.observer) connection_.observer->error(reason);
  connection_.end.error = std::move(reason);
  connection_.status->state = SessionState::refused;
  start();
}

void Session::drop() {
  asio::post(connection_.strand, [self = shared_from_this()] { self->connection_.drop(); });
}

void Session::shut_down(bool now) {
  asio::post(connection_.strand, [self = shared_from_this(), now] {
    if (now || !(self->scan_.started() || self->connection_.front))
      self->stop({"shutdown", "the server is shutting down; send the measurement again later"});
  });
}

void Session::stop(protocol::Error reason) {
  asio::post(connection_.strand, [self = shared_from_this(), reason = std::move(reason)] {
    self->scan_.cancel();
    self->connection_.fail(reason);
  });
}

void Session::cut_off(std::string why) {
  asio::post(connection_.strand, [self = shared_from_this(), why = std::move(why)] {
    self->scan_.cancel();
    self->connection_.lose(why);
  });
}

// Runs a coroutine on the strand; it keeps the session alive. An exception in it ends this session only.
void Session::spawn(asio::awaitable<void> coroutine, std::function<void()> ended) {
  asio::co_spawn(connection_.strand, std::move(coroutine),
                 [self = shared_from_this(), ended = std::move(ended)](const std::exception_ptr& thrown) {
                   if (thrown) self->connection_.fail(thrown);
                   ended();
                   self->connection_.notify();
                 });
}

asio::awaitable<void> Session::live() {
  connection_.log.debug("connected: {} ({})", summary_.peer, connection_.transport->name());
  spawn(reader_.read(), [this] { reader_done_ = true; });
  spawn(writer_.write(), [this] { writer_done_ = true; });
  spawn(watchdog_.watch(), [this] { watchdog_done_ = true; });
  while (!connection_.ending()) {
    co_await connection_.wait();
    capture_.check();
    scan_.check();
    if (connection_.front && front_done_ && !connection_.front->delivers() && !connection_.ending()) {
      front_done_ = false;
      spawn(connection_.front->deliver(), [this] { front_done_ = true; });
    }
  }
  co_await scan_.finish();
  co_await capture_.wait_until_written(scan_.started());
  co_await say_goodbye();
  stop_transfers();
  while (!reader_done_ || !writer_done_ || !watchdog_done_ || !front_done_) co_await connection_.wait();
  if (connection_.front) co_await connection_.front->ended();
  summarize();
}

// Called after an exception in live(), too: no part of the session must go on without it.
void Session::live_ended() {
  connection_.end.gone = true;
  connection_.free_offloaded(connection_.outbox->discard());
  stop_transfers();
  scan_.abandon();
  if (ended_) std::exchange(ended_, nullptr)();
}

void Session::stop_transfers() {
  connection_.transport->close();
  watchdog_.stop();
}

// Sends the last messages, closes the sending side, drains the other.
asio::awaitable<void> Session::say_goodbye() {
  const bool& gone = connection_.end.gone;
  while (!connection_.opened && !gone) co_await connection_.wait();
  if (gone) co_return;
  queue_last_messages();
  const bool others_wait = connection_.end.over_budget();
  if (others_wait) bound_goodbye();
  while (!writer_done_ && !gone) {
    if (others_wait) handler_.count_memory();  // what was dropped may have been there as it came
    co_await connection_.wait();
  }
  watchdog_.clear_alarm();
  if (gone) co_return;
  watchdog_.write_begins();  // TLS says a last word, for which the client has to make room
  co_await connection_.transport->finish_writing();
  watchdog_.write_ends();
  watchdog_.drain_begins();
  while (!reader_done_ && !watchdog_.drain_over() && !gone) co_await connection_.wait();
}

// Others may want the memory of what its client has not read: half of drain_timeout_s for all, then as long for what is
// on its way, and for the last words.
void Session::bound_goodbye() {
  const auto half = seconds(connection_.options.drain_timeout_s / 2);
  watchdog_.set_alarm(Clock::now() + half, [this, half] {
    connection_.drop_unsent();
    if (const std::size_t dropped = connection_.outbox->dropped(); dropped > 0)
      connection_.log.warn("{} messages that were not read within {} s are dropped", dropped,
                           connection_.options.drain_timeout_s / 2);
    watchdog_.set_alarm(Clock::now() + half, [this] {
      connection_.lose(
          fmt::format("client is not reading: what it was sent of a scan that has ended with 'budget' was "
                      "not read within {} s (drain_timeout_s)",
                      connection_.options.drain_timeout_s));
    });
  });
}

void Session::queue_last_messages() {
  Ending& end = connection_.end;
  end.told = true;
  if (connection_.status->state != SessionState::refused) connection_.status->state = SessionState::closing;
  if (end.broken_off && !end.error) end.error = state_machine_.config_error();
  if (connection_.observer && end.error) connection_.observer->error(*end.error);
  const ProtocolStateMachine::State state = state_machine_.state();
  if (end.error) {
    if (const std::size_t dropped = connection_.outbox->dropped(); dropped > 0)
      end.error->message += fmt::format("; {} messages that were not read in time are dropped", dropped);
    end.error->message += capture_.note(scan_.started());
    connection_.log_fatal(*end.error);
    connection_.outbox->fatal(*end.error);
  } else if (end.broken_off && !connection_.front &&
             (state != ProtocolStateMachine::State::config || handler_.inside_message())) {
    const std::string text = "incomplete: the connection ended before CLOSE; incomplete images are left out" +
                             capture_.note(scan_.started());
    connection_.log.warn("{}", text);
    // Before the header a client may get fatal errors only.
    connection_.outbox->text(
        state == ProtocolStateMachine::State::data ? protocol::Level::warning : protocol::Level::error, text);
  }
  connection_.outbox->close();
}

void Session::summarize() {
  const Ending& end = connection_.end;
  scan_.report(summary_);
  summary_.bytes_in = reader_.bytes();
  summary_.bytes_spilled = spill_.bytes();
  summary_.images = connection_.outbox->images();
  summary_.latencies = connection_.outbox->latencies();
  summary_.bytes_out = connection_.outbox->bytes_sent();
  summary_.duration_s = std::chrono::duration<double>(Clock::now() - connection_.status->began).count();
  summary_.outcome = end.outcome();
  summary_.client = state_machine_.identity().name();
  summary_.capture = capture_.finish(scan_.started());
  connection_.environment.metrics->add_session(*connection_.status, summary_,
                                               end.error && !end.gone ? end.error->code : "");
  if (connection_.observer && connection_.environment.observers)
    connection_.environment.observers->observe_end(*connection_.observer, summary_);
  if (scan_.started())
    connection_.log.event(LogLevel::info, summary_.text(), {"summary", summary_.facts()});
  else
    connection_.log.debug("ended without a scan: {} peer={}", summary_.outcome, summary_.peer);
}

}  // namespace echotrain::server
