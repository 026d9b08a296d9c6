// The name of the plugin ABI that this server was compiled with: it loads plugins of the same name only.
#pragma once

#include <string_view>

namespace echotrain::server {

/// Returns the name (see gadgets/api/plugin_abi.h). It changes with each line of the gadget API: its source includes
/// nothing else.
std::string_view plugin_abi();

}  // namespace echotrain::server
