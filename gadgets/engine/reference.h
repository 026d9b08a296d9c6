// Lists of pipelines and gadgets as text, for a terminal and for docs/gadgets.md.
#pragma once

#include <span>
#include <string>

#include "config/pipeline_spec.h"
#include "gadgets/api/registry.h"

namespace echotrain {

/// A line for each pipeline: name, description, aliases.
std::string list_pipelines(std::span<const config::PipelineSpec> pipelines);
/// A line for each gadget: name and summary.
std::string list_gadgets(const Registry& registry);

/// A pipeline's name, description and chain of gadgets. config::ConfigError when it does not fit together.
std::string explain_pipeline(const config::PipelineSpec& spec, const Registry& registry);

/// What a branch is, which stands in chains as gadgets do.
std::string explain_branches();

/// docs/gadgets.md: every gadget with what it takes and gives and a table of its parameters.
std::string gadgets_markdown(const Registry& registry);

}  // namespace echotrain
