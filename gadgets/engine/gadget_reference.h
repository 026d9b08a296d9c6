// The reference of pipelines and gadgets as text, for a terminal and for docs/gadgets.md.
#pragma once

#include <span>
#include <string>

#include "config/pipeline_spec.h"
#include "gadgets/api/registry.h"

namespace echotrain {

/// Lists pipelines, one per line: name, description, aliases.
std::string list_pipelines(std::span<const config::PipelineSpec> pipelines);
/// Lists gadgets, one per line: name and summary.
std::string list_gadgets(const Registry& registry);

/// Explains a pipeline: name, description and chain of gadgets. Throws config::ConfigError when it does not fit
/// together.
std::string explain_pipeline(const config::PipelineSpec& spec, const Registry& registry);

/// Explains branches, which stand in chains as gadgets do.
std::string explain_branches();

/// Writes docs/gadgets.md: every gadget with its input, its output and a table of its parameters.
std::string gadgets_markdown(const Registry& registry);

}  // namespace echotrain
