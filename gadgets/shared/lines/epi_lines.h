// What gadgets of one scan know of each other about EPI.
#pragma once

#include "gadgets/api/scan.h"

namespace echotrain {

/// Whether a gadget of this scan makes ordinary Cartesian lines of EPI's readouts. That gadget promises it in its
/// start(); those after it, which take such lines only, ask in theirs.
class EpiLines {
 public:
  static void promise(Scan& scan) { scan.compute.cache<EpiLines>().scan_ = &scan; }
  static bool promised(Scan& scan) { return scan.compute.cache<EpiLines>().scan_ == &scan; }

 private:
  const Scan* scan_ = nullptr;  // a context may outlive a scan
};

}  // namespace echotrain
