// How programs say what the library may use of the machine.
#pragma once

#include "config/resource_options.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain {

/// Without a cache folder: that of the user who runs the program. The budget stays at its default.
numerics::ResourceOptions resource_options(const config::ResourceOptions& options);

/// The defaults, changed by ECHOTRAIN_* variables, for programs without an options file. config::ConfigError names the
/// variable and says what is allowed.
numerics::ResourceOptions resource_options_from_environment();

}  // namespace echotrain
