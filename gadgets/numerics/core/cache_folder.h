// Where results that are worth keeping between runs lie.
#pragma once

#include <string>

namespace echotrain::numerics {

/// $ECHOTRAIN_CACHE_DIR, else $XDG_CACHE_HOME/echotrain, else ~/.cache/echotrain; empty when none of these is set.
std::string cache_folder();

}  // namespace echotrain::numerics
