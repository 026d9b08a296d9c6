// This part writes the labels of OpenRecon containers.
#include "server/parts/parts.h"
#include "server/scan/openrecon_label.h"

namespace echotrain::server {

void add_openrecon(OptionalParts& to) { to.openrecon_label = openrecon_label; }

}  // namespace echotrain::server
