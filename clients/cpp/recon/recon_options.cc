#include "clients/cpp/recon/recon_options.h"

#include "clients/cpp/images/image_report.h"

namespace echotrain::client {

config::OptionTable<ReconOptions> recon_options() {
  using O = ReconOptions;
  using config::BackendChoice;
  return config::OptionTable<O>()
      .path("input", &O::input, "IN|-",
            "ISMRMRD file or raw data of a Siemens scanner, or - for a stream on stdin, answered by one on stdout")
      .positional()
      .required()
      .path("config", &O::config, "NAME|FILE.yaml",
            "pipeline: a shipped one's name, or a .yaml file (a stream may name its own)")
      .letter('c')
      .path("pipeline", &O::config, "NAME|FILE.yaml", "the same as --config")
      .path("output", &O::output, "OUT.h5", "file for the images")
      .letter('o')
      .choice_of<BackendChoice>(
          "backend", &O::backend,
          {{"auto", BackendChoice::automatic}, {"cpu", BackendChoice::cpu}, {"cuda", BackendChoice::cuda}},
          "where it runs (the pipeline's own choice goes first)")
      .folders("pipelines", &O::pipelines, "one more folder of pipelines")
      .path("assets", &O::assets, "DIR", "folder of files that pipelines may name: coil maps, references")
      .group("", &O::steps, config::step_option_table())
      .pair("save_after", &O::save_after, "GADGET FILE.h5", "write what a gadget gave to FILE.h5 as arrays")
      .text("group", &O::group, "group of the input file")
      .letter('g')
      .group("", &O::choice, measurement_options())
      .path("truth", &O::truth, "FILE", kTruthHelp)
      .alone("")
      .path("png", &O::png, "DIR", "folder for pictures of the images")
      .integer("batch", &O::batch, 1, 1000000, "readouts given to the pipeline at once")
      .flag("progress", &O::progress, "show progress on stderr (default: on a terminal)")
      .flag("no_progress", &O::no_progress, "show none");
}

}  // namespace echotrain::client
