#include "clients/cpp/connection/exchange.h"

#include <fmt/format.h>

#include <charconv>
#include <exception>
#include <span>
#include <utility>

#include "clients/cpp/base/image_pixels.h"
#include "clients/cpp/connection/query.h"
#include "protocol/files/stream_file.h"

namespace echotrain::client {
namespace {

constexpr std::size_t kEventBytes = 512 << 20;  // of images that wait to be written
constexpr std::chrono::milliseconds kLook(100);

}  // namespace

Exchange::Exchange(const ServerAddress& server, ExchangeTimeouts patience, protocol::Buffer preamble,
                   ScanSource& source, double rate)
    : Exchange(open_connection(server, patience.sending), patience, std::move(preamble), {&source, rate}) {}

Exchange::Exchange(OpenConnection open, ExchangeTimeouts patience, protocol::Buffer preamble, Sending sending)
    : sending_(sending),
      patience_(patience),
      open_(std::move(open)),
      last_progress_(Clock::now().time_since_epoch().count()) {
  sender_ = std::thread([this, preamble = std::move(preamble)] {
    send_begin_ = Clock::now();
    send_end_ = send_begin_.load();
    try {
      send_all(preamble);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      send_failure_ = error.what();
      // A file that cannot be read further ends the scan here; a broken connection ends the receiver by itself.
      lost_ = dynamic_cast<const ConnectionError*>(&error) != nullptr;
      if (!lost_) stop_ = true;
    }
    if (!sent_all_) send_end_ = Clock::now();
  });
  receiver_ = std::thread([this] {
    try {
      receive_all();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      receive_failure_ = error.what();
      if (send_failure_.empty()) lost_ = dynamic_cast<const ConnectionError*>(&error) != nullptr;
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

std::chrono::duration<double> Exchange::sending_time() const { return send_end_.load() - send_begin_.load(); }

std::string Exchange::failure() const {
  // An error of the sender is the cause; the receiver then sees only its consequence.
  return !send_failure_.empty() ? send_failure_ : receive_failure_;
}

void Exchange::send_all(const protocol::Buffer& preamble) {
  if (!open_.connection->write(preamble, stop_)) return;
  bytes_sent_ += preamble.size();
  if (sending_.source != nullptr && !send_data()) return;
  send_end_ = Clock::now();
  last_progress_ = send_end_.load().time_since_epoch().count();
  sent_all_ = true;
}

bool Exchange::send_data() {
  const auto begin = Clock::now();
  while (const auto chunk = sending_.source->next()) {
    if (!send_chunk(*chunk, begin)) return false;
  }
  protocol::Buffer close;
  if (sending_.source->complete())
    protocol::encode(protocol::Close{}, close);
  else
    open_.connection->finish_writing();
  if (!open_.connection->write(close, stop_)) return false;
  bytes_sent_ += close.size();
  return true;
}

bool Exchange::send_chunk(const ScanChunk& chunk, Clock::time_point begin) {
  const double rate = sending_.rate;
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
    if (!open_.connection->write(bytes.subspan(from, to - from), stop_)) return false;
    bytes_sent_ += to - from;
    last_progress_ = Clock::now().time_since_epoch().count();
    from = to;
    for (const auto& each : whole ? std::span(chunk.pieces) : std::span(&piece, 1)) {
      readouts_sent_ += each.readout ? 1 : 0;
      ++messages_sent_;
    }
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
  const std::size_t before = sending_.readouts_before;
  if (number > before && number - before <= sent_.size()) return sent_[number - before - 1];
  const auto sent = last_sent_.find(counter_key(image.head));
  if (sent == last_sent_.end()) return std::nullopt;
  return sent->second;
}

void Exchange::receive_all() {
  protocol::MessageBuffer& buffer = *open_.received;
  while (true) {
    while (true) {
      auto message = buffer.next();
      if (!message)
        throw std::runtime_error("the server sent bytes that are not a message: " + message.error().message);
      if (!message->has_value()) break;
      if (!handle(std::move(**message))) return;
    }
    const auto n = open_.connection->read(buffer.prepare(), kLook);
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
  } else if (auto* response = std::get_if<protocol::Response>(&message)) {
    post(std::move(*response), 0);
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
