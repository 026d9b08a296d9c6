// The family gadgets/least_squares.
#include "gadgets/builtin/families.h"
#include "gadgets/least_squares/coil_maps_gadget.h"
#include "gadgets/least_squares/fhd.h"
#include "gadgets/least_squares/pcg_gadget.h"
#include "gadgets/least_squares/realtime/cg_sense_of_equations.h"
#include "gadgets/least_squares/realtime/cg_sense_realtime.h"
#include "gadgets/least_squares/realtime/cg_sense_sms.h"
#include "gadgets/least_squares/regularised.h"

namespace echotrain {

void add_least_squares(Registry& to) {
  to.add<Fhd>();
  to.add<CoilMapsFromData>();
  to.add<PcgSolver>();
  to.add<Regularised>();
  to.add<CgSenseRealtime>();
  to.add<CgSenseOfEquations>();
  to.add<CgSenseSms>();
}

}  // namespace echotrain
