// What a scan's client is told of samples that lie beyond the edge of k-space.
#pragma once

#include <cstdint>

#include "gadgets/api/gadget.h"
#include "gadgets/gridding/sample_space.h"

namespace echotrain {

class DroppedSamples {
 public:
  void start(Scan& scan) { scan_ = &scan; }
  /// Of a frame's samples. ClientError when most are dropped, else a warning. largest: component, in the data's
  /// numbers.
  void judge(std::int64_t dropped, std::int64_t total, double largest, const SampleSpace& space);
  /// Once a scan, if any are dropped.
  void warn(std::int64_t dropped, std::int64_t total);

 private:
  Scan* scan_ = nullptr;
  bool warned_ = false;
};

}  // namespace echotrain
