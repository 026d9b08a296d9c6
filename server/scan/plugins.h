// Gadgets from shared objects of the operator's own (gadgets/api/plugin.h).
#pragma once

#include <string>
#include <vector>

#include "gadgets/api/registry.h"

namespace echotrain::server {

/// Adds the gadgets of every *.so in the folders, by name, and says for each which they are ("FILE: a, b"). Throws
/// std::runtime_error that says which file and what to do for a folder that cannot be read, a file that everybody may
/// change, that is no plugin, was compiled for another version, or has a gadget whose name is taken. What was loaded
/// stays loaded as long as the process.
std::vector<std::string> load_plugins(const std::vector<std::string>& folders, Registry& registry);

}  // namespace echotrain::server
