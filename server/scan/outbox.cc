#include "server/scan/outbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
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

void Outbox::relay(protocol::Buffer&& messages, std::uint64_t images) {
  Outgoing out;
  out.pixels = protocol::Payload::take(std::move(messages));
  add(std::move(out), images);
}

bool Outbox::has_room() const {
  const std::scoped_lock lock(mutex_);
  return queued_bytes_ < bound_;
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
  Outgoing out = encoded(protocol::Text{
      protocol::format_log_text(protocol::Level::error, fmt::format("{}: {}", error.code, error.message))});
  out.last_words = true;
  add(std::move(out));
}

void Outbox::add(Outgoing&& message, std::uint64_t images) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_ || (drops_ && !message.last_words)) return;
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
    queue_.back().last_words = true;
    count(queued_bytes_ + queue_.back().held_bytes());
  }
  wake_();
}

std::shared_ptr<void> Outbox::discard() {
  std::shared_ptr<void> dropped = drop_all_but_last_words();
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    queue_.clear();
    count(0);
  }
  room_.notify_all();
  wake_();
  return dropped;
}

std::shared_ptr<void> Outbox::drop_all_but_last_words() noexcept {
  std::list<Outgoing> here;
  const auto unwanted = Unwanted<Outgoing>::make(memory_, QueueMemory::Kind::kept);
  std::list<Outgoing>& dropped = unwanted ? unwanted->things : here;
  {
    const std::scoped_lock lock(mutex_);
    drops_ = true;
    dropped.swap(queue_);
    std::size_t kept = taken_bytes_;
    while (!dropped.empty() && dropped.back().last_words) {  // nothing comes after them
      kept += dropped.back().held_bytes();
      queue_.splice(queue_.begin(), dropped, std::prev(dropped.end()));
    }
    dropped_ += dropped.size();
    const std::size_t queued = queued_bytes_;
    count(std::min(kept, queued));
    if (unwanted) unwanted->share.set(queued - queued_bytes_);
    control_bytes_ = 0;
  }
  room_.notify_all();
  if (dropped.empty()) return nullptr;
  return unwanted;
}

std::size_t Outbox::dropped() const {
  const std::scoped_lock lock(mutex_);
  return dropped_;
}

void Outbox::wait_for_room(const std::atomic<bool>& cancelled) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] { return queued_bytes_ < bound_ || ended_ || drops_ || cancelled; });
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

void Outbox::take(std::vector<Outgoing>& out, std::size_t most, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  for (std::size_t taken = 0; !queue_.empty() && out.size() < most && taken < bytes;) {
    out.push_back(std::move(queue_.front()));
    queue_.pop_front();
    taken += out.back().held_bytes();
    taken_bytes_ += out.back().held_bytes();
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
    taken_bytes_ -= std::min(held, taken_bytes_);
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
