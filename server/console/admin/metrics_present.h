// Some metrics are not counted but looked up, when somebody asks for them.
#pragma once

#include <string>

#include "server/session/environment.h"

namespace echotrain::server {

/// All metrics of a server in Prometheus' text format: the counters, and what is there at this moment.
std::string metrics_text(const Environment& environment);

}  // namespace echotrain::server
