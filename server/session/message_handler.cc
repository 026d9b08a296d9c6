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
#include "server/capture/capture_files.h"
#include "server/detached/detached_store.h"
#include "server/memory/memory_estimate.h"
#include "server/session/detached_front.h"

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
constexpr std::chrono::seconds kLongestWaitForScan{10};
constexpr std::size_t kUnread = 64 << 10;  // of answers, beyond which a question waits
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
  return state_machine_.needs_token() && !connection_.front ? room.first(std::min(room.size(), kTokenBytes)) : room;
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
  if (connection_.front) co_return co_await consume_detached();
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
  while (!connection_.ending() && !waiting_scan_ && !connection_.front) {
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
  if (connection_.front) co_return co_await consume_detached();
  check_memory();
}

// What comes after the header of a detached scan is for its journal, but for queries.
asio::awaitable<void> MessageHandler::consume_detached() {
  const protocol::Limits& limits = connection_.environment.limits;
  DetachedFront& front = *connection_.front;
  std::vector<protocol::Acquisition> none;
  bool whole = false, data = false;
  buffer_.bound(limits);
  while (!connection_.ending()) {
    const auto next = buffer_.next_raw();
    if (!next) connection_.fail(next.error());
    if (!next || !*next) break;
    const protocol::MessageBuffer::Raw& raw = **next;
    const auto id = static_cast<protocol::MessageId>(raw.id);
    whole = true;
    if (id == protocol::MessageId::query) {
      front.flush();
      auto query = protocol::decode(raw.bytes.bytes, raw.bytes.owner, limits);
      if (query)
        co_await act_on(*std::move(query), none);
      else
        connection_.fail(query.error());
      continue;
    }
    data = data || id == protocol::MessageId::acquisition || id == protocol::MessageId::image;
    if (front.take(raw)) continue;
    connection_.fail(
        {"out-of-order", fmt::format("{} came where it has no place in a detached scan", protocol::id_text(raw.id))});
  }
  front.flush();
  tell_watchdog(whole, data);
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
asio::awaitable<bool> MessageHandler::offload(std::function<void()> work, bool quick) {
  const Environment& environment = connection_.environment;
  co_return co_await offload(quick ? *environment.short_texts : *environment.long_texts, std::move(work));
}

asio::awaitable<bool> MessageHandler::offload(FairQueue& queue, std::function<void()> work, bool answers) {
  permit_.reset();
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
  if (connection_.front) return Watchdog::Awaited::data;
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
    if (auto asked = read_detached_query(query->name)) {
      co_await wait_until_read(kUnread);
      if (connection_.ending()) co_return std::nullopt;
      co_return co_await answer_detached(query->correlation_id, *std::move(asked));
    }
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
  FairQueue& queue = *(ProtocolStateMachine::is_long(query) ? connection_.environment.long_texts
                                                            : connection_.environment.short_texts);
  if (!co_await offload(queue, work, true)) co_return std::nullopt;
  connection_.outbox->response(response, std::move(permit));
  co_return SessionAction();
}

asio::awaitable<void> MessageHandler::act_on(protocol::Message message, std::vector<protocol::Acquisition>& batch) {
  const bool known = state_machine_.admissible();
  if (const auto* text = std::get_if<protocol::Text>(&message);
      text != nullptr && known && ++peer_texts_ <= kMostPeerTexts)
    connection_.log.debug("the client says: {}", may_be_secret(text->text) ? "(a text that may have a token in it)"
                                                                           : protocol::printable(text->text, 1024));
  note_for_journal(message);
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

// A scan that is detached begins with the messages that began it here.
void MessageHandler::note_for_journal(const protocol::Message& message) {
  if (!connection_.environment.detached || connection_.origin || connection_.front) return;
  if (const auto* name = std::get_if<protocol::ConfigFile>(&message)) {
    config_message_.clear();
    protocol::encode(*name, config_message_);
  } else if (const auto* text = std::get_if<protocol::ConfigText>(&message)) {
    config_message_.clear();
    protocol::encode(protocol::ConfigText{without_token_value(text->text, token_in(text->text))}, config_message_);
  } else if (const auto* header = std::get_if<protocol::HeaderText>(&message)) {
    header_message_.clear();
    protocol::encode(*header, header_message_);
  }
}

// Begins a detached scan where the client asks for one, or the pipeline says so. False: it is an ordinary one.
asio::awaitable<bool> MessageHandler::detach(const ScanRequest& request) {
  const std::shared_ptr<DetachedStore>& store = connection_.environment.detached;
  const std::optional<config::DetachSpec>& spec = request.plan->spec().detach;
  DetachedStore::NewScan scan;
  scan.config = std::exchange(config_message_, {});
  scan.header = std::exchange(header_message_, {});
  if (!store || connection_.origin || !connection_.replayed.empty() || std::exchange(detach_decided_, true) ||
      !(detach_asked_ || spec))
    co_return false;
  scan.pipeline = request.plan->spec().name;
  scan.identity = state_machine_.identity();
  scan.peer = connection_.status->peer;
  scan.granted = state_machine_.granted();
  scan.occasion = capture_name(std::chrono::system_clock::now(), connection_.log.id());
  scan.spec = spec.value_or(config::DetachSpec{});
  scan.asked = !spec || !connection_.environment.catalogue.offers(request.plan);
  std::optional<protocol::Result<std::shared_ptr<DetachedScan>>> made;
  const std::function<void()> work = [&] { made = store->create(std::move(scan)); };
  if (!co_await offload(*connection_.environment.detached_work, work, true)) co_return false;
  if (!*made) {
    connection_.log.warn("not detached: {}", protocol::printable(made->error().message));
    if (detach_asked_)
      connection_.outbox->response({*detach_asked_, "refused: " + made->error().message});
    else
      connection_.outbox->text(protocol::Level::warning, "this scan is not detached: " + made->error().message);
    co_return false;
  }
  capture_.forget();
  connection_.log.info("detached as {}", (**made)->id());
  connection_.front =
      std::make_shared<DetachedFront>(connection_, **made, DetachedFront::Kind::begins, detach_asked_, 0);
  connection_.notify();
  co_return true;
}

// Waits, not for long, until the server knows the scan that a client asks for: after its start it reads all of them.
// False: the session ends.
asio::awaitable<bool> MessageHandler::knows_detached(const std::string& id) {
  permit_.reset();
  const std::shared_ptr<DetachedStore>& store = connection_.environment.detached;
  const Clock::time_point last = Clock::now() + kLongestWaitForScan;
  std::string why = store->why_unknown(id);
  for (; !why.empty() && !store->elsewhere() && Clock::now() < last; why = store->why_unknown(id)) {
    if (connection_.transport->is_reset()) connection_.lose("the connection was reset");
    if (connection_.ending()) co_return false;
    co_await connection_.poll_wait();
  }
  if (!why.empty()) connection_.fail({"busy", why + "; ask again later"});
  co_return why.empty();
}

asio::awaitable<std::optional<SessionAction>> MessageHandler::answer_detached(std::uint64_t correlation_id,
                                                                              DetachedQuery asked) {
  using Kind = DetachedQuery::Kind;
  const std::shared_ptr<DetachedStore>& store = connection_.environment.detached;
  SessionAction step;
  std::string& answer = step.response.emplace(protocol::Response{correlation_id, "unknown"}).text;
  const bool before_header = state_machine_.state() == ProtocolStateMachine::State::config ||
                             state_machine_.state() == ProtocolStateMachine::State::header;
  if (!store || connection_.origin || !connection_.replayed.empty()) {
    answer = "refused: this server keeps no detached scans (option detached.directory)";
    co_return step;
  }
  if (asked.kind == Kind::begin) {
    if (before_header && !connection_.front) {
      detach_asked_ = correlation_id;  // answered when the header has come
      step.response.reset();
    } else {
      answer = "refused: a scan has begun on this connection; ask before its header";
    }
    co_return step;
  }
  const std::optional<Identity> identity = state_machine_.identity_with(asked.token);
  if (identity && !co_await knows_detached(asked.id)) co_return std::nullopt;
  if (identity && asked.kind == Kind::list) answer = store->json(&*identity);
  if (identity && asked.kind == Kind::cancel) {
    bool cancelled = false;
    const std::function<void()> work = [&] { cancelled = store->cancel(asked.id, &*identity); };
    if (!co_await offload(*connection_.environment.detached_work, work, true)) co_return std::nullopt;
    if (cancelled) answer = "cancelled";
  }
  if (asked.kind == Kind::list || asked.kind == Kind::cancel) co_return step;
  const std::shared_ptr<DetachedScan> scan = identity ? store->find(asked.id, *identity) : nullptr;
  if (asked.kind == Kind::look) {
    if (scan) answer = scan->json();
    co_return step;
  }
  if (connection_.front || !before_header) {
    answer = "refused: this connection carries another scan";
    co_return step;
  }
  const DetachedScan::State state = scan ? scan->look().state : DetachedScan::State::waiting;
  if (scan && asked.kind == Kind::resume && DetachedScan::is_end(state))
    answer = fmt::format("ended {}", DetachedScan::to_string(state));
  else if (scan && asked.kind == Kind::resume && scan->too_late())
    answer = "ended incomplete";
  if (!scan || answer != "unknown") {
    step.closed = true;
    co_return step;
  }
  if (!connection_.admitted)
    if (std::optional<protocol::Error> refusal = connection_.admit()) {
      connection_.fail(*std::move(refusal));
      co_return std::nullopt;
    }
  connection_.admitted = true;
  connection_.log.info("{} the detached scan {}", asked.kind == Kind::resume ? "resumes" : "reads", scan->id());
  connection_.front = std::make_shared<DetachedFront>(
      connection_, scan, asked.kind == Kind::resume ? DetachedFront::Kind::resumes : DetachedFront::Kind::reads,
      correlation_id, asked.images);
  connection_.notify();
  co_return std::nullopt;
}

asio::awaitable<void> MessageHandler::start_scan(ScanRequest request) {
  permit_.reset();
  tell_watchdog(true, false);  // the wait that may follow is not for the client
  const bool detached = co_await detach(request);
  if (detached || connection_.ending()) co_return;
  co_await scan_.prepare(request);
  if (connection_.ending()) co_return;
  capture_.admit();
  request.occasion = connection_.origin             ? connection_.origin->occasion
                     : connection_.replayed.empty() ? capture_.name()
                                                    : connection_.replayed;
  request.drops = !connection_.origin || connection_.origin->in_time;
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
