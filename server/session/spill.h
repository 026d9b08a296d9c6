// The spill keeps input in the raw capture until the pipeline has room for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>  // the Asio headers below use std::exchange without including it
#include <vector>

#include "protocol/data/messages.h"
#include "server/base/signal.h"
#include "server/session/connection.h"
#include "server/session/message_handler.h"
#include "server/session/scan_runner.h"
#include "server/session/session_capture.h"
#include "server/session/watchdog.h"

namespace echotrain::server {

/// Lets a scanner that is faster than the pipeline send on, without back-pressure: while the input queue is full, or
/// the scan waits for its place, the Reader gives what comes to the raw capture only. A coroutine of the Spill reads it
/// back from there when the pipeline has room. For the session's strand.
class Spill {
 public:
  /// Starts a coroutine of the session's; `ended` is called at its end, also after an exception.
  using Spawn = std::function<void(asio::awaitable<void> coroutine, std::function<void()> ended)>;
  /// The first five outlive this.
  Spill(Connection& connection, SessionCapture& capture, Watchdog& watchdog, ScanRunner& scan, MessageHandler& handler,
        Spawn spawn);

  bool active() const { return capture_.spilling(); }
  /// Begins to spill. Precondition: SessionCapture::can_spill().
  void begin();

  /// Returns room for bytes of the client that bypass the message handler, which is the reading-back coroutine's.
  std::span<std::byte> room();
  /// Notes that `n` bytes of room() have been filled, and returns them where they lie.
  protocol::Payload commit(std::size_t n);
  /// Frees room(), which is not needed for the moment.
  void free_room() { slab_.reset(); }

  std::uint64_t bytes() const { return bytes_; }                       ///< all that was spilled
  std::uint64_t backlog() const { return capture_.size() - parsed_; }  ///< bytes that wait now

 private:
  asio::awaitable<void> read_back();
  void end();

  Connection& connection_;
  SessionCapture& capture_;
  Watchdog& watchdog_;
  ScanRunner& scan_;
  MessageHandler& handler_;
  const Spawn spawn_;
  std::uint64_t parsed_ = 0;                      // bytes of the capture that the handler has got
  std::shared_ptr<std::vector<std::byte>> slab_;  // of what is being spilled
  std::size_t slab_used_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace echotrain::server
