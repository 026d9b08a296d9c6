// The family gadgets/ultrasound.
#include "gadgets/builtin/families.h"
#include "gadgets/ultrasound/angle_compounding.h"
#include "gadgets/ultrasound/echo_spectrum.h"
#include "gadgets/ultrasound/echo_traces.h"
#include "gadgets/ultrasound/log_compression.h"
#include "gadgets/ultrasound/stolt_migration.h"

namespace echotrain {

void add_ultrasound(Registry& to) {
  to.add<EchoTraces>();
  to.add<EchoSpectrum>();
  to.add<StoltMigration>();
  to.add<AngleCompounding>();
  to.add<LogCompression>();
}

}  // namespace echotrain
