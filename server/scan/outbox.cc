#include "server/scan/outbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace echotrain::server {

namespace {
Outgoing encoded(const auto& message) {
  Outgoing out;
  protocol::encode(message, out.head);
  return out;
}
}  // namespace

void note_written(std::vector<Outgoing>& messages, std::size_t bytes) {
  const Instant now = std::chrono::steady_clock::now();
  for (std::size_t end = 0; Outgoing & message : messages) {
    end += message.bytes();
    if (end > bytes) break;
    if (message.written == Instant{}) message.written = now;
  }
}

void Outbox::image(protocol::Image&& image, const ImageTimes& times) {
  if (const auto latency = latency_of(times)) {
    std::unique_lock lock(mutex_);
    const std::optional<float> last_send_ms = last_send_ms_;
    lock.unlock();
    add_latency(image.attributes, *latency, last_send_ms);
  }
  Outgoing out;
  out.times = times;
  protocol::encode_without_pixels(image, out.head);
  out.pixels = std::move(image.pixels);
  add(std::move(out), 1);
}

void Outbox::response(const protocol::Response& response, std::shared_ptr<void> holds) {
  Outgoing out = encoded(response);
  out.holds = std::move(holds);
  add(std::move(out));
}

bool Outbox::text(protocol::Level level, std::string_view text) {
  int count;
  {
    const std::scoped_lock lock(mutex_);
    count = ++texts_;
  }
  if (count > kMostTexts + 1) return false;
  if (count == kMostTexts + 1) {
    level = protocol::Level::warning;
    text = "further messages are only in the server's log";
  }
  add(encoded(protocol::Text{protocol::format_log_text(level, text)}));
  return count <= kMostTexts;
}

void Outbox::fatal(const protocol::Error& error) {
  add(encoded(protocol::Text{
      protocol::format_log_text(protocol::Level::error, fmt::format("{}: {}", error.code, error.message))}));
}

void Outbox::add(Outgoing&& message, std::uint64_t images) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    queue_.push_back(std::move(message));
    count(queued_bytes_ + queue_.back().held_bytes());
    if (queue_.back().is_control()) control_bytes_ += queue_.back().held_bytes();
    images_ += images;
  }
  wake_();
}

// With the lock held.
void Outbox::count(std::size_t bytes) {
  queued_bytes_ = bytes;
  share_.set(bytes);
}

void Outbox::close() {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    ended_ = true;
    queue_.push_back(encoded(protocol::Close{}));
    count(queued_bytes_ + queue_.back().held_bytes());
  }
  wake_();
}

void Outbox::discard() {
  std::list<Outgoing> dropped;  // freed outside the lock
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    dropped.swap(queue_);
    count(0);
    control_bytes_ = 0;
  }
  room_.notify_all();
  wake_();
}

void Outbox::wait_for_room(const std::atomic<bool>& cancelled) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] { return queued_bytes_ < bound_ || ended_ || cancelled; });
}

void Outbox::kick() {
  { const std::scoped_lock lock(mutex_); }  // a waiter is either before its test or asleep
  room_.notify_all();
}

bool Outbox::flooded() const {
  const std::scoped_lock lock(mutex_);
  return queued_bytes_ >= 2 * bound_;
}

std::size_t Outbox::control_bytes() const {
  const std::scoped_lock lock(mutex_);
  return control_bytes_;
}

void Outbox::take(std::vector<Outgoing>& out, std::size_t most) {
  const std::scoped_lock lock(mutex_);
  while (!queue_.empty() && out.size() < most) {
    out.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
}

void Outbox::sent(std::vector<Outgoing>& messages) {
  note_written(messages, SIZE_MAX);
  std::size_t bytes = 0, held = 0, talk = 0;
  for (const Outgoing& message : messages) {
    bytes += message.bytes();
    held += message.held_bytes();
    if (message.is_control()) talk += message.held_bytes();
  }
  {
    const std::scoped_lock lock(mutex_);
    for (const Outgoing& message : messages)
      if (const auto latency = latency_of(message.times, message.written)) {
        last_send_ms_ = latency->send;
        if (latencies_.size() < kMostLatencies) latencies_.push_back(*latency);
      }
    bytes_sent_ += bytes;
    count(queued_bytes_ - std::min(held, queued_bytes_));  // discard() may have forgotten them already
    control_bytes_ -= std::min(talk, control_bytes_);
  }
  room_.notify_all();
}

bool Outbox::finished() const {
  const std::scoped_lock lock(mutex_);
  return ended_ && queue_.empty();
}

std::uint64_t Outbox::images() const {
  const std::scoped_lock lock(mutex_);
  return images_;
}

std::vector<ImageLatency> Outbox::latencies() const {
  const std::scoped_lock lock(mutex_);
  return latencies_;
}

std::uint64_t Outbox::bytes_sent() const {
  const std::scoped_lock lock(mutex_);
  return bytes_sent_;
}

}  // namespace echotrain::server
