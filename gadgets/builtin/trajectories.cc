// The family gadgets/trajectories.
#include "gadgets/builtin/families.h"
#include "gadgets/trajectories/trajectory_correction.h"

namespace echotrain {

void add_trajectories(Registry& to) { to.add<TrajectoryCorrection>(); }

}  // namespace echotrain
