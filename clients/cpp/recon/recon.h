// `echotrain recon`: a pipeline in this process, without a server.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/resources.h"

namespace echotrain {
class Followers;
}

namespace echotrain::client {

struct ReconOptions {
  std::filesystem::path input, output;
  std::string config;  ///< a pipeline's name or file
  std::string group = "dataset";
  std::string backend = "auto";
  std::vector<std::string> pipelines;                           ///< more folders of pipelines
  std::filesystem::path assets;                                 ///< folder of files that pipelines may name
  std::vector<std::pair<std::string, std::string>> save_after;  ///< gadget, file
  std::optional<std::string> truth;                             ///< file with an array `truth`; empty: the input
  std::filesystem::path png;                                    ///< empty: no pictures
  int batch = 64;                                               ///< readouts pushed at once
  Followers* followers = nullptr;                               ///< other ranks that share in the work
  numerics::ResourceOptions resources;                          ///< how much of the machine it may use
};

/// Reconstructs the scan and writes its images. The pipeline's lines go to `err`, the summary to `out`. On a failure,
/// keeps the images finished before it and throws.
void recon(const ReconOptions& options, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
