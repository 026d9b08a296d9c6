// A pipeline file is found by the name that a user gives on the command line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/pipeline_spec.h"

namespace echotrain::client {

/// Returns the folders of the shipped pipelines: $ECHOTRAIN_PIPELINES, share/echotrain/pipelines beside the program's
/// folder, or the source tree that the program was built from; the first that exists, or none.
std::vector<std::filesystem::path> shipped_pipelines();

/// True if `name` is a pipeline file on this machine: an existing file that ends in .yaml or .yml.
bool is_pipeline_file(const std::string& name);

/// Reads the pipeline file `name`, or finds the pipeline of that name in the shipped folders and then in `folders`.
/// Throws UsageError when there is none, config::ConfigError when it is wrong.
config::PipelineSpec find_pipeline(const std::string& name, const std::vector<std::string>& folders);

/// Returns the text of a pipeline file, or of NAME.yaml in the shipped folders. Throws UsageError when there is none.
std::string pipeline_text(const std::string& name);

}  // namespace echotrain::client
