// The options that limit the library's use of the machine, read from a file or the environment.
#pragma once

#include "config/resource_options.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain {

/// Converts options. Without a cache folder, that of the user who runs the program is taken. The budget stays at its
/// default.
numerics::ResourceOptions resource_options(const config::ResourceOptions& options);

/// The defaults, changed by ECHOTRAIN_* variables, for programs without an options file. Throws config::ConfigError,
/// naming the variable and the allowed values.
numerics::ResourceOptions resource_options_from_environment();

}  // namespace echotrain
