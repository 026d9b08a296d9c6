// The present metrics are looked up for each request (memory, places, queues), not counted.
#pragma once

#include <string>

#include "server/session/environment.h"

namespace echotrain::server {

/// All metrics of a server in Prometheus' text format: the counters, and what is there at this moment.
std::string metrics_text(const Environment& environment);

}  // namespace echotrain::server
