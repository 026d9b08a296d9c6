// The inbox holds what a session has received and its worker has not yet seen, bounded in bytes (back-pressure).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "gadgets/api/scan.h"
#include "protocol/data/messages.h"
#include "server/base/queue_memory.h"

namespace echotrain::server {

/// Data in order of arrival. Neighbouring acquisitions travel together.
using Work = std::variant<std::vector<protocol::Acquisition>, protocol::Image, protocol::Waveform>;

/// Memory that a piece of work keeps alive besides its own object [bytes].
std::size_t bytes_of(const Work& work);
/// Bytes of samples and pixels, which stay in the memory that they were received in. All else, such as heads, is a
/// copy.
std::size_t payload_bytes_of(const Work& work);

/// The queue that the session's reader fills and its worker empties. Adding never blocks: the reader stops reading
/// while full().
class Inbox {
 public:
  /// `room` is called, on the worker's thread, when the queue stops being full.
  Inbox(std::size_t bound_bytes, std::function<void()> room, std::shared_ptr<QueueMemory> memory = nullptr)
      : memory_(std::move(memory)),
        share_(memory_, QueueMemory::Kind::input),
        bound_(bound_bytes),
        room_(std::move(room)) {}

  void push(Work&& work);
  /// Says that nothing more will come.
  void finish(End how);
  /// Tells the worker to stop: it gets nothing more of what is queued.
  void cancel() noexcept;
  /// Cancels, and returns what was queued, which counts until it is freed: that takes long where it is many small
  /// things. Null when nothing was.
  std::shared_ptr<void> hand_over() noexcept;
  /// While the worker waits for work and there is none, keeps it waiting, whatever comes, until resume() or cancel().
  /// False, and nothing changes, when the worker has something to do.
  bool pause();
  void resume();
  /// True if the queue has reached its bound. A message of any size is taken before that, so the bound may be exceeded.
  bool full() const;
  /// Asks for one call of `room` when nothing is queued or in the worker's hands any more, for sessions whose memory
  /// others wait for. Returns false, and asks for nothing, when that is so already.
  bool notify_when_empty();

  /// True if kCacheBytes or more are queued: these leave the processor's caches before the worker comes to them, which
  /// costs both sides more than a short wait. If true, `room` is called when no more than half of kCacheBytes is left.
  bool exceeds_cache();

  std::size_t bytes() const;          ///< queued and in the worker's hands, with the queue's nodes
  std::size_t payload_bytes() const;  ///< of these: see payload_bytes_of()
  std::int64_t waiting() const;       ///< acquisitions that are queued

  struct Taken {
    std::optional<Work> work;  ///< empty when there is none left
    std::optional<End> end;    ///< set, with no work, when all is done; neither is set after cancel()
  };
  /// The way in which take() waits. For the time `soon` it expects work at any moment, and spins for it if `spins`. If
  /// none has come by then, it calls long_wait(true), sleeps until there is work, and calls long_wait(false).
  struct Waiting {
    std::chrono::steady_clock::duration soon{0};
    bool spins = false;
    std::function<void(bool)> long_wait{};
  };
  /// Waits for work. Acquisitions that have piled up come as one batch of up to kBatchBytes, or one that is larger than
  /// that alone; no more are added to one that has kBatchReadouts. The work taken before counts as done.
  Taken take(const Waiting& waiting);
  Taken take() { return take({}); }

  static constexpr std::size_t kBatchBytes = 4 << 20, kCacheBytes = 2 << 20;
  static constexpr std::size_t kBatchReadouts = 256;

 private:
  void spin(std::chrono::steady_clock::duration time) const;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::atomic<bool> something_ = false;  // there is probably something to take; for threads that spin
  struct Entry {
    Work work;
    std::size_t bytes, payload;
  };
  std::list<Entry> queue_;                       // a block of the heap for each
  std::size_t bytes_ = 0;                        // queued and in the worker's hands
  std::size_t taken_bytes_ = 0;                  // in the worker's hands
  std::size_t payload_ = 0, taken_payload_ = 0;  // of these
  std::int64_t readouts_ = 0;                    // acquisitions in the queue
  const std::shared_ptr<QueueMemory> memory_;    // null: nobody counts
  QueueMemory::Share share_;                     // of bytes_
  const std::size_t bound_;
  bool told_exceeds_cache_ = false;
  bool notify_when_empty_ = false;  // the call of that name asked for it
  std::optional<End> end_;
  bool cancelled_ = false;
  bool waiting_ = false;  // the worker, in take()
  bool paused_ = false;
  const std::function<void()> room_;
};

}  // namespace echotrain::server
