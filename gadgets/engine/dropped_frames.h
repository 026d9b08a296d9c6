// Frames that are left out because newer ones wait already (`frame: {..., when_behind: drop_oldest}`).
#pragma once

#include <string>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"

namespace echotrain {

/// Never silent: one warning a scan, ScanNumbers::frames_dropped, and a note in the images that follow.
inline void drop_frame(Scan& scan) {
  ++scan.numbers.frames_dropped;
  scan.warn(
      "computing does not follow the scan: frames are left out, the oldest that wait first (when_behind: drop_oldest); "
      "images say in echotrain_frames_dropped how many were before them");
}

/// Notes how many frames of the scan were left out before this one.
inline void note_dropped(const Scan& scan, Frame& frame) {
  if (scan.numbers.frames_dropped > 0)
    frame.notes["echotrain_frames_dropped"] = std::to_string(scan.numbers.frames_dropped);
}

}  // namespace echotrain
