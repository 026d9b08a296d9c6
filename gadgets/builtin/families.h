// The functions that add the families of gadgets, and their fusions, to a registry; one for each family, in a source of
// the family's name.
#pragma once

#include "gadgets/api/registry.h"

namespace echotrain {

void add_basics(Registry& to);
void add_cartesian(Registry& to);
void add_encoding(Registry& to);
void add_epi(Registry& to);
void add_field(Registry& to);
void add_gridding(Registry& to);
void add_images(Registry& to);
void add_least_squares(Registry& to);
void add_maps(Registry& to);
void add_nlinv(Registry& to);
void add_readouts(Registry& to);
void add_steps(Registry& to);
void add_trajectories(Registry& to);
void add_ultrasound(Registry& to);

}  // namespace echotrain
