#include "server/session/session_capture.h"

#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "server/base/clock.h"

namespace echotrain::server {

using config::CaptureOptions;

SessionCapture::~SessionCapture() {
  if (capture_) capture_->finish(true);
}

void SessionCapture::append(protocol::Payload bytes) {
  if (!connection_.environment.captures) return;
  if (!capture_) capture_ = connection_.environment.captures->open(connection_.log.id(), connection_.waker());
  capture_->append(std::move(bytes));
}

void SessionCapture::check() {
  if (!stopped()) return;
  if (!spilling_) capture_->abandon();  // a spill still reads from it
  // Before the header a client may get fatal errors only.
  const bool early = dialogue_.state() == Dialogue::State::config || dialogue_.state() == Dialogue::State::header;
  if ((early && !connection_.ending()) || std::exchange(told_, true)) return;
  const std::string why = capture_->failure();
  connection_.log.error("the raw capture {} stopped: {}", capture_->name(), why);
  const bool ends_session = connection_.options.capture.when_full == CaptureOptions::WhenFull::end_session;
  if (ends_session && !capture_->too_slow())
    connection_.fail(
        {"capture",
         fmt::format("the raw data cannot be kept: {}; this server ends such scans (capture.when_full)", why)});
  else if (!early)
    connection_.outbox->text(protocol::Level::warning,
                             fmt::format("the raw data are no longer kept: {}; the scan goes on", why));
}

// Called before the last messages, so that they are true and report a failure. A disk that hangs must not keep CLOSE
// from the client for ever.
asio::awaitable<void> SessionCapture::wait_until_written() {
  if (!capture_) co_return;
  const std::uint64_t size = capture_->size();
  const Clock::time_point until = Clock::now() + seconds(connection_.options.send_timeout_s);
  asio::steady_timer patience(connection_.strand, until);
  patience.async_wait([wake = connection_.waker()](const error_code&) { wake(); });
  while (!connection_.end.gone && !capture_->written(size) && Clock::now() < until) co_await connection_.wait();
  check();
}

// A capture outlives the session unless it is that of a mere query, or of a client that may not send scans.
bool SessionCapture::is_kept(bool scanned) const {
  if (!capture_ || (capture_->stopped() && capture_->saved() == 0)) return false;
  const Ending& end = connection_.end;
  const bool bad_start = end.error && end.error->code != "unauthorized" && dialogue_.state() == Dialogue::State::header;
  if (!scanned && !bad_start) return false;
  return connection_.options.capture.policy == CaptureOptions::Policy::always || end.error || end.broken_off ||
         end.gone;
}

std::string SessionCapture::note(bool scanned) const {
  if (!is_kept(scanned)) return "";
  return fmt::format("; the raw data{} are kept as {}", capture_->stopped() ? " until then" : "", capture_->name());
}

std::string SessionCapture::finish(bool scanned) {
  if (!capture_) return "";
  const bool kept = is_kept(scanned);
  capture_->finish(kept);
  return kept ? capture_->name() : "";
}

}  // namespace echotrain::server
