// The outbox holds what a session is about to send: whole messages in order, bounded in bytes (back-pressure).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/data/messages.h"
#include "protocol/data/result.h"
#include "protocol/wire/codec.h"
#include "server/base/queue_memory.h"
#include "server/metrics/latency.h"

namespace echotrain::server {

/// One encoded message: its bytes up to the pixels, and the pixels where they lie.
struct Outgoing {
  protocol::Buffer head;
  protocol::Payload pixels;
  ImageTimes times;               // of an image
  Instant written{};              // its last byte was given to the kernel; see note_written()
  std::shared_ptr<void> holds{};  // goes with it
  bool last_words = false;        // fatal() or close()
  std::size_t bytes() const { return head.size() + pixels.bytes.size(); }
  /// Memory that the message takes in the queue: the pixels, and two blocks of the heap (the head, and the queue's node
  /// with its two links), with what the allocator adds to each.
  std::size_t held_bytes() const {
    constexpr std::size_t kLinks = 2 * sizeof(void*), kOfAllocator = 2 * 24;
    return sizeof(Outgoing) + kLinks + kOfAllocator + head.capacity() + pixels.bytes.size();
  }
  bool is_control() const { return pixels.bytes.empty(); }  ///< no image
};

/// Notes that `bytes` of these messages have been given to the kernel: stamps those that are whole now.
void note_written(std::vector<Outgoing>& messages, std::size_t bytes);

/// The queue that any thread fills and the session's writer empties. Adding never blocks: a thread that makes images
/// calls wait_for_room() before it makes more. Bytes are those of Outgoing::held_bytes().
class Outbox {
 public:
  /// `wake` is called, on the adding thread, when the writer may have something to do.
  Outbox(std::size_t bound_bytes, std::function<void()> wake, std::shared_ptr<QueueMemory> memory = nullptr)
      : memory_(std::move(memory)), share_(memory_), bound_(bound_bytes), wake_(std::move(wake)) {}

  /// Adds the latency of an image to its meta attributes, unless the client sent the image.
  void image(protocol::Image&& image, const ImageTimes& times = {});
  /// `holds` is given back when the answer has been sent, or is dropped.
  void response(const protocol::Response& response, std::shared_ptr<void> holds = nullptr);
  /// Adds a line for the client; after kMostTexts of them one says that the rest is only in the log. Returns false if
  /// this one is not sent.
  bool text(protocol::Level level, std::string_view text);
  /// Adds the reason why the session ends; always sent.
  void fatal(const protocol::Error& error);
  /// Adds whole messages as they are.
  void relay(protocol::Buffer&& messages, std::uint64_t images);
  /// True while less than the bound is queued.
  bool has_room() const;
  /// Adds the last message: CLOSE. Nothing is accepted after it.
  void close();
  /// The peer is gone: drops everything that is here and everything to come. Returns what is to be freed, which takes
  /// long where it is many small things.
  std::shared_ptr<void> discard();
  /// Others want the memory: does the same with all but fatal(), close() and what take() has given. What is returned
  /// counts until it is freed.
  std::shared_ptr<void> drop_all_but_last_words() noexcept;
  /// Messages that were dropped by that.
  std::size_t dropped() const;

  /// Blocks while the queue is at its bound, until there is room, `cancelled` is set (then call kick()) or discard().
  void wait_for_room(const std::atomic<bool>& cancelled);
  void kick();
  /// True if the queue is far over its bound: the session then takes nothing that causes messages (queries, say).
  bool flooded() const;
  /// Returns the held bytes of unsent answers and other messages that are no images.
  std::size_t control_bytes() const;

  /// For the writer: moves up to `most` messages to `out`, no more once these have `bytes`. They count as queued until
  /// sent().
  void take(std::vector<Outgoing>& out, std::size_t most, std::size_t bytes = SIZE_MAX);
  void sent(std::vector<Outgoing>& messages);
  /// True if nothing is queued and nothing can come.
  bool finished() const;

  std::uint64_t images() const;
  std::vector<ImageLatency> latencies() const;  ///< of images that were sent, the first kMostLatencies of them
  std::uint64_t bytes_sent() const;

  static constexpr int kMostTexts = 100;
  static constexpr std::size_t kMostLatencies = 1 << 16;

 private:
  void add(Outgoing&& message, std::uint64_t images = 0);
  void count(std::size_t bytes);

  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::list<Outgoing> queue_;  // whose blocks are as large as held_bytes() says
  std::size_t queued_bytes_ = 0;
  std::size_t taken_bytes_ = 0, control_bytes_ = 0;  // of them
  const std::shared_ptr<QueueMemory> memory_;        // null: nobody counts
  QueueMemory::Share share_;                         // of queued_bytes_
  const std::size_t bound_;
  int texts_ = 0;
  bool ended_ = false;
  bool drops_ = false;  // all but the last words
  std::size_t dropped_ = 0;
  std::uint64_t images_ = 0;
  std::vector<ImageLatency> latencies_;
  std::optional<float> last_send_ms_;
  std::uint64_t bytes_sent_ = 0;
  const std::function<void()> wake_;
};

}  // namespace echotrain::server
