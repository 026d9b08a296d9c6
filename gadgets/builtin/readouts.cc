// The family gadgets/readouts.
#include "gadgets/builtin/families.h"
#include "gadgets/readouts/cardiac_binning.h"
#include "gadgets/readouts/channels.h"
#include "gadgets/readouts/coil_compression.h"
#include "gadgets/readouts/external_calibration.h"
#include "gadgets/readouts/k0_navigator.h"
#include "gadgets/readouts/partition_fft.h"
#include "gadgets/readouts/passthrough.h"
#include "gadgets/readouts/radial_trajectory.h"

namespace echotrain {

void add_readouts(Registry& to) {
  to.add<ExternalCalibration>();
  to.add<Channels>();
  to.add<CoilCompression>();
  to.add<K0Navigator>();
  to.add<CardiacBinning>();
  to.add<RadialTrajectory>();
  to.add<RadialTrajectoryOfPlanes>();
  to.add<PartitionFft>();
  to.add<Passthrough>();
}

}  // namespace echotrain
