// The family gadgets/epi.
#include "gadgets/builtin/families.h"
#include "gadgets/epi/epi_phase_correction.h"
#include "gadgets/epi/ramp_regrid.h"

namespace echotrain {

void add_epi(Registry& to) {
  to.add<RampRegrid>();
  to.add<EpiPhaseCorrection>();
}

}  // namespace echotrain
