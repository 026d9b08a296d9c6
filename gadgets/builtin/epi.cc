// The family gadgets/epi.
#include "gadgets/builtin/families.h"
#include "gadgets/epi/epi_phase_correction.h"
#include "gadgets/epi/ramp_regrid.h"
#include "gadgets/epi/slice_grappa_gadget.h"

namespace echotrain {

void add_epi(Registry& to) {
  to.add<RampRegrid>();
  to.add<EpiPhaseCorrection>();
  to.add<SliceGrappa>();
}

}  // namespace echotrain
