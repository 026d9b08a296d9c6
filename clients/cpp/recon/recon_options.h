// The recon options are those of `echotrain recon` and `echotrain-ranks`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clients/cpp/base/progress.h"
#include "clients/cpp/base/scan_file.h"
#include "config/option.h"
#include "config/pipeline_spec.h"
#include "config/step_options.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain {
class Followers;
}

namespace echotrain::client {

struct ReconOptions : ProgressChoice {
  std::filesystem::path input, output;
  std::string config;  ///< a pipeline's name or file
  std::string group = "dataset";
  MeasurementChoice choice;
  config::BackendChoice backend = config::BackendChoice::automatic;
  std::vector<std::string> pipelines;                           ///< more folders of pipelines
  std::filesystem::path assets;                                 ///< folder of files that pipelines may name
  std::vector<std::pair<std::string, std::string>> save_after;  ///< gadget, file
  std::optional<std::string> truth;                             ///< file with an array `truth`; empty: the input
  std::filesystem::path png;                                    ///< empty: no pictures
  int batch = 64;                                               ///< readouts pushed at once
  Followers* followers = nullptr;                               ///< other ranks that share in the work
  config::StepOptions steps;                                    ///< programs that gadgets may run
  numerics::ResourceOptions resources;                          ///< how much of the machine it may use
};

config::OptionTable<ReconOptions> recon_options();

}  // namespace echotrain::client
