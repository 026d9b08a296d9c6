// The frame rule of sliding windows: each position of a window is a frame.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "gadgets/engine/readout_window.h"

namespace echotrain {

/// Windows of a fixed number of readouts that move on by a stride. Readouts that differ in a counter other than the
/// repetition have separate windows. Throws ClientError when OpenFrames::kMost are open, ResourceError when the
/// session's memory is exhausted.
class WindowFrames {
 public:
  using EmitReadouts = std::function<void(Readouts&&)>;

  WindowFrames(std::int64_t readouts, std::int64_t stride) : readouts_(readouts), stride_(stride) {}

  /// Gives the window's next frame when its last readout has come; if the scan's windows move, gives the readouts that
  /// entered before it once all but that last one have come. `taken`: the time at which the pipeline took the readout;
  /// `behind`: number of later readouts that wait, if frames may be left out; `next_id` counts the scan's frames.
  void push(Scan& scan, const protocol::Acquisition& acquisition, Instant taken, std::optional<std::int64_t> behind,
            std::uint64_t& next_id, const EmitReadouts& emit);

  /// The readouts that came after their window's last frame, and the number of such windows.
  struct LeftOver {
    std::size_t windows = 0;
    std::int64_t readouts = 0;
  };
  /// Forgets all windows.
  LeftOver finish();

 private:
  struct Window {
    ReadoutWindow readouts;
    std::uint64_t number = 0;      // counted from 1
    std::int64_t until_next = 0;   // readouts to wait before the next frame is complete
    std::int64_t pending = 0;      // readouts since the last frame
    std::int64_t left = 0;         // readouts that have left
    std::int64_t ungiven = 0;      // readouts not yet handed on, where a window moves
    bool left_out = false;         // its next frame is left out: a later one has come, too
    std::shared_ptr<Frame> frame;  // the frame being handed on
  };

  void leave_out(Scan& scan, Window& window, std::uint64_t& next_id) const;
  std::shared_ptr<Frame> next_of(const FrameKey& key, Window& window, std::uint64_t& next_id) const;

  std::int64_t readouts_, stride_;
  std::map<FrameKey, Window> windows_;
};

}  // namespace echotrain
