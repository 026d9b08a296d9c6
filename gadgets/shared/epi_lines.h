// EpiLines tells the gadgets of one scan whether EPI's readouts become Cartesian lines.
#pragma once

#include "gadgets/api/scan.h"

namespace echotrain {

/// A promise that a gadget of this scan makes ordinary Cartesian lines from EPI's readouts. That gadget gives it in its
/// start(); later gadgets, which take such lines only, ask for it in theirs.
class EpiLines {
 public:
  static void promise(Scan& scan) { scan.compute.cache<EpiLines>().scan_ = &scan; }
  static bool promised(Scan& scan) { return scan.compute.cache<EpiLines>().scan_ == &scan; }

 private:
  const Scan* scan_ = nullptr;  // a context may outlive a scan
};

}  // namespace echotrain
