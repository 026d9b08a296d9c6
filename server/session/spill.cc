#include "server/session/spill.h"

#include <optional>
#include <utility>

namespace echotrain::server {

namespace {
constexpr std::size_t kSlabBytes = 1 << 20;
}  // namespace

Spill::Spill(Connection& connection, SessionCapture& capture, Watchdog& watchdog, ScanRunner& scan,
             MessageHandler& handler, Spawn spawn)
    : connection_(connection),
      capture_(capture),
      watchdog_(watchdog),
      scan_(scan),
      handler_(handler),
      spawn_(std::move(spawn)) {}

void Spill::begin() {
  capture_.set_spilling(true);
  watchdog_.set_spilling(true);
  parsed_ = capture_.size();
  // The coroutine has not called end() after an exception. In other cases a new spill may have begun already.
  spawn_(read_back(), [this] {
    if (connection_.ending()) end();
  });
}

void Spill::end() {
  capture_.set_spilling(false);
  watchdog_.set_spilling(false);
}

std::span<std::byte> Spill::room() {
  if (!slab_ || slab_used_ == slab_->size()) {
    slab_ = std::make_shared<std::vector<std::byte>>(kSlabBytes);
    slab_used_ = 0;
  }
  return std::span(*slab_).subspan(slab_used_);
}

protocol::Payload Spill::commit(std::size_t n) {
  bytes_ += n;
  watchdog_.spilled(n);
  const std::span<const std::byte> bytes = std::span(*slab_).subspan(slab_used_, n);
  slab_used_ += n;
  return {slab_, bytes};
}

// Ends when the pipeline has got all that was spilled and has room for more.
asio::awaitable<void> Spill::read_back() {
  if (handler_.scan_waits()) {
    co_await handler_.run_waiting_scan();
    connection_.notify();                                    // the reader may have been held back
    if (!connection_.ending()) co_await handler_.consume();  // what has come with the header
  }
  while (!connection_.ending()) {
    if (scan_.input_full()) {
      co_await connection_.wait();
      continue;
    }
    if (parsed_ == capture_.size()) break;
    capture_.fetch(parsed_, handler_.room());
    std::optional<protocol::Result<std::size_t>> fetched;
    while (!(fetched = capture_.fetched())) co_await connection_.wait();
    if (!*fetched) {
      connection_.fail(fetched->error());
      break;
    }
    parsed_ += **fetched;
    handler_.commit(**fetched);
    if (!connection_.ending()) co_await handler_.consume();
  }
  end();
  connection_.notify();
}

}  // namespace echotrain::server
