// Parameters that a pipeline exposes to the host, with what their gadgets declare about them.
#pragma once

#include <string>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/registry.h"

namespace echotrain {

/// An entry of a pipeline's key `expose`, as it is offered to the host.
struct Exposed {
  config::ExposedSpec spec;
  /// Name ("denoise.strength"), kind, bounds, unit: the gadget's, narrowed to the entry's range or values (which make
  /// it a choice). `fallback` is what runs where the host sends nothing.
  config::OptionInfo info;

  /// What the host has sent, as the gadget takes it. ConfigError without a place when it is not allowed.
  config::Node read(const std::string& text) const;
};

/// All of a pipeline. ConfigError with file:line:column for a parameter that the gadget does not have, for a range or
/// values beyond what it takes, and for a default that is not among them.
std::vector<Exposed> exposed_of(const config::PipelineSpec& spec, const Registry& registry);

}  // namespace echotrain
