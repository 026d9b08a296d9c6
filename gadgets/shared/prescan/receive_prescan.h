// A ReceivePrescan is where the lines of a scan's prescan meet the gadget that wants them.
#pragma once

#include <memory>
#include <vector>

#include "gadgets/api/scan.h"
#include "gadgets/shared/prescan/prescan_lines.h"

namespace echotrain {

/// Kept by the scan's context (Context::cache). The framer empties it before gadgets start; a gadget asks for lines in
/// its start(), and they come with the data.
struct ReceivePrescan {
  std::shared_ptr<PrescanLines> lines;      ///< null: no gadget wants them
  std::vector<numerics::cfloat> whitening;  ///< [coil, coil], as readouts were whitened last; empty: they are not
  int coils = 0;                            ///< of `whitening`
  bool whitens = false;                     ///< a gadget of the chain whitens; later ones ask in their start()

  static ReceivePrescan& of(Scan& scan) { return scan.compute.cache<ReceivePrescan>(); }
};

}  // namespace echotrain
