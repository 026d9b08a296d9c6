#include "server/session/session_capture.h"

#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "server/base/clock.h"
#include "server/capture/capture_files.h"
#include "server/detached/scan_record.h"
#include "server/net/tokens.h"

namespace echotrain::server {

using config::CaptureOptions;

namespace {

// The most that is held: a configuration, a header, some texts and queries, and what came with them in one read.
std::size_t most_held(const protocol::Limits& limits) {
  return limits.config_text_bytes + limits.header_bytes + (8 << 20);
}

/// Returns whole messages at the beginning of a stream with the tokens in configs, texts and queries made unreadable;
/// what follows stays as it is.
std::vector<std::byte> without_tokens(const std::vector<std::byte>& bytes) {
  using protocol::MessageId;
  constexpr std::size_t kId = 2, kFile = 1024, kTextHead = kId + 4, kQueryHead = kId + 16;
  std::vector<std::byte> out;
  out.reserve(bytes.size());
  std::size_t at = 0;
  const auto copy = [&](std::size_t n) {
    out.insert(out.end(), bytes.data() + at, bytes.data() + at + n);
    at += n;
  };
  for (std::uint16_t id = 0; at + kTextHead <= bytes.size();) {
    std::memcpy(&id, bytes.data() + at, kId);
    const auto kind = static_cast<MessageId>(id);
    const bool is_query = kind == MessageId::query;
    const bool has_token = is_query || kind == MessageId::config_text || kind == MessageId::text;
    const std::size_t head = kind == MessageId::config_file ? kId : is_query ? kQueryHead : kTextHead;
    if (!has_token && kind != MessageId::config_file && kind != MessageId::header) break;
    if (at + head > bytes.size()) break;
    std::uint64_t length = kind == MessageId::config_file ? kFile : 0;
    if (length == 0) std::memcpy(&length, bytes.data() + at + head - (is_query ? 8 : 4), is_query ? 8 : 4);
    if (length > bytes.size() - at - head) break;
    copy(head);
    if (!has_token) {
      copy(length);
      continue;
    }
    const std::string whole(reinterpret_cast<const char*>(bytes.data() + at), length);
    const std::string text = whole.substr(0, whole.find('\0'));
    const std::size_t second = is_query ? text.find('\n') : 0;  // a query's token is in its second line
    std::string masked = text;
    if (second != std::string::npos) {
      const std::size_t begin = is_query ? second + 1 : 0;
      masked = text.substr(0, begin) + without_token_value(text.substr(begin), token_in(text.substr(begin)));
    }
    masked += whole.substr(text.size());
    const std::uint64_t size = masked.size();
    std::memcpy(out.data() + out.size() - (is_query ? 8 : 4), &size, is_query ? 8 : 4);
    const auto* const first = reinterpret_cast<const std::byte*>(masked.data());
    out.insert(out.end(), first, first + masked.size());
    at += length;
  }
  copy(bytes.size() - at);
  return out;
}

}  // namespace

SessionCapture::SessionCapture(Connection& connection, const ProtocolStateMachine& state_machine)
    : connection_(connection), state_machine_(state_machine), held_memory_(connection.status->queues) {}

SessionCapture::~SessionCapture() {
  if (capture_) capture_->finish(true);
}

void SessionCapture::append(protocol::Payload bytes) {
  if (!connection_.environment.captures || !connection_.captured) return;
  if (admitted_) return capture_->append(std::move(bytes));
  if (connection_.ending() || too_much_held_) return;
  too_much_held_ = held_.size() + bytes.bytes.size() > most_held(connection_.environment.limits);
  if (too_much_held_)
    held_ = {};
  else
    held_.insert(held_.end(), bytes.bytes.begin(), bytes.bytes.end());
  held_memory_.set(held_.capacity());
}

void SessionCapture::forget() {
  connection_.captured = false;
  held_ = {};
  held_memory_.set(0);
}

void SessionCapture::admit() {
  if (!connection_.environment.captures || !connection_.captured || std::exchange(admitted_, true)) return;
  open();
  if (too_much_held_) capture_->stop("too much came before its header");
}

std::string SessionCapture::name() const {
  return capture_ ? capture_->name() : capture_name(std::chrono::system_clock::now(), connection_.log.id());
}

void SessionCapture::open() {
  capture_ = connection_.environment.captures->open(connection_.log.id(), connection_.waker(),
                                                    state_machine_.identity().text, state_machine_.identity().part);
  capture_->append(protocol::Payload::take(without_tokens(std::exchange(held_, {}))));
  held_memory_.set(0);
}

void SessionCapture::check() {
  if (!stopped()) return;
  if (!spilling_) capture_->abandon();  // a spill still reads from it
  // Before the header a client may get fatal errors only.
  const bool early = state_machine_.state() == ProtocolStateMachine::State::config ||
                     state_machine_.state() == ProtocolStateMachine::State::header;
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
asio::awaitable<void> SessionCapture::wait_until_written(bool scanned) {
  if (!capture_ && !held_.empty() && connection_.captured && is_bad_start()) open();  // it shows what was wrong
  if (!capture_) co_return;
  // After another end the client may go on sending, which is captured.
  sealing_ = (connection_.end.closed || connection_.end.broken_off) && is_kept(scanned);
  if (sealing_) capture_->seal();
  const std::uint64_t size = capture_->size();
  const Clock::time_point until = Clock::now() + seconds(connection_.options.send_timeout_s);
  asio::steady_timer patience(connection_.strand, until);
  patience.async_wait([wake = connection_.waker()](const error_code&) { wake(); });
  while (!connection_.end.gone && !settled(size) && Clock::now() < until) co_await connection_.wait();
  // CLOSE would say that the disk has it.
  if (connection_.options.capture.sync == CaptureOptions::Sync::before_close && !connection_.end.gone && !settled(size))
    capture_->stop(fmt::format("the disk did not take it within {} s", connection_.options.send_timeout_s));
  check();
}

bool SessionCapture::settled(std::uint64_t size) const {
  return sealing_ ? capture_->sealed() : capture_->written(size);
}

// True for a header that is refused for what it says, of a client that may send scans and had a session for it.
bool SessionCapture::is_bad_start() const {
  return connection_.end.error && connection_.end.error->code == "bad-header" &&
         state_machine_.state() == ProtocolStateMachine::State::header && state_machine_.admissible();
}

// True if the capture outlives the session: unless it is that of a mere query, or of a client that may not send scans.
bool SessionCapture::is_kept(bool scanned) const {
  if (!capture_ || (capture_->stopped() && capture_->saved() == 0)) return false;
  const Ending& end = connection_.end;
  if (!scanned && !is_bad_start()) return false;
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
