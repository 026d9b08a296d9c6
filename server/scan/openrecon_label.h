// The OpenRecon label tells the container host of Siemens scanners what a container takes and offers.
#pragma once

#include <string>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/registry.h"

namespace echotrain::server {

/// Returns the label's JSON, of the form of the public OpenReconSchema_1.1.0.json (neurodesk/neurocontainers): the
/// first pipeline is the one that runs unless another one is chosen at the scanner; the parameters are `config`, which
/// chooses, and all that the pipelines expose. Ranges, values and defaults are those that the server checks. Throws
/// ConfigError for what the schema cannot say: more than 14 parameters, numbers that are no multiples of 0.1 or beyond
/// 32 bits, pipelines of readouts and of images together. Precondition: at least one pipeline.
std::string openrecon_label(const std::vector<const config::PipelineSpec*>& pipelines, const Registry& registry);

}  // namespace echotrain::server
