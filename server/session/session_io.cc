// The reader and the writer of a session.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/session/session.h"

namespace echotrain::server {

namespace {
constexpr int kMostPeerTexts = 100;        // in the log, per session
constexpr std::size_t kMostMessages = 16;  // per write
constexpr std::size_t kDrainBytes = 256 << 10;
constexpr std::size_t kLongText = 16 << 10;  // a config of this size takes a few ms to read; 1 MiB can take a second
constexpr double kTrial_s = 0.5;
}  // namespace

asio::awaitable<void> Session::read() {
  std::exception_ptr thrown;
  try {
    co_await open();
    if (opened_) co_await receive();
  } catch (...) {
    thrown = std::current_exception();
  }
  if (thrown) fail(thrown);
  if (opened_) co_await drain();  // or the client would not hear why
}

asio::awaitable<void> Session::open() {
  error_code error;
  std::string why;
  co_await transport_->open(error, why);
  opened_ = !error;
  if (environment_.tokens && !transport_->authenticated()) dialogue_.require(*environment_.tokens);
  if (error && !gone_) {
    transport_->close();  // in order, so that what TLS had to say arrives
    lose(fmt::format("the {} handshake with {} failed: {}", transport_->name(), summary_.peer,
                     why.empty() ? error.message() : why));
  }
  changed_.notify();
}

asio::awaitable<void> Session::receive() {
  while (!ending()) {
    if (must_wait()) {
      held_back_ = true;
      co_await changed_.wait();
      continue;
    }
    // The client was not to blame for the time we did not read.
    if (std::exchange(held_back_, false)) idle_since_ = message_.began = Clock::now();
    const bool spilling = spilling_;  // unspill() may end it meanwhile
    const std::span<std::byte> room = spilling ? spill_room() : buffer_.prepare();
    error_code error;
    reading_ = true;
    const std::size_t n = co_await transport_->read_some(asio::buffer(room.data(), room.size()), error);
    reading_ = false;
    if (error) {
      // What is spilled came before the end.
      while (error == asio::error::eof && spilling_ && !ending()) co_await changed_.wait();
      read_failed(error);
      break;
    }
    summary_.bytes_in += n;
    if (!spilling) buffer_.commit(n);
    capture(spilling ? spilled(n) : buffer_.received(n));
    environment_.metrics->add_bytes_in(n);
    status_->bytes_in += n;
    status_->last_activity = Clock::now();
    if (ending()) {
      drained_bytes_ += n;
      break;
    }
    if (!spilling) {
      co_await consume();
    } else if (!spilling_) {
      co_await consume_copy(room.first(n));
      slab_.reset();
    }
  }
  while (spilling_) co_await changed_.wait();  // it works on the buffer
}

// Goes on reading so that the kernel sends no RST, which would cost the client our last messages.
asio::awaitable<void> Session::drain() {
  const std::uint64_t most = static_cast<std::uint64_t>(options_.drain_mib) << 20;
  std::vector<std::byte> scratch(kDrainBytes);
  if (!eof_) {  // what is left of a refused message is not waited for
    buffer_ = protocol::MessageBuffer(environment_.limits);
    pending_memory_.set(0);
  }
  while (!eof_ && !gone_ && drained_bytes_ <= most) {
    error_code error;
    const std::size_t n = co_await transport_->read_some(asio::buffer(scratch.data(), scratch.size()), error);
    if (error) {
      read_failed(error);
      break;
    }
    drained_bytes_ += n;
    if (error_ && !closed_) {
      capture(protocol::Payload::take(std::vector<std::byte>(scratch.data(), scratch.data() + n)));
      while (capture_ && capture_->full() && !gone_ && !drain_over_) co_await changed_.wait();
    }
  }
}

void Session::read_failed(const error_code& error) {
  if (error == asio::error::eof) {
    eof_ = true;
    if (!ending()) broken_off_ = true;
  } else if (drain_until_) {
    eof_ = true;  // all is said; how the peer leaves does not matter
  } else if (error != asio::error::operation_aborted) {
    lose("receiving failed: " + error.message());
  }
  changed_.notify();
}

asio::awaitable<void> Session::consume() {
  const Clock::time_point now = Clock::now();
  const bool was_inside = buffer_.pending_bytes() > 0;
  bool whole = false;
  std::vector<protocol::Acquisition> batch;
  batch.reserve(batch_readouts_);  // reads of a steady stream are much alike
  const std::uint64_t before = readouts_;
  while (!ending() && !waiting_scan_) {
    protocol::Result<std::optional<protocol::Message>> next = buffer_.next();
    if (!next) {
      flush(batch);
      fail(next.error());
      break;
    }
    if (!*next) break;
    whole = true;
    if (auto* acquisition = std::get_if<protocol::Acquisition>(&**next);
        acquisition != nullptr && dialogue_.state() == Dialogue::State::data) {
      dialogue_.data_came();
      acquisition->arrival = now;
      acquisition->number = ++readouts_;
      batch.push_back(std::move(*acquisition));
    } else {
      co_await act_on(std::move(**next), batch);
    }
  }
  flush(batch);
  batch_readouts_ = static_cast<std::size_t>(readouts_ - before);
  if (whole) idle_since_ = now;
  if (whole || !was_inside) message_ = {now, buffer_.pending_bytes()};
  if (buffer_.pending_bytes() > static_cast<std::uint64_t>(options_.session_memory_mib) << 20)
    fail({"budget", fmt::format("one message is larger than a session's memory ({} MiB); see session_memory_mib",
                                options_.session_memory_mib)});
  check_memory();
}

void Session::check_memory() {
  pending_memory_.set(buffer_.pending_bytes());
  if (ending()) return;
  try {
    environment_.memory->check();
  } catch (const OverBudget& error) {
    fail({"budget", error.what()});
  }
}

void Session::flush(std::vector<protocol::Acquisition>& batch) {
  if (batch.empty() || !worker_) return;
  confirm_worker();
  worker_->push(std::exchange(batch, {}));
}

asio::awaitable<void> Session::act_on(protocol::Message message, std::vector<protocol::Acquisition>& batch) {
  if (const auto* text = std::get_if<protocol::Text>(&message); text != nullptr && ++peer_texts_ <= kMostPeerTexts)
    log_.info("the client says: {}", protocol::printable(text->text, 1024));
  const bool decides = dialogue_.state() == Dialogue::State::data;
  std::optional<Dialogue::Config> config;
  if (const auto* text = std::get_if<protocol::ConfigText>(&message);
      text != nullptr && text->text.size() > kLongText && dialogue_.expects_config()) {
    const std::function<void()> read = [&] { config = Dialogue::read_config(environment_.catalogue, text->text); };
    co_await run_offloaded(*environment_.offload, read);
    if (ending()) co_return;
  }
  Step step = config ? dialogue_.take(*config) : dialogue_.handle(message);
  flush(batch);  // what came before this message goes before it
  if (!step.remark.empty()) log_.info("{}", protocol::printable(step.remark));
  if (step.response) outbox_->response(*step.response);
  if (!step.warning.empty()) {
    log_.warn("{}", protocol::printable(step.warning));
    outbox_->text(protocol::Level::warning, step.warning);
  }
  if (step.start) co_await start_scan(std::move(*step.start));
  if (decides) confirm_worker();
  if (step.data && worker_) {
    if (auto* image = std::get_if<protocol::Image>(&message))
      worker_->push(std::move(*image));
    else if (auto* waveform = std::get_if<protocol::Waveform>(&message))
      worker_->push(std::move(*waveform));
  }
  if (step.fatal) fail(*step.fatal);
  if (step.closed) {
    closed_ = true;
    changed_.notify();
  }
}

// A FIRE client may name another pipeline in the message after the header, in a write of its own.
asio::awaitable<void> Session::start_scan(ScanRequest request) {
  trial_until_.reset();
  if (const std::unique_ptr<Worker> replaced = std::move(worker_)) {
    replaced->cancel();
    while (!replaced->done()) co_await changed_.wait();
  }
  if (ending()) co_return;
  try {
    ask_for_place(choose_backend(request.plan->spec(), options_.backend));
  } catch (const numerics::ResourceError& error) {
    fail({"resources", error.what()});
  }
  if (ending()) co_return;
  // While it waits, what the client sends goes to the capture, or waits on its side.
  if (!place_->granted() && !spilling_ && can_spill()) {
    waiting_scan_ = std::move(request);
    spill();
    co_return;
  }
  if (!place_->granted()) held_back_ = true;
  co_await run_scan(std::move(request));
}

asio::awaitable<void> Session::run_scan(ScanRequest request) {
  while (!ending() && !place_->granted()) co_await changed_.wait();
  place_until_.reset();
  if (ending()) co_return;
  if (const auto since = std::exchange(waiting_since_, std::nullopt))
    log_.info("waited {:.2f} s", std::chrono::duration<double>(Clock::now() - *since).count());
  const bool own = environment_.catalogue.offers(request.plan);
  meter_ = environment_.metrics->scan(own ? request.plan->spec().name : Metrics::kInline, status_);
  status_->state = SessionState::scanning;
  const ScanPlace place{place_->backend(), place_->device(), place_->others()};
  worker_ = std::make_unique<Worker>(std::move(request), place, options_, environment_.limits, environment_.memory,
                                     status_->queues, outbox_, log_, meter_, environment_.readiness, waker());
  trial_until_ = Clock::now() + seconds(std::min(kTrial_s, options_.idle_timeout_s / 4));
}

void Session::ask_for_place(numerics::Backend backend) {
  if (place_ && place_->backend() == backend) return;  // of the scan that this one replaces
  place_.reset();
  const char* name = numerics::to_string(backend);
  place_ = environment_.compute->ask(backend, waker());
  if (!place_) {
    fail({"busy", fmt::format("no place for a scan on the {} is free, and as many scans as may (max_waiting = {}) wait "
                              "for one; try again later",
                              name, options_.max_waiting)});
    return;
  }
  if (place_->granted()) return;
  waiting_since_ = Clock::now();
  place_until_ = *waiting_since_ + seconds(options_.wait_timeout_s);
  status_->state = SessionState::waiting;
  const std::string text =
      fmt::format("waiting for a place on the {}; {} scans wait before this one", name, place_->position());
  log_.info("{}", text);
  outbox_->text(protocol::Level::info, text);
}

void Session::confirm_worker() {
  if (!trial_until_) return;
  trial_until_.reset();
  worker_->confirm();
  changed_.notify();  // it may have failed already
}

asio::awaitable<void> Session::write() {
  std::vector<Outgoing> messages;
  std::vector<asio::const_buffer> buffers;
  while (!opened_ && !reader_done_ && !gone_) co_await changed_.wait();
  while (!gone_ && opened_) {
    messages.clear();
    outbox_->take(messages, kMostMessages);
    if (messages.empty()) {
      if (outbox_->finished()) break;
      co_await changed_.wait();
      continue;
    }
    buffers.clear();
    for (const Outgoing& message : messages) {
      buffers.emplace_back(message.head.data(), message.head.size());
      if (!message.pixels.bytes.empty()) buffers.emplace_back(message.pixels.bytes.data(), message.pixels.bytes.size());
    }
    write_ = Period{Clock::now()};
    written_ = 0;
    error_code error;
    co_await transport_->write(
        buffers,
        [this, &messages](std::uint64_t n) {
          written_ = n;
          note_written(messages, n);
        },
        error);
    write_.reset();
    if (error) {
      if (!gone_) lose("sending failed: " + error.message());
      break;
    }
    outbox_->sent(messages);
    for (const Outgoing& message : messages)
      if (const auto latency = latency_of(message.times, message.written)) meter_->sent(*latency);
    environment_.metrics->add_bytes_out(asio::buffer_size(buffers));
    status_->bytes_out += asio::buffer_size(buffers);
    status_->last_activity = Clock::now();
    changed_.notify();  // the reader may have waited for room
  }
}

}  // namespace echotrain::server
