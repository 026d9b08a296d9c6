#include "server/session/message_handler.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <utility>
#include <variant>

#include "protocol/data/acquisition_check.h"
#include "protocol/data/text.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/slab_pool.h"
#include "server/memory/memory_estimate.h"

namespace echotrain::server {

namespace {
constexpr int kMostPeerTexts = 100;  // in the log, per session
// Then it is the turn of other sessions: after so many readouts, or when so many have taken so long.
constexpr std::size_t kReadoutsAtOnce = 256, kReadoutsPerLook = 16;
constexpr std::chrono::microseconds kTurn{100};
constexpr std::size_t kReadoutsForOther = 4;  // that any other message counts for
// Texts by what they cost to read, in bytes of a header: up to kReadAtOnce on the sockets' threads (2 ms), up to kShort
// on threads that no longer text takes (20 ms).
constexpr std::size_t kReadAtOnce = 16 << 10, kShort = 128 << 10;
constexpr std::size_t kCostOfConfig = 4;        // a byte of YAML
constexpr std::size_t kBehind = 1 << 20;        // that a scan has not done; it is then the slower one of the two
constexpr std::chrono::seconds kForAnother{2};  // answer that has not been read
constexpr std::size_t kUnread = 64 << 10;       // of answers, beyond which a question waits
// Before its scan has a reservation: a slab, and a short config and header. Such a scan waits for memory in its line.
constexpr std::uint64_t kBeforeReservation = protocol::SlabPool::kSlabBytes + (256 << 10);
constexpr std::size_t kCopiesOfHeader = 6;  // received; in the ScanHeader; of the scan and its gadgets

bool may_be_secret(const std::string& text) {
  constexpr std::string_view kWord = "token";
  return std::search(text.begin(), text.end(), kWord.begin(), kWord.end(),
                     [](char a, char b) { return (a | 0x20) == b; }) != text.end();
}

}  // namespace

MessageHandler::MessageHandler(Connection& connection, ProtocolStateMachine& state_machine, SessionCapture& capture,
                               Watchdog& watchdog, ScanRunner& scan)
    : connection_(connection),
      state_machine_(state_machine),
      capture_(capture),
      watchdog_(watchdog),
      scan_(scan),
      buffer_(connection.environment.limits, connection.environment.resources->share<protocol::SlabPool>()),
      pending_memory_(connection.status->queues),
      slack_memory_(connection.status->account),
      header_memory_(connection.status->account) {}

// A client that has yet to show a token gets room for as much as may come before the token.
std::span<std::byte> MessageHandler::room() {
  const std::span<std::byte> room = buffer_.prepare();
  return state_machine_.needs_token() ? room.first(std::min(room.size(), kTokenBytes)) : room;
}

protocol::Payload MessageHandler::commit(std::size_t n) {
  buffer_.commit(n);
  bytes_ += n;
  return buffer_.received(n);
}

void MessageHandler::drop_partial_message() {
  buffer_ = protocol::MessageBuffer(connection_.environment.limits,
                                    connection_.environment.resources->share<protocol::SlabPool>());
  pending_memory_.set(0);
  slack_memory_.set(0);
}

asio::awaitable<void> MessageHandler::consume() {
  const Clock::time_point now = Clock::now();
  bool whole = false, data = false;
  std::vector<protocol::Acquisition> batch;
  // Reads of a steady stream are much alike.
  batch.reserve(std::min(batch_readouts_, kReadoutsAtOnce));
  const std::uint64_t before = readouts_;
  struct ReturnsPermit {
    std::unique_ptr<ReadLimiter::Permit>& permit;
    ~ReturnsPermit() { permit.reset(); }
  } const ends{permit_};
  Clock::time_point since = now;
  std::size_t handled = 0, looked = 0;
  // The numbers are still in this processor's caches: reading them costs less here than on the scan's thread.
  const bool checks = scan_.queued_bytes() > kBehind;
  while (!connection_.ending() && !waiting_scan_) {
    const bool look = handled - looked >= kReadoutsPerLook;
    if (look) looked = handled;
    // A slab may hold thousands of small messages, and what this thread has to do for others waits behind them.
    if (handled >= kReadoutsAtOnce || (look && Clock::now() - since >= kTurn)) {
      handled = looked = 0;
      flush(batch);
      if (whole) tell_watchdog(whole, data);
      co_await wait_for_read_permit();
      since = Clock::now();
      batch.reserve(std::min(batch_readouts_, kReadoutsAtOnce));
      continue;
    }
    if (state_machine_.state() == ProtocolStateMachine::State::data) {
      const protocol::Result<bool> taken = buffer_.next_readout(batch.emplace_back());
      if (taken && *taken) {
        state_machine_.data_came();
        batch.back().arrival = now;
        batch.back().number = ++readouts_;
        const auto& head = batch.back().head;
        if (protocol::is_compressed(batch.back()))
          watchdog_.compressed(batch.back().data.bytes.size(),
                               std::uint64_t{8} * head.number_of_samples * head.active_channels);
        else if (checks)
          batch.back().known_finite = protocol::all_finite(batch.back());
        whole = data = true;
        ++handled;
        continue;
      }
      batch.pop_back();
      if (!taken) {
        flush(batch);
        connection_.fail(taken.error());
        break;
      }
    }
    protocol::Result<std::optional<protocol::Message>> next = this->next();
    if (!next) {
      flush(batch);
      connection_.fail(next.error());
      break;
    }
    if (!*next) {
      if (auto refusal = state_machine_.refusal_of(buffer_.pending_id())) connection_.fail(*std::move(refusal));
      break;
    }
    whole = true;
    data = data || std::holds_alternative<protocol::Image>(**next);
    handled += kReadoutsForOther;
    co_await act_on(std::move(**next), batch);
  }
  flush(batch);
  batch_readouts_ = static_cast<std::size_t>(readouts_ - before);
  tell_watchdog(whole, data);
  permit_.reset();
  check_memory();
}

// The next message. A client that must show a token gets no further than kTokenBytes without one, and no message that
// is longer is taken of it, but a config that has the token in its beginning.
protocol::Result<std::optional<protocol::Message>> MessageHandler::next() {
  const protocol::Limits& limits = connection_.environment.limits;
  if (!state_machine_.needs_token()) {
    buffer_.bound(limits);
    return buffer_.next();
  }
  if (bytes_ - buffer_.pending_bytes() > kTokenBytes || shows_no_token()) return ProtocolStateMachine::unauthorized();
  protocol::Limits short_ones = limits;
  short_ones.header_bytes = short_ones.text_bytes = kTokenBytes;
  buffer_.bound(short_ones);
  auto next = buffer_.next();
  if (!next && (next.error().code == "too-large" || next.error().code == "bad-header"))
    return ProtocolStateMachine::unauthorized();
  return next;
}

// Whether a config is coming that is longer than kTokenBytes and has no token in its beginning.
bool MessageHandler::shows_no_token() {
  constexpr std::size_t kHead = 6;
  const bool is_config = buffer_.pending_id() == static_cast<std::uint16_t>(protocol::MessageId::config_text);
  if (!is_config || buffer_.pending_bytes() < kHead + kTokenBytes || !state_machine_.expects_config()) return false;
  return !state_machine_.may_read(buffer_.pending_text(kHead, kTokenBytes));
}

// Waits until `work` has been done on another thread, by turns with what other addresses send; what takes a few ms is
// `quick`. False: the session ends, and it may not have been done.
asio::awaitable<bool> MessageHandler::offload(std::function<void()> work, bool quick, bool answers) {
  permit_.reset();
  const Environment& environment = connection_.environment;
  FairQueue& queue = quick ? *environment.short_texts : *environment.long_texts;
  // A scan's data may be in the spill: the end of what the socket brings is not their end.
  const bool has_data = state_machine_.state() == ProtocolStateMachine::State::data;
  const bool may_end = !has_data && !answers;  // who has asked may have said all, and reads the answer
  const std::function<bool()> is_over = [this, may_end] {
    if (connection_.transport->is_reset()) {
      connection_.lose("the connection was reset while a text of its client was waiting to be read");
    } else if (may_end && buffer_.pending_bytes() == 0 && connection_.transport->has_ended() && !connection_.ending()) {
      connection_.end.broken_off = true;
      connection_.notify();
    }
    return connection_.ending();
  };
  co_return co_await connection_.offload(queue, std::move(work), is_over) && !connection_.ending();
}

// Who has few messages finds a thread at once, however many others bring more than can be handled: who waits for a turn
// is in the threads' queue only when it has come.
asio::awaitable<void> MessageHandler::wait_for_read_permit() {
  permit_.reset();
  permit_ = connection_.environment.read_limiter->acquire(connection_.waker());
  if (permit_->granted()) co_await asio::post(connection_.strand, asio::use_awaitable);
  while (!permit_->granted() && !connection_.ending()) co_await connection_.wait();
}

void MessageHandler::tell_watchdog(bool whole_message, bool data) {
  watchdog_.received(
      {Clock::now(), whole_message, data, buffer_.pending_bytes(), awaited(), state_machine_.config_error()});
}

Watchdog::Awaited MessageHandler::awaited() const {
  switch (state_machine_.state()) {
    case ProtocolStateMachine::State::config:
      return Watchdog::Awaited::config;
    case ProtocolStateMachine::State::header:
      return Watchdog::Awaited::header;
    default:
      return Watchdog::Awaited::data;
  }
}

void MessageHandler::check_memory() {
  const std::size_t pending = buffer_.pending_bytes();
  const std::uint64_t most = session_memory(connection_.options, *connection_.environment.memory);
  if (pending > most)
    connection_.fail(
        {"budget",
         fmt::format("one message is larger than a session's memory ({} MiB); see session_memory_mib", most >> 20)});
  count_memory();
  if (connection_.ending()) return;
  numerics::MemoryAccount& account = *connection_.status->account;
  if (account.reserved() == 0 && account.used() <= kBeforeReservation) return;
  try {
    account.check();
  } catch (const OverBudget& error) {
    connection_.fail({"budget", error.what()});
  }
}

void MessageHandler::count_memory() {
  const std::size_t pending = buffer_.pending_bytes();
  pending_memory_.set(pending);
  // A small message that waits keeps all that came beside it, its own head too, of which it has a copy.
  const std::size_t held = buffer_.held_bytes(), counted = pending + scan_.queued_payload_bytes();
  slack_memory_.set(held - std::min(held, counted));
}

void MessageHandler::flush(std::vector<protocol::Acquisition>& batch) {
  if (batch.empty() || !scan_.started()) return;
  scan_.push(std::exchange(batch, {}));
}

// What a message means. Nothing: the session ends meanwhile.
asio::awaitable<std::optional<SessionAction>> MessageHandler::step_of(const protocol::Message& message) {
  const Environment& environment = connection_.environment;
  if (const auto* text = std::get_if<protocol::ConfigText>(&message);
      text != nullptr && kCostOfConfig * text->text.size() > kReadAtOnce && state_machine_.expects_config() &&
      state_machine_.may_read(text->text)) {
    std::optional<ProtocolStateMachine::Config> config;
    const std::function<void()> work = [&] {
      config = ProtocolStateMachine::read_config(environment.catalogue, text->text);
    };
    const bool read = co_await offload(work, kCostOfConfig * text->text.size() <= kShort);
    co_return read ? std::optional(state_machine_.take(*config)) : std::nullopt;
  }
  if (const auto* text = std::get_if<protocol::HeaderText>(&message)) {
    header_memory_.set(kCopiesOfHeader * text->xml.size());
    if (text->xml.size() > kReadAtOnce && state_machine_.expects_header()) {
      std::optional<protocol::Result<std::shared_ptr<const ScanHeader>>> parsed;
      const std::function<void()> work = [&] { parsed = read_scan_header(text->xml, environment.limits); };
      const bool read = co_await offload(work, text->xml.size() <= kShort);
      co_return read ? std::optional(state_machine_.take(*std::move(parsed))) : std::nullopt;
    }
  }
  if (const auto* text = std::get_if<protocol::Text>(&message);
      text != nullptr && state_machine_.expects_additional(text->text)) {
    std::optional<ProtocolStateMachine::Additional> additional;
    const std::function<void()> work = [&] { additional = state_machine_.read_additional(text->text); };
    const bool read = co_await offload(work, true);  // no more than 64 KiB of it
    co_return read ? std::optional(state_machine_.take(*additional)) : std::nullopt;
  }
  if (const auto* query = std::get_if<protocol::Query>(&message)) {
    // A long answer is made when all answers before it have been sent: a connection has one at a time.
    const bool may_be_long = ProtocolStateMachine::asks_of_scans(*query);
    co_await wait_until_read(may_be_long ? 0 : kUnread);
    if (connection_.ending()) co_return std::nullopt;
    if (may_be_long) co_return co_await answer_long(*query);
  }
  co_return state_machine_.handle(message);
}

// Takes no more of a client that does not read what it has asked for, while that is more than `most`.
asio::awaitable<void> MessageHandler::wait_until_read(std::size_t most) {
  co_await hold_back_until([this, most] { return connection_.outbox->control_bytes() <= most; },
                           Watchdog::Fault::client);
}

// Takes no more of a client before `may_go_on`. `fault`: of the client, if it has to read before.
asio::awaitable<void> MessageHandler::hold_back_until(std::function<bool()> may_go_on, Watchdog::Fault fault) {
  if (may_go_on()) co_return;
  permit_.reset();
  tell_watchdog(true, false);
  while (!may_go_on() && !connection_.ending()) {
    watchdog_.hold_back(Clock::now(), fault);
    co_await connection_.poll_wait();
  }
  watchdog_.release();
}

// Answers what may take long to find. An answer that may be long is paid for before it is made, and an address has one
// of them that has not been read: who asks for another is refused where that takes kForAnother.
asio::awaitable<std::optional<SessionAction>> MessageHandler::answer_long(const protocol::Query& query) {
  std::shared_ptr<ReadLimiter::Permit> permit;
  if (ProtocolStateMachine::is_long(query) && !connection_.exempt) {
    permit = connection_.environment.long_answers->acquire(connection_.address, connection_.waker());
    const Clock::time_point last = Clock::now() + kForAnother;
    co_await hold_back_until([&] { return permit->granted() || Clock::now() > last; }, Watchdog::Fault::server);
    if (connection_.ending()) co_return std::nullopt;
    if (!permit->granted()) {
      connection_.outbox->response(
          {query.correlation_id, "refused: another answer for this address has not been read; ask again later"});
      co_return SessionAction();
    }
  }
  protocol::Response response{query.correlation_id, ""};
  numerics::MemoryShare paid(connection_.status->account);
  const std::function<void()> work = [&] {
    try {
      response.text = state_machine_.answer(query, [&](std::uint64_t bytes) { paid.grow_to(bytes); });
    } catch (const OverBudget&) {
      response.text = "refused: the server has no memory for this answer now; ask again later";
    }
  };
  if (!co_await offload(work, !ProtocolStateMachine::is_long(query), true)) co_return std::nullopt;
  connection_.outbox->response(response, std::move(permit));
  co_return SessionAction();
}

asio::awaitable<void> MessageHandler::act_on(protocol::Message message, std::vector<protocol::Acquisition>& batch) {
  const bool known = state_machine_.admissible();
  if (const auto* text = std::get_if<protocol::Text>(&message);
      text != nullptr && known && ++peer_texts_ <= kMostPeerTexts)
    connection_.log.debug("the client says: {}", may_be_secret(text->text) ? "(a text that may have a token in it)"
                                                                           : protocol::printable(text->text, 1024));
  const bool decides = state_machine_.state() == ProtocolStateMachine::State::data;
  flush(batch);  // what came before this message goes before it
  std::optional<SessionAction> taken = co_await step_of(message);
  if (!taken) co_return;
  SessionAction step = *std::move(taken);
  if (!known && state_machine_.admissible()) {
    if (std::optional<protocol::Error> refusal = connection_.admit()) {
      connection_.fail(*std::move(refusal));
      co_return;
    }
    connection_.admitted = true;
  }
  tell(step);
  if (step.start) co_await start_scan(std::move(*step.start));
  if (decides) scan_.confirm();
  if (step.data) {
    if (auto* image = std::get_if<protocol::Image>(&message))
      scan_.push(std::move(*image));
    else if (auto* waveform = std::get_if<protocol::Waveform>(&message))
      scan_.push(std::move(*waveform));
  }
  if (step.fatal) connection_.fail(*step.fatal);
  if (step.closed) {
    connection_.end.closed = true;
    connection_.notify();
  }
}

// Passes on what the step has for the log and for the client.
void MessageHandler::tell(const SessionAction& step) {
  if (!step.remark.empty()) connection_.log.info("{}", step.remark);
  if (!step.detail.empty()) connection_.log.debug("{}", protocol::printable(step.detail));
  if (step.response) connection_.outbox->response(*step.response);
  // Told at once: the client may be gone before it has sent the header, with which it would be refused.
  if (const auto error = state_machine_.config_error(); error && connection_.observer)
    connection_.observer->error(*error);
  if (step.warning.empty()) return;
  connection_.log.debug("warning: {}", protocol::printable(step.warning));
  if (connection_.observer) connection_.observer->warning(step.warning);
  connection_.outbox->text(protocol::Level::warning, step.warning);
}

asio::awaitable<void> MessageHandler::start_scan(ScanRequest request) {
  permit_.reset();
  tell_watchdog(true, false);  // the wait that may follow is not for the client
  co_await scan_.prepare(request);
  if (connection_.ending()) co_return;
  capture_.admit();
  request.occasion = connection_.replayed.empty() ? capture_.name() : connection_.replayed;
  // While the scan waits, the client's data go to the capture, or wait on the client's side.
  if (!scan_.has_place() && capture_.can_spill()) {
    waiting_scan_ = std::move(request);
    co_return;
  }
  if (!scan_.has_place()) watchdog_.hold_back();
  co_await scan_.run(std::move(request));
}

asio::awaitable<void> MessageHandler::run_waiting_scan() {
  co_await scan_.run(*std::move(waiting_scan_));
  waiting_scan_.reset();
}

}  // namespace echotrain::server
