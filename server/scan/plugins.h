// A plugin brings gadgets from the operator's own shared objects (gadgets/api/plugin.h).
#pragma once

#include <string>
#include <vector>

#include "gadgets/api/registry.h"

namespace echotrain::server {

/// Adds the gadgets of every *.so in the folders, in name order. Returns a line per file ("FILE: a, b"). Throws
/// std::runtime_error that says which file and what to do when a folder cannot be read, or when a file is writable by
/// everybody, is no plugin, was compiled for another version, or has a gadget whose name is taken. Loaded files stay
/// loaded as long as the process.
std::vector<std::string> load_plugins(const std::vector<std::string>& folders, Registry& registry);

}  // namespace echotrain::server
