// This part loads gadgets from shared objects.
#include "server/scan/plugins.h"

#include "server/parts/parts.h"

namespace echotrain::server {

void add_plugins(OptionalParts& to) { to.load_plugins = load_plugins; }

}  // namespace echotrain::server
