// The message buffer cuts a stream of bytes into whole messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/data/limits.h"
#include "protocol/data/messages.h"
#include "protocol/data/result.h"
#include "protocol/wire/slab_pool.h"

namespace echotrain::protocol {

/// Collects bytes as they come and hands out whole messages. The buffer grows as bytes arrive, never by a claimed
/// length; messages refer into its slabs and keep them alive, but no image one that is far larger than a usual slab and
/// than its message. Slabs without references are used again, so a steady stream allocates nothing per readout. Used by
/// the socket reader and by stream files alike. Messages may be released on any thread; the buffer itself belongs to
/// one.
class MessageBuffer {
 public:
  /// Makes a buffer with slabs of its own.
  explicit MessageBuffer(const Limits& limits, std::size_t slab_bytes = SlabPool::kSlabBytes);
  /// Makes a buffer with slabs that others share: it finds warm ones that earlier buffers have left.
  MessageBuffer(const Limits& limits, std::shared_ptr<SlabPool> pool);

  /// Returns room to write incoming bytes to: never empty.
  std::span<std::byte> prepare();
  /// Tells the buffer that `n` bytes of prepare()'s room were filled.
  void commit(std::size_t n);
  /// Returns the last `n` committed bytes, not copied. Call it before any other member.
  Payload received(std::size_t n) const;
  /// Returns the next whole message, nothing if more bytes are needed, or why the stream cannot go on (also on later
  /// calls).
  Result<std::optional<Message>> next();
  /// A message as it came.
  struct Raw {
    std::uint16_t id = 0;
    Payload bytes;  ///< with its id
  };
  /// Does the same as next() without decoding.
  Result<std::optional<Raw>> next_raw();
  /// Takes the next message if it is a whole readout, and puts it into `to`, a new one, without moving it about. False:
  /// nothing is taken, and next() tells what comes.
  Result<bool> next_readout(Acquisition& to);
  /// Returns the id of the partly received message (0 at a message boundary or while its id is incomplete).
  std::uint16_t pending_id() const;
  /// Returns the pending bytes from `begin` on, `most` at most, as text. Valid until the next call of another member.
  std::string_view pending_text(std::size_t begin, std::size_t most) const;
  /// Holds messages to these limits from now on.
  void bound(const Limits& limits) { limits_ = limits; }
  /// Returns the bytes of the partly received message (0 at a message boundary).
  std::size_t pending_bytes() const;
  /// Returns the memory of this buffer's slabs: of that in use, and of those that messages keep.
  std::size_t held_bytes();

 private:
  MessageBuffer(const Limits& limits, std::size_t slab_bytes, std::shared_ptr<SlabPool> pool);
  std::span<const std::byte> pending() const;
  void change_slab(std::size_t bytes);  // takes the partial message along
  const std::shared_ptr<const void>& owner();

  Limits limits_;
  std::size_t slab_bytes_;
  std::shared_ptr<SlabPool> pool_;
  std::shared_ptr<Slab> slab_;
  std::shared_ptr<const void> owner_;            // of messages that come now; see owner()
  std::vector<std::weak_ptr<const Slab>> held_;  // slab_ and those before it that may still be in use
  std::size_t begin_ = 0;                        // first byte not yet handed out
  std::size_t end_ = 0;                          // one past the last received byte
  std::uint64_t needed_ = 0;                     // bytes that next() needs to continue, as far as known
};

}  // namespace echotrain::protocol
