// DroppedSamples warns a scan's client of samples beyond the edge of k-space.
#pragma once

#include <cstdint>

#include "gadgets/api/gadget.h"
#include "gadgets/gridding/sample_space.h"

namespace echotrain {

class DroppedSamples {
 public:
  void start(Scan& scan) { scan_ = &scan; }
  /// Judges a frame's samples: throws ClientError when most are dropped, else calls warn(). largest: the largest
  /// component, in the data's unit.
  void judge(std::int64_t dropped, std::int64_t total, double largest, const SampleSpace& space);
  /// Warns once per scan, if any are dropped.
  void warn(std::int64_t dropped, std::int64_t total);

 private:
  Scan* scan_ = nullptr;
  bool warned_ = false;
};

}  // namespace echotrain
