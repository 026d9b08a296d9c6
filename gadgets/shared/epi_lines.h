// EpiLines tells the gadgets of one scan whether EPI's readouts become Cartesian lines.
#pragma once

#include "gadgets/api/scan.h"

namespace echotrain {

/// A promise that a gadget of this scan makes ordinary Cartesian lines from EPI's readouts. That gadget gives it in its
/// start(); later gadgets, which take such lines only, ask for it in theirs. A later gadget that makes lines by the
/// direction in which they were read says so in its start().
class EpiLines {
 public:
  static void promise(Scan& scan) {
    scan.compute.cache<EpiLines>().scan_ = &scan;
    scan.compute.cache<EpiLines>().directions_ = false;
  }
  static bool promised(Scan& scan) { return scan.compute.cache<EpiLines>().scan_ == &scan; }
  static void want_directions(Scan& scan) { scan.compute.cache<EpiLines>().directions_ = promised(scan); }
  static bool directions_wanted(Scan& scan) { return promised(scan) && scan.compute.cache<EpiLines>().directions_; }

 private:
  const Scan* scan_ = nullptr;  // a context may outlive a scan
  bool directions_ = false;
};

}  // namespace echotrain
