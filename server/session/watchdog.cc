#include "server/session/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace echotrain::server {

using asio::redirect_error;
using asio::use_awaitable;

namespace {

// A transfer that moves at least this fast [bytes/s] is never ended by its timeout.
constexpr double kSlowestLink = 16 << 10;

// While others wait for memory, data have to come so fast that they would fill what is reserved and not used within
// this time [s]. No scan fills it so: of what the estimate counts, the samples of a frame are a third (Cartesian), a
// fifth (with weights or maps of coils) or less, and the rest is taken when the frame is whole, for its image. That is
// why it is this long: the first readout of a Cartesian frame allocates its k-space, and up to four fifths stay unused
// while the frame comes. All of its lines may then take an hour, and a fourth of them (R = 4) 15 minutes.
constexpr double kFilledWithin_s = 4 * 3600;
// Memory that is used is not lent, but it does not stay for ever with who opens frames and completes none: data have to
// come so fast that they would fill it within this time [s]. No scan is so slow: a fourth of a volume's samples within
// 15 minutes would fill within 38 hours 38 times the volume (least squares in 3D, one channel), and others use less.
constexpr double kUsedFilledWithin_s = 48 * 3600;
// Compressed samples count as what they are expanded to, up to so many times what came: zeros cost nothing to send.
constexpr std::uint64_t kMostExpanded = 4;

}  // namespace

Watchdog::Watchdog(Connection& connection)
    : connection_(connection), options_(connection.options), timer_(connection.strand) {}

asio::awaitable<void> Watchdog::watch() {
  double shortest = std::min({options_.connect_timeout_s, options_.idle_timeout_s, options_.message_timeout_s,
                              options_.send_timeout_s, options_.drain_timeout_s, options_.pause_s});
  if (options_.max_step_s > 0) shortest = std::min(shortest, options_.max_step_s);
  const auto tick = seconds(std::clamp(shortest / 8, 0.005, 0.25));
  while (!stopped_) {
    error_code cancelled;
    timer_.expires_after(tick);
    co_await timer_.async_wait(redirect_error(use_awaitable, cancelled));
    if (stopped_) break;
    if (look_) look_(Clock::now());
    if (!over()) check(Clock::now());
  }
}

void Watchdog::stop() {
  stopped_ = true;
  timer_.cancel();
}

bool Watchdog::stalled(Period& period, Clock::time_point now, double timeout_s, std::uint64_t bytes, double slowest) {
  if (now < period.began + seconds(timeout_s)) return false;
  const bool too_few = static_cast<double>(bytes - std::min(bytes, period.bytes)) < slowest * timeout_s;
  period = {now, bytes};
  return too_few;
}

void Watchdog::check(Clock::time_point now) {
  if (!connection_.opened) {
    if (now > began_ + seconds(options_.connect_timeout_s))
      connection_.lose(fmt::format("no {} handshake with {} within {} s", connection_.transport->name(),
                                   connection_.status->peer, options_.connect_timeout_s));
    return;
  }
  check_alarm(now);
  check_pause(now);
  check_crawl(now);
  if (place_until_) connection_.environment.memory_admission->reconsider_now_and_then();
  check_spill(now);
  if (write_ && need_not_read()) *write_ = {now, written_};
  if (write_ && stalled(*write_, now, options_.send_timeout_s, written_, kSlowestLink)) {
    connection_.lose(
        fmt::format("client is not reading: (almost) nothing could be sent for {} s", options_.send_timeout_s));
  } else if (place_until_ && now > *place_until_) {
    place_until_.reset();
    place_wait_over_ = true;
    connection_.fail({"busy", fmt::format("no {} for this scan became free within {} s; send it again later",
                                          lacks_ == Lacks::memory ? "memory" : "place", options_.wait_timeout_s)});
  } else if (drain_until_ && now > *drain_until_) {
    drain_over_ = true;
    connection_.notify();
  } else if (is_watched() && !connection_.ending()) {
    check_input(now);
  }
}

// What is used cannot be lent: only who borrows has to send for it.
double Watchdog::slowest_pace() const {
  const numerics::MemoryAccount& account = *connection_.status->account;
  const std::uint64_t reserved = account.reserved(), unused = reserved - std::min(reserved, account.used());
  return account.borrowed() > 0 ? kSlowestLink : static_cast<double>(unused) / kFilledWithin_s;
}

std::uint64_t Watchdog::data_in() const { return connection_.status->bytes_in + expanded_; }

void Watchdog::compressed(std::uint64_t bytes, std::uint64_t plain) {
  expanded_ += std::min(plain - std::min(plain, bytes), (kMostExpanded - 1) * bytes);
}

void Watchdog::check_pause(Clock::time_point now) {
  if (held_since_ && fault_ == Fault::server) return;  // nothing can come
  const bool trickles = stalled(pace_, now, options_.pause_s, data_in(), slowest_pace()) &&
                        connection_.environment.memory_admission->under_pressure();
  if (pause_ && awaited_ == Awaited::data && !connection_.ending() &&
      (trickles || now > last_data_ + seconds(options_.pause_s)))
    pause_();
}

void Watchdog::check_crawl(Clock::time_point now) {
  if ((held_since_ && fault_ == Fault::server) || place_until_) return;  // nothing can come
  const double time_s = kCrawl * options_.idle_timeout_s;
  const double slowest = static_cast<double>(connection_.status->account->used()) / kUsedFilledWithin_s;
  crawls_ = crawls_ && static_cast<double>(data_in() - crawled_.bytes) < slowest * time_s;
  if (now >= crawled_.began + seconds(time_s)) crawls_ = stalled(crawled_, now, time_s, data_in(), slowest);
  if (crawls_ && crawl_ && awaited_ == Awaited::data && !connection_.ending()) crawl_();
}

void Watchdog::excuse_crawl(Clock::time_point since, Clock::time_point now) {
  crawled_.began = std::min(now, crawled_.began + (now - since));
}

// A client that sends again need not read again.
void Watchdog::spilled(std::uint64_t bytes) {
  spilled_ += bytes;
  if (!spill_is_silent_ || static_cast<double>(spilled_ - spill_->bytes) < kSlowestLink * options_.send_timeout_s)
    return;
  spill_is_silent_ = false;
  spill_ = Period{Clock::now(), spilled_};
}

void Watchdog::check_spill(Clock::time_point now) {
  if (!spill_ || now < spill_->began + seconds(options_.idle_timeout_s)) return;
  spill_is_silent_ = stalled(*spill_, now, options_.idle_timeout_s, spilled_, kSlowestLink);
}

// While the scan runs and the session takes its data, what a client will get waits in the outbox. Input that spills may
// do so because the outbox is full: a client that does not send either would stay for ever.
bool Watchdog::need_not_read() const {
  if (connection_.said_all) return false;
  return !held_since_ && !connection_.ending() && (!spill_is_silent_ || place_until_);
}

// Silence may be the client's fault, but not of one that has said all, or that a detached scan's journal stands for.
// Before its header it is always watched, but while a config or the header is being read. A scan that waits for its
// place has a deadline of its own.
bool Watchdog::is_watched() const {
  if (place_until_ || connection_.said_all || connection_.origin) return false;
  return (reading_ && !spilling_since_) || (held_since_ && (awaited_ != Awaited::data || fault_ == Fault::client));
}

void Watchdog::check_alarm(Clock::time_point now) {
  if (!alarm_ || now <= alarm_->when) return;
  const std::function<void()> ring = std::move(alarm_->ring);
  alarm_.reset();
  ring();
}

void Watchdog::check_input(Clock::time_point now) {
  const bool on_its_way = pending_bytes_ > 0 && !held_since_;  // else nobody takes the rest of the message
  if (on_its_way && stalled(message_, now, options_.message_timeout_s, pending_bytes_, kSlowestLink)) {
    connection_.fail({"timeout", fmt::format("a message stopped after {} bytes; the rest did not come within {} s",
                                             pending_bytes_, options_.message_timeout_s)});
    return;
  }
  const Clock::time_point deadline = awaited_since_ + seconds(patience_s());
  if (now <= deadline) return;
  // A message that began in time has the time that it takes on the slowest link.
  const double transfer_s = options_.message_timeout_s + static_cast<double>(pending_bytes_) / kSlowestLink;
  if (on_its_way && message_began_ <= deadline && now <= message_began_ + seconds(transfer_s)) return;
  connection_.fail(overdue());
}

double Watchdog::patience_s() const {
  return awaited_ == Awaited::data ? options_.idle_timeout_s : options_.connect_timeout_s;
}

protocol::Error Watchdog::overdue() const {
  if (config_error_) return *config_error_;
  switch (awaited_) {
    case Awaited::config:
      return {"timeout", fmt::format("no config came within {} s", patience_s())};
    case Awaited::header:
      return {"timeout", fmt::format("no header came within {} s after the config", patience_s())};
    case Awaited::data:
      break;
  }
  return {"timeout", fmt::format("neither a readout nor an image came within {} s", patience_s())};
}

void Watchdog::hold_back(Clock::time_point now, Fault fault) {
  if (held_since_ && fault != fault_) release(now);
  fault_ = fault;
  if (!held_since_) held_since_ = now;
}

void Watchdog::release(Clock::time_point now) { excuse(held_since_, now, fault_); }

void Watchdog::set_spilling(bool spilling, Clock::time_point now) {
  if (!spilling) {
    excuse(spilling_since_, now, Fault::server);
    spill_.reset();
    spill_is_silent_ = false;
  } else if (!spilling_since_) {
    spilling_since_ = now;
    spill_ = Period{now, spilled_};
  }
}

// The client was not to blame for the time that has passed since then. The deadlines for its config and its header
// stay: nothing of the server's holds it back before.
void Watchdog::excuse(std::optional<Clock::time_point>& since, Clock::time_point now, Fault fault) {
  if (!since) return;
  message_.began = now;
  if (fault == Fault::server) {
    pace_ = {now, data_in()};
    excuse_crawl(*since, now);
  }
  if (awaited_ == Awaited::data && fault == Fault::server) {
    awaited_since_ = std::min(now, awaited_since_ + (now - *since));
    last_data_ = std::min(now, last_data_ + (now - *since));
    message_began_ = std::min(now, message_began_ + (now - *since));
  }
  since.reset();
}

void Watchdog::received(Received state) {
  if (state.data || state.awaited != awaited_) awaited_since_ = last_data_ = state.at;
  awaited_ = state.awaited;
  // A message begins with its first byte: a pause before that is not part of it.
  if (state.whole_message || pending_bytes_ == 0) {
    message_ = {state.at, state.pending_bytes};
    message_began_ = state.at;
  }
  pending_bytes_ = state.pending_bytes;
  config_error_ = std::move(state.config_error);
}

void Watchdog::write_begins() {
  write_ = Period{Clock::now()};
  written_ = 0;
}

void Watchdog::place_wait_begins(Clock::time_point since, Lacks lacks) {
  lacks_ = lacks;
  if (!place_wait_over_) place_until_ = since + seconds(options_.wait_timeout_s);
}

void Watchdog::place_wait_ends(Clock::time_point now) {
  if (place_until_) excuse_crawl(*place_until_ - seconds(options_.wait_timeout_s), now);
  place_until_.reset();
  last_data_ = now;
  pace_ = {last_data_, data_in()};
}

void Watchdog::set_alarm(Clock::time_point when, std::function<void()> ring) { alarm_ = {when, std::move(ring)}; }

void Watchdog::drain_begins() { drain_until_ = Clock::now() + seconds(options_.drain_timeout_s); }

}  // namespace echotrain::server
