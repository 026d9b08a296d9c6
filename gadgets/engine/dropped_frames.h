// Dropped frames: left out because newer ones wait already (`frame: {..., when_behind: drop_oldest}`).
#pragma once

#include <string>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"

namespace echotrain {

/// Counts a dropped frame, never silently: one warning a scan, ScanNumbers::frames_dropped, and a note in the images
/// that follow.
inline void drop_frame(Scan& scan) {
  ++scan.numbers.frames_dropped;
  scan.warn(
      "computing does not follow the scan: frames are left out, the oldest that wait first (when_behind: drop_oldest); "
      "images say in echotrain_frames_dropped how many were before them");
}

/// Notes the number of earlier frames of the scan that were dropped.
inline void note_dropped(const Scan& scan, Frame& frame) {
  if (scan.numbers.frames_dropped > 0)
    frame.notes["echotrain_frames_dropped"] = std::to_string(scan.numbers.frames_dropped);
}

}  // namespace echotrain
