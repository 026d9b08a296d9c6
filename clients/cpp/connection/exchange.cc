#include "clients/cpp/connection/exchange.h"

#include <fmt/format.h>

#include <charconv>
#include <exception>
#include <span>
#include <utility>

#include "clients/cpp/base/image_pixels.h"
#include "protocol/files/stream_file.h"

namespace echotrain::client {
namespace {

constexpr std::size_t kEventBytes = 512 << 20;  // of images that wait to be written
constexpr std::chrono::milliseconds kLook(100);

}  // namespace

Exchange::Exchange(const ServerAddress& server, ExchangeTimeouts patience, protocol::Buffer preamble,
                   ScanSource& source, double rate)
    : source_(source),
      patience_(patience),
      connection_(server, patience.sending),
      last_progress_(Clock::now().time_since_epoch().count()) {
  sender_ = std::thread([this, rate, preamble = std::move(preamble)] {
    send_begin_ = Clock::now();
    try {
      send_all(preamble, rate);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      send_failure_ = error.what();
      // A file that cannot be read further ends the scan here; a broken connection ends the receiver by itself.
      if (dynamic_cast<const ConnectionError*>(&error) == nullptr) stop_ = true;
    }
    send_end_ = Clock::now();
  });
  receiver_ = std::thread([this] {
    try {
      receive_all();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      receive_failure_ = error.what();
    }
    stop_ = true;
    sender_.join();
    const std::lock_guard lock(mutex_);
    receiver_done_ = true;
    changed_.notify_all();
  });
}

Exchange::~Exchange() {
  stop_ = true;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    changed_.notify_all();
  }
  receiver_.join();
}

std::optional<Event> Exchange::next(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [this] { return !events_.empty() || receiver_done_; });
  if (events_.empty()) return std::nullopt;
  auto [event, bytes] = std::move(events_.front());
  events_.pop_front();
  event_bytes_ -= bytes;
  changed_.notify_all();
  return std::move(event);
}

bool Exchange::over() {
  const std::lock_guard lock(mutex_);
  return receiver_done_ && events_.empty();
}

bool Exchange::imaging_sent() {
  const std::lock_guard lock(mutex_);
  return !last_sent_.empty();
}

std::chrono::duration<double> Exchange::sending_time() const { return send_end_ - send_begin_; }

std::string Exchange::failure() const {
  // An error of the sender is the cause; the receiver then sees only its consequence.
  return !send_failure_.empty() ? send_failure_ : receive_failure_;
}

void Exchange::send_all(const protocol::Buffer& preamble, double rate) {
  if (!connection_.write(preamble, stop_)) return;
  bytes_sent_ += preamble.size();
  const auto begin = Clock::now();
  while (const auto chunk = source_.next()) {
    if (!send_chunk(*chunk, rate, begin)) return;
  }
  protocol::Buffer close;
  if (source_.complete())
    protocol::encode(protocol::Close{}, close);
  else
    connection_.finish_writing();
  if (!connection_.write(close, stop_)) return;
  bytes_sent_ += close.size();
  last_progress_ = Clock::now().time_since_epoch().count();
  sent_all_ = true;
}

bool Exchange::send_chunk(const ScanChunk& chunk, double rate, Clock::time_point begin) {
  const std::span bytes(chunk.bytes);
  std::size_t from = 0;
  for (std::size_t i = 0; i < chunk.pieces.size(); ++i) {
    const ScanChunk::Piece& piece = chunk.pieces[i];
    const bool paced = rate > 0 && piece.readout;
    if (paced) {
      const auto due = begin + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(static_cast<double>(readouts_sent_) / rate));
      // Slow rates must still notice that the server has ended the scan.
      while (Clock::now() < due && !stop_)
        std::this_thread::sleep_until(std::min<Clock::time_point>(due, Clock::now() + kLook));
    }
    // Without a rate the whole chunk goes in one write.
    const bool whole = rate <= 0;
    const std::size_t to = whole ? bytes.size() : piece.end;
    // Called before the write, whose answer may come before this thread runs again.
    if (whole)
      for (const auto& each : chunk.pieces) note_sending(each);
    else
      note_sending(piece);
    if (!connection_.write(bytes.subspan(from, to - from), stop_)) return false;
    bytes_sent_ += to - from;
    last_progress_ = Clock::now().time_since_epoch().count();
    from = to;
    for (const auto& each : whole ? std::span(chunk.pieces) : std::span(&piece, 1))
      readouts_sent_ += each.readout ? 1 : 0;
    if (whole) return true;
  }
  return true;
}

void Exchange::note_sending(const ScanChunk::Piece& piece) {
  if (!piece.readout) return;
  const std::lock_guard lock(mutex_);
  sent_.push_back(Clock::now());
  if (piece.makes_image) last_sent_[piece.key] = sent_.back();
}

std::optional<Exchange::Clock::time_point> Exchange::sent_at(const protocol::Image& image) {
  std::size_t number = 0;
  for (const auto& [name, value] : meta_values(image.attributes))
    if (name == "echotrain_last_readout") std::from_chars(value.data(), value.data() + value.size(), number);
  const std::lock_guard lock(mutex_);
  if (number > 0 && number <= sent_.size()) return sent_[number - 1];
  const auto sent = last_sent_.find(counter_key(image.head));
  if (sent == last_sent_.end()) return std::nullopt;
  return sent->second;
}

void Exchange::receive_all() {
  protocol::MessageBuffer buffer{protocol::Limits{}};
  while (true) {
    const auto n = connection_.read(buffer.prepare(), kLook);
    if (!n) {
      {
        const std::lock_guard lock(mutex_);
        if (abandoned_ || (stop_ && !send_failure_.empty())) return;
      }
      const auto limit = sent_all_ ? patience_.after_close : patience_.sending;
      const Clock::time_point last{Clock::duration(last_progress_)};
      if (limit && Clock::now() - last > *limit) {
        throw ConnectionError(fmt::format("nothing came from the server for {:g} s (--timeout)", limit->count()));
      }
      continue;
    }
    if (*n == 0) {
      throw ConnectionError(buffer.pending_bytes() > 0
                                ? fmt::format("the connection ended inside a message (id {}, {} bytes of it)",
                                              buffer.pending_id(), buffer.pending_bytes())
                                : std::string("the server ended the connection without CLOSE"));
    }
    last_progress_ = Clock::now().time_since_epoch().count();
    buffer.commit(*n);
    while (true) {
      auto message = buffer.next();
      if (!message) throw ConnectionError("the server sent bytes that are not a message: " + message.error().message);
      if (!message->has_value()) break;
      if (!handle(std::move(**message))) return;
    }
  }
}

// False after CLOSE.
bool Exchange::handle(protocol::Message&& message) {
  if (auto* image = std::get_if<protocol::Image>(&message)) {
    ReceivedImage received;
    const std::size_t bytes = image->pixels.bytes.size();
    const auto now = Clock::now();
    if (const auto sent = sent_at(*image)) received.latency = now - *sent;
    received.image = std::move(*image);
    post(std::move(received), bytes);
  } else if (auto* text = std::get_if<protocol::Text>(&message)) {
    post(std::move(*text), 0);
  } else if (std::holds_alternative<protocol::Close>(message)) {
    closed_ = true;
    return false;
  }
  return true;
}

void Exchange::post(Event&& event, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return event_bytes_ < kEventBytes || abandoned_; });
  event_bytes_ += bytes;
  events_.emplace_back(std::move(event), bytes);
  changed_.notify_all();
}

}  // namespace echotrain::client
