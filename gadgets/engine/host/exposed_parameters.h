// Exposed parameters: those that a pipeline offers to the host, with their gadgets' declarations.
#pragma once

#include <string>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/registry.h"

namespace echotrain {

/// An entry of a pipeline's key `expose`, as it is offered to the host.
struct ExposedParameter {
  config::ExposedSpec spec;
  /// Name ("denoise.strength"), kind, bounds, unit: the gadget's, narrowed to the entry's range or values (which make
  /// it a choice). `fallback` is the value when the host sends none.
  config::OptionInfo info;

  /// Reads the host's value in the form that the gadget takes. Throws ConfigError without a place when it is not
  /// allowed.
  config::Node read(const std::string& text) const;
};

/// Returns all of a pipeline's exposed parameters. Throws ConfigError with file:line:column for a parameter that the
/// gadget does not have, for a range or values beyond the gadget's, and for a default that is not among them.
std::vector<ExposedParameter> exposed_of(const config::PipelineSpec& spec, const Registry& registry);

}  // namespace echotrain
