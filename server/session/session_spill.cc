// A pipeline that is slower than the scanner must not stop it: while the input queue is full, or the scan waits for its
// place, what comes goes to the raw capture only, and is read back from there as the pipeline finds room.
#include <algorithm>
#include <utility>

#include "server/session/session.h"

namespace echotrain::server {

namespace {
constexpr std::size_t kSlabBytes = 1 << 20;
}  // namespace

bool Session::input_full() const { return (worker_ && worker_->full()) || outbox_->flooded(); }

// Whether the socket is held back. Begins to spill where that avoids it.
bool Session::must_wait() {
  if (capture_ && capture_->full()) return true;
  if (spilling_) return capture_->stopped();
  if (!input_full()) return false;
  if (!worker_ || !can_spill()) return true;
  spill();
  return false;
}

bool Session::can_spill() const { return capture_ && !capture_->stopped(); }

void Session::spill() {
  spilling_ = true;
  parsed_ = capture_->size();
  spawn(unspill(), &Session::unspill_ended);
}

// Not the message buffer's, which unspill() fills.
std::span<std::byte> Session::spill_room() {
  if (!slab_ || slab_used_ == slab_->size()) {
    slab_ = std::make_shared<std::vector<std::byte>>(kSlabBytes);
    slab_used_ = 0;
  }
  return std::span(*slab_).subspan(slab_used_);
}

// The next `n` bytes of spill_room(), which have been read.
protocol::Payload Session::spilled(std::size_t n) {
  summary_.bytes_spilled += n;
  const std::span<const std::byte> bytes = std::span(*slab_).subspan(slab_used_, n);
  slab_used_ += n;
  return {slab_, bytes};
}

// Ends when the pipeline has got all that was spilled and has room for more.
asio::awaitable<void> Session::unspill() {
  if (waiting_scan_) {
    co_await run_scan(*std::move(waiting_scan_));
    waiting_scan_.reset();
    if (!ending()) co_await consume();  // what has come with the header
  }
  while (!ending()) {
    if (input_full()) {
      co_await changed_.wait();
      continue;
    }
    if (parsed_ == capture_->size()) break;
    capture_->fetch(parsed_, buffer_.prepare());
    std::optional<protocol::Result<std::size_t>> fetched;
    while (!(fetched = capture_->fetched())) co_await changed_.wait();
    if (!*fetched) {
      fail(fetched->error());
      break;
    }
    parsed_ += **fetched;
    buffer_.commit(**fetched);
    if (!ending()) co_await consume();
  }
  // The client was not to blame for the time that this took.
  idle_since_ = message_.began = Clock::now();
  spilling_ = false;
  changed_.notify();
}

// After an exception, when the session is ending; otherwise another one may be under way already.
void Session::unspill_ended() {
  if (ending()) spilling_ = false;
}

asio::awaitable<void> Session::consume_copy(std::span<const std::byte> bytes) {
  while (!bytes.empty() && !ending()) {
    const std::span<std::byte> room = buffer_.prepare();
    const std::size_t n = std::min(room.size(), bytes.size());
    std::copy_n(bytes.begin(), n, room.begin());
    buffer_.commit(n);
    bytes = bytes.subspan(n);
    co_await consume();
  }
}

}  // namespace echotrain::server
