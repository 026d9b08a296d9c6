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
#include "server/memory/memory_estimate.h"

namespace echotrain::server {

namespace {
constexpr int kMostPeerTexts = 100;  // in the log, per session
// Then it is the turn of other sessions: after so many readouts, or when so many have taken so long.
constexpr std::size_t kReadoutsAtOnce = 256, kReadoutsPerLook = 16;
constexpr std::chrono::microseconds kTurn{100};
constexpr std::size_t kReadoutsForOther = 4;  // that any other message counts for
constexpr std::size_t kLongText = 16 << 10;   // a text of this size takes a few ms to read; 1 MiB can take a second
constexpr std::size_t kBehind = 1 << 20;      // that a scan has not done; it is then the slower one of the two
constexpr std::size_t kCopiesOfHeader = 6;    // received, in the dialogue, in the scan's request, and in the scan
}  // namespace

MessageHandler::MessageHandler(Connection& connection, Dialogue& dialogue, SessionCapture& capture, Watchdog& watchdog,
                               ScanRunner& scan)
    : connection_(connection),
      dialogue_(dialogue),
      capture_(capture),
      watchdog_(watchdog),
      scan_(scan),
      buffer_(connection.environment.limits, connection.environment.resources->share<protocol::SlabPool>()),
      pending_memory_(connection.status->queues),
      beside_memory_(connection.status->account),
      header_memory_(connection.status->account) {}

protocol::Payload MessageHandler::commit(std::size_t n) {
  buffer_.commit(n);
  return buffer_.received(n);
}

void MessageHandler::drop_partial_message() {
  buffer_ = protocol::MessageBuffer(connection_.environment.limits,
                                    connection_.environment.resources->share<protocol::SlabPool>());
  pending_memory_.set(0);
  beside_memory_.set(0);
}

asio::awaitable<void> MessageHandler::consume() {
  const Clock::time_point now = Clock::now();
  bool whole = false, data = false;
  std::vector<protocol::Acquisition> batch;
  // Reads of a steady stream are much alike. What is reserved and not filled is in nobody's count: no more than a few.
  batch.reserve(std::min(batch_readouts_, kReadoutsAtOnce));
  const std::uint64_t before = readouts_;
  struct EndsTurn {
    std::unique_ptr<ReadTurns::Turn>& turn;
    ~EndsTurn() { turn.reset(); }
  } const ends{turn_};
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
      co_await let_others_go_first();
      since = Clock::now();
      batch.reserve(std::min(batch_readouts_, kReadoutsAtOnce));
      continue;
    }
    if (dialogue_.state() == Dialogue::State::data) {
      const protocol::Result<bool> taken = buffer_.next_readout(batch.emplace_back());
      if (taken && *taken) {
        dialogue_.data_came();
        batch.back().arrival = now;
        batch.back().number = ++readouts_;
        if (checks && !protocol::is_compressed(batch.back()))
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
    protocol::Result<std::optional<protocol::Message>> next = buffer_.next();
    if (!next) {
      flush(batch);
      connection_.fail(next.error());
      break;
    }
    if (!*next) {
      if (auto refusal = dialogue_.refusal_of(buffer_.pending_id())) connection_.fail(*std::move(refusal));
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
  turn_.reset();
  check_memory();
}

// Who has few messages finds a thread at once, however many others bring more than can be handled: who waits for a turn
// is in the threads' queue only when it has come.
asio::awaitable<void> MessageHandler::let_others_go_first() {
  turn_.reset();
  turn_ = connection_.environment.read_turns->ask(connection_.waker());
  if (turn_->granted()) co_await asio::post(connection_.strand, asio::use_awaitable);
  while (!turn_->granted() && !connection_.ending()) co_await connection_.wait();
}

void MessageHandler::tell_watchdog(bool whole_message, bool data) {
  watchdog_.received({Clock::now(), whole_message, data, buffer_.pending_bytes(), awaited(), dialogue_.config_error()});
}

Watchdog::Awaited MessageHandler::awaited() const {
  switch (dialogue_.state()) {
    case Dialogue::State::config:
      return Watchdog::Awaited::config;
    case Dialogue::State::header:
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
  pending_memory_.set(pending);
  // A small message that waits keeps all that came beside it.
  const std::size_t held = buffer_.held_bytes(), counted = pending + scan_.queued_bytes();
  beside_memory_.set(held - std::min(held, counted));
  if (connection_.ending()) return;
  try {
    connection_.status->account->check();
  } catch (const OverBudget& error) {
    connection_.fail({"budget", error.what()});
  }
}

void MessageHandler::flush(std::vector<protocol::Acquisition>& batch) {
  if (batch.empty() || !scan_.started()) return;
  scan_.push(std::exchange(batch, {}));
}

asio::awaitable<void> MessageHandler::act_on(protocol::Message message, std::vector<protocol::Acquisition>& batch) {
  if (const auto* text = std::get_if<protocol::Text>(&message); text != nullptr && ++peer_texts_ <= kMostPeerTexts)
    connection_.log.info("the client says: {}", protocol::printable(text->text, 1024));
  const bool decides = dialogue_.state() == Dialogue::State::data;
  std::optional<Dialogue::Config> config;
  if (const auto* text = std::get_if<protocol::ConfigText>(&message);
      text != nullptr && text->text.size() > kLongText && dialogue_.expects_config()) {
    const Catalogue& catalogue = connection_.environment.catalogue;
    const std::function<void()> read = [&] { config = Dialogue::read_config(catalogue, text->text); };
    turn_.reset();
    co_await run_offloaded(*connection_.environment.offload, read);
    if (connection_.ending()) co_return;
  }
  std::optional<protocol::Result<protocol::Header>> parsed;
  if (const auto* text = std::get_if<protocol::HeaderText>(&message)) {
    header_memory_.set(kCopiesOfHeader * text->xml.size());
    if (text->xml.size() > kLongText && dialogue_.expects_header()) {
      const std::function<void()> read = [&] {
        parsed = protocol::parse_header(text->xml, connection_.environment.limits);
      };
      turn_.reset();
      co_await run_offloaded(*connection_.environment.offload, read);
      if (connection_.ending()) co_return;
    }
  }
  const bool known = dialogue_.admissible();
  Step step = config   ? dialogue_.take(*config)
              : parsed ? dialogue_.take(std::move(*parsed))
                       : dialogue_.handle(message);
  if (!known && dialogue_.admissible()) {
    if (std::optional<protocol::Error> refusal = connection_.admit()) {
      connection_.fail(*std::move(refusal));
      co_return;
    }
  }
  flush(batch);  // what came before this message goes before it
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
void MessageHandler::tell(const Step& step) {
  if (!step.remark.empty()) connection_.log.info("{}", protocol::printable(step.remark));
  if (step.response) connection_.outbox->response(*step.response);
  // Told at once: the client may be gone before it has sent the header, with which it would be refused.
  if (const auto error = dialogue_.config_error(); error && connection_.onlooker) connection_.onlooker->error(*error);
  if (step.warning.empty()) return;
  connection_.log.warn("{}", protocol::printable(step.warning));
  if (connection_.onlooker) connection_.onlooker->warning(step.warning);
  connection_.outbox->text(protocol::Level::warning, step.warning);
}

asio::awaitable<void> MessageHandler::start_scan(ScanRequest request) {
  turn_.reset();
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
