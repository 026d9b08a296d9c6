// What a session does with its raw capture.
#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "server/session/session.h"

namespace echotrain::server {

using config::CaptureOptions;

Session::~Session() {
  if (capture_) capture_->finish(true);
}

// What is read from the socket goes through here before anything else is made of it.
void Session::capture(protocol::Payload bytes) {
  if (!environment_.captures) return;
  if (!capture_) capture_ = environment_.captures->open(log_.id(), waker());
  capture_->append(std::move(bytes));
}

// Acts, once, on a capture that has stopped.
void Session::check_capture() {
  if (!capture_ || !capture_->stopped()) return;
  if (!spilling_) capture_->abandon();  // until then it has what the pipeline has not got
  // Before the header a client may be told only what is fatal.
  const bool early = dialogue_.state() == Dialogue::State::config || dialogue_.state() == Dialogue::State::header;
  if ((early && !ending()) || std::exchange(capture_told_, true)) return;
  const std::string why = capture_->failure();
  log_.error("the raw capture {} stopped: {}", capture_->name(), why);
  if (options_.capture.when_full == CaptureOptions::WhenFull::end_session && !capture_->too_slow())
    fail({"capture",
          fmt::format("the raw data cannot be kept: {}; this server ends such scans (capture.when_full)", why)});
  else if (!early)
    outbox_->text(protocol::Level::warning,
                  fmt::format("the raw data are no longer kept: {}; the scan goes on without", why));
}

// Before the last messages, so that they are true and tell of a failure. A disk that hangs must not keep it from its
// CLOSE for ever.
asio::awaitable<void> Session::wait_for_capture() {
  if (!capture_) co_return;
  const std::uint64_t size = capture_->size();
  const Clock::time_point until = Clock::now() + seconds(options_.send_timeout_s);
  asio::steady_timer patience(executor_, until);
  patience.async_wait([self = shared_from_this()](const error_code&) { self->changed_.notify(); });
  while (!gone_ && !capture_->written(size) && Clock::now() < until) co_await changed_.wait();
  check_capture();
}

// Whether the capture outlives the session: not that of a mere query, or of who may not send scans.
bool Session::keeps_capture() const {
  if (!capture_ || (capture_->stopped() && capture_->saved() == 0)) return false;
  const bool bad_start = error_ && error_->code != "unauthorized" && dialogue_.state() == Dialogue::State::header;
  if (!worker_ && !bad_start) return false;
  return options_.capture.policy == CaptureOptions::Policy::always || error_ || broken_off_ || gone_;
}

std::string Session::capture_note() const {
  if (!keeps_capture()) return "";
  return fmt::format("; the raw data{} are kept as {}", capture_->stopped() ? " until then" : "", capture_->name());
}

}  // namespace echotrain::server
