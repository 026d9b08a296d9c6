#include "server/session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace echotrain::server {

using asio::redirect_error;
using asio::use_awaitable;

namespace {

// A transfer that moves at least this fast [bytes/s] is never ended by its timeout.
constexpr double kSlowestLink = 16 << 10;

}  // namespace

Session::Session(std::unique_ptr<Transport> transport, asio::any_io_executor strand, std::string peer, std::uint64_t id,
                 const Environment& environment, std::function<void()> ended)
    : transport_(std::move(transport)),
      executor_(std::move(strand)),
      environment_(environment),
      options_(environment.options),
      log_(id),
      status_(environment.board->add(id, std::move(peer), environment.memory)),
      ended_callback_(std::move(ended)),
      changed_(executor_),
      watch_timer_(executor_),
      buffer_(environment.limits),
      dialogue_(environment.catalogue, environment.limits),
      pending_memory_(status_->queues) {
  summary_.peer = status_->peer;
}

void Session::start() {
  outbox_ = std::make_shared<Outbox>(static_cast<std::size_t>(options_.queue_mib) << 20, waker(), status_->queues);
  spawn(live(), &Session::live_ended);
}

void Session::refuse(protocol::Error reason) {
  error_ = std::move(reason);
  status_->state = SessionState::refused;
  start();
}

void Session::shut_down(bool now) {
  asio::post(executor_, [self = shared_from_this(), now] {
    if (!now && self->worker_) return;
    if (self->worker_) self->worker_->cancel();
    self->fail({"shutdown", "the server is shutting down; send the measurement again later"});
  });
}

// Wakes the session's coroutines from any thread. Does nothing once the session is gone.
std::function<void()> Session::waker() {
  return [weak = weak_from_this(), strand = executor_] {
    asio::post(strand, [weak] {
      if (const auto self = weak.lock()) self->changed_.notify();
    });
  };
}

// Runs a coroutine on the strand; it keeps the session alive. An exception in it ends this session only.
void Session::spawn(asio::awaitable<void> coroutine, void (Session::*ended)()) {
  asio::co_spawn(executor_, std::move(coroutine), [self = shared_from_this(), ended](const std::exception_ptr& thrown) {
    if (thrown) self->fail(thrown);
    ((*self).*ended)();
    self->changed_.notify();
  });
}

asio::awaitable<void> Session::live() {
  log_.debug("connected: {} ({})", summary_.peer, transport_->name());
  spawn(read(), &Session::reader_ended);
  spawn(write(), &Session::writer_ended);
  spawn(watch(), &Session::watch_ended);
  while (!ending()) {
    co_await changed_.wait();
    check_capture();
    if (worker_ && !trial_until_ && worker_->done() && worker_->failure()) fail(*worker_->failure());
  }
  co_await settle();
  co_await wait_for_capture();
  co_await say_goodbye();
  transport_->close();
  watch_timer_.cancel();
  while (!reader_done_ || !writer_done_ || !watch_done_) co_await changed_.wait();
  summarize();
}

// Also when live() was cut short by an exception: nothing of the session must go on without it.
void Session::live_ended() {
  gone_ = true;
  outbox_->discard();
  transport_->close();
  watch_timer_.cancel();
  trial_until_.reset();
  worker_.reset();
  place_.reset();
  if (ended_callback_) std::exchange(ended_callback_, nullptr)();
}

// Lets the pipeline finish what came before the end.
asio::awaitable<void> Session::settle() {
  if (!worker_) {
    place_.reset();
    co_return;
  }
  confirm_worker();
  if (gone_) worker_->cancel();
  status_->state = SessionState::finishing;
  worker_->finish(closed_ && !error_ ? End::complete : End::truncated);
  while (!worker_->done()) co_await changed_.wait();
  place_.reset();
  if (worker_->failure()) fail(*worker_->failure());
}

// The last messages, half-close, drain.
asio::awaitable<void> Session::say_goodbye() {
  while (!opened_ && !gone_) co_await changed_.wait();
  if (gone_) co_return;
  parting_ = true;
  if (status_->state != SessionState::refused) status_->state = SessionState::closing;
  if (broken_off_ && !error_) error_ = dialogue_.config_error();
  if (error_) {
    error_->message += capture_note();
    log_.warn("fatal {}: {}", error_->code, protocol::printable(error_->message));
    outbox_->fatal(*error_);
  } else if (broken_off_ && (dialogue_.state() != Dialogue::State::config || buffer_.pending_bytes() > 0)) {
    const std::string text =
        "incomplete: the connection ended before CLOSE; images that were not whole are left out" + capture_note();
    log_.warn("{}", text);
    // Before the header a client may be told only what is fatal.
    outbox_->text(dialogue_.state() == Dialogue::State::data ? protocol::Level::warning : protocol::Level::error, text);
  }
  outbox_->close();
  while (!writer_done_ && !gone_) co_await changed_.wait();
  if (gone_) co_return;
  co_await transport_->finish_writing();
  drain_until_ = Clock::now() + seconds(options_.drain_timeout_s);
  while (!reader_done_ && !drain_over_ && !gone_) co_await changed_.wait();
}

// One clock for all timeouts, so that reads and writes need no timers of their own.
asio::awaitable<void> Session::watch() {
  const double shortest = std::min({options_.connect_timeout_s, options_.idle_timeout_s, options_.message_timeout_s,
                                    options_.send_timeout_s, options_.drain_timeout_s});
  const auto tick = seconds(std::clamp(shortest / 8, 0.005, 0.25));
  while (transport_->is_open()) {
    error_code cancelled;
    watch_timer_.expires_after(tick);
    co_await watch_timer_.async_wait(redirect_error(use_awaitable, cancelled));
    if (transport_->is_open()) watch_clocks(Clock::now());
  }
}

// Bytes that drip in or out do not keep a session alive, and large messages on slow links have the time they need.
bool Session::stalled(Period& period, Clock::time_point now, double timeout_s, std::uint64_t bytes) {
  if (now < period.began + seconds(timeout_s)) return false;
  const bool too_few = static_cast<double>(bytes - std::min(bytes, period.bytes)) < kSlowestLink * timeout_s;
  period = {now, bytes};
  return too_few;
}

void Session::watch_clocks(Clock::time_point now) {
  if (!opened_) {
    if (now > began_ + seconds(options_.connect_timeout_s))
      lose(fmt::format("no {} handshake with {} within {} s", transport_->name(), summary_.peer,
                       options_.connect_timeout_s));
    return;
  }
  if (trial_until_ && now > *trial_until_) confirm_worker();
  // While the scan runs and we take its data, a client need not read: what it will get waits in the outbox.
  if (write_ && !held_back_ && !ending()) *write_ = {now, written_};
  if (write_ && stalled(*write_, now, options_.send_timeout_s, written_)) {
    lose(fmt::format("client is not reading: (almost) nothing could be sent for {} s", options_.send_timeout_s));
  } else if (place_until_ && now > *place_until_) {
    fail({"busy",
          fmt::format("no place for this scan became free within {} s; send it again later", options_.wait_timeout_s)});
  } else if (drain_until_ && now > *drain_until_) {
    drain_over_ = true;
    changed_.notify();
  } else if (reading_ && !spilling_ && !ending()) {
    const std::size_t pending = buffer_.pending_bytes();
    const bool configured = dialogue_.state() != Dialogue::State::config;
    const double idle_s = configured ? options_.idle_timeout_s : options_.connect_timeout_s;
    if (pending > 0) {
      if (stalled(message_, now, options_.message_timeout_s, pending))
        fail({"timeout", fmt::format("a message stopped after {} bytes; the rest did not come within {} s", pending,
                                     options_.message_timeout_s)});
    } else if (now > idle_since_ + seconds(idle_s)) {
      const std::optional<protocol::Error> config_error = dialogue_.config_error();
      fail(config_error ? *config_error
                        : protocol::Error{"timeout", fmt::format("no {} came within {} s",
                                                                 configured ? "message" : "config", idle_s)});
    }
  }
}

// Ends the session with a reason that the client is told. The first one counts.
void Session::fail(protocol::Error reason) {
  if (!error_ && !gone_ && !parting_) error_ = std::move(reason);
  changed_.notify();
}

void Session::fail(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    fail({"resources", "the server is out of memory"});
  } catch (const std::system_error& error) {
    // Of what can throw this here, one thing depends on the machine: starting the worker's thread.
    if (error.code() != std::errc::resource_unavailable_try_again) return fail_internally(error);
    fail({"resources", "the server cannot start another thread"});
  } catch (const std::exception& error) {
    fail_internally(error);
  }
}

void Session::fail_internally(const std::exception& error) {
  log_.error("internal error: {}", protocol::printable(error.what()));
  fail({"internal", "internal error, see the server's log"});
}

// The peer cannot be reached any more: frees everything and resets the connection.
void Session::lose(const std::string& why) {
  if (std::exchange(gone_, true)) return;
  log_.warn("{}", why);
  outbox_->discard();
  if (worker_) worker_->cancel();
  transport_->reset();
  watch_timer_.cancel();
  changed_.notify();
}

void Session::summarize() {
  if (worker_) worker_->report(summary_);
  summary_.images = outbox_->images();
  summary_.latencies = outbox_->latencies();
  summary_.bytes_out = outbox_->bytes_sent();
  summary_.duration_s = std::chrono::duration<double>(Clock::now() - began_).count();
  summary_.outcome = gone_ ? "peer gone" : error_ ? error_->code : broken_off_ ? "incomplete" : "complete";
  const bool kept = keeps_capture();
  if (kept) summary_.capture = capture_->name();
  if (capture_) capture_->finish(kept);
  environment_.metrics->add_session(*status_, summary_, error_ && !gone_ ? error_->code : "");
  if (worker_)
    log_.event(LogLevel::info, summary_.text(), {"summary", summary_.facts()});
  else
    log_.debug("ended without a scan: {} peer={}", summary_.outcome, summary_.peer);
}

}  // namespace echotrain::server
