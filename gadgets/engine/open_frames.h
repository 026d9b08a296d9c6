// OpenFrames holds the frames that are being filled.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "gadgets/engine/line_set.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/shared/lattice_count.h"

namespace echotrain {

/// A bit of AcquisitionHeader::flags (ISMRMRD: value v means bit v-1).
constexpr std::uint64_t flag_bit(int value) { return 1ull << (value - 1); }

struct OpenFrame {
  OpenFrame(LineSet&& empty, const FrameKey& found_by) : key(found_by), lines(std::move(empty)) {}
  const FrameKey key;  // the key under which it is found
  std::shared_ptr<Frame> frame;
  std::vector<protocol::Acquisition> waiting;  // readouts of the batch being pushed that are not yet handed on
  bool started = false;                        // a first batch has been handed on
  // The members below serve frames that end by their counters.
  LineSet lines;                        // lines that have arrived
  std::size_t announced = 0;            // number of them that the header counts
  std::optional<LatticeCount> lattice;  // their lattice, if the header announces undersampling
  bool last_seen = false;               // a last-in flag has come
};

/// Throws ClientError, with advice, when `open` frames are as many as may be open at a time.
void refuse_more_frames(std::size_t open);

/// The frames that have begun and not ended, found by their keys. Frame rules decide when a frame ends. A readout costs
/// the same for any number of open frames. Their memory counts towards the session's budget, with a fixed amount for
/// what gadgets note of each; throws ResourceError when it is exhausted.
class OpenFrames {
 public:
  static constexpr std::size_t kMost = 16384;           ///< the most frames open at a time
  using Numbered = std::pair<std::uint64_t, FrameKey>;  ///< with the frame's id first, which counts in order of opening
  using EmitReadouts = std::function<void(Readouts&&)>;

  void start(Scan& scan);
  /// Notes that the pipeline took a batch at `taken`.
  void batch_begins(Instant taken) { taken_ = taken; }

  /// The frame of this key; if there is none yet, it begins with a readout whose head is `head`. Throws ClientError
  /// when kMost are open.
  OpenFrame& open(const FrameKey& key, const protocol::AcquisitionHeader& head);
  /// The open frame of this key, or nullptr.
  const OpenFrame* find(const FrameKey& key) { return look_up(key); }
  /// Adds one readout to `frame`.
  void add(OpenFrame& frame, protocol::Acquisition&& acquisition);
  /// Ends the frame, which must be open, and hands on its remaining readouts.
  void close(const FrameKey& key, const EmitReadouts& emit);
  std::size_t waiting_bytes() const { return waiting_bytes_; }  ///< samples of readouts that wait in any frame
  /// Hands on the waiting readouts of all frames.
  void flush_all(const EmitReadouts& emit);

  const std::map<FrameKey, OpenFrame>& all() const { return open_; }
  std::vector<FrameKey> keys() const;  ///< in the order in which they were opened
  /// Open frames of an encoding space and repetition, in the order in which they were opened.
  std::vector<FrameKey> keys_of(std::uint16_t encoding, std::uint16_t repetition) const;
  /// Open frames of an encoding space whose repetition is one of the 32767 before `repetition`, which may wrap, in any
  /// order.
  std::vector<Numbered> before(std::uint16_t encoding, std::uint16_t repetition) const;
  void clear();
  std::uint64_t& next_id() { return next_id_; }
  std::uint64_t begun() const { return next_id_; }  ///< number of frames numbered so far

 private:
  using Order = std::tuple<std::uint16_t, std::uint16_t, std::uint64_t>;  // encoding, repetition, the frame's id

  void flush(OpenFrame& frame, bool last, const EmitReadouts& emit);
  OpenFrame* look_up(const FrameKey& key);
  LineSet no_lines();
  static Order order_of(const OpenFrame& frame);

  Scan* scan_ = nullptr;
  std::map<FrameKey, OpenFrame> open_;
  OpenFrame* found_ = nullptr;                // the one found last, while it is open
  std::map<Order, FrameKey> ordered_;         // keys of all open frames
  std::set<FrameKey> waiting_;                // frames with waiting readouts
  std::size_t waiting_bytes_ = 0;             // bytes of their samples
  std::vector<protocol::Acquisition> spare_;  // empty; its memory is for readouts that wait
  std::optional<LineSet> spare_lines_;        // empty; its memory is for the next frame
  Instant taken_{};                           // time at which the pushed batch was taken
  std::uint64_t next_id_ = 0;
};

}  // namespace echotrain
