#include "clients/cpp/recon/convert_config.h"

#include <fmt/format.h>

#include <fstream>
#include <ostream>
#include <stdexcept>

#include "config/yaml_reader.h"
#include "gadgets/engine/gadgetron/gadgetron_pipeline.h"
#include "gadgets/engine/pipeline.h"

namespace echotrain::client {

config::OptionTable<ConvertConfigOptions> convert_config_options() {
  using O = ConvertConfigOptions;
  return config::OptionTable<O>()
      .path("input", &O::input, "IN.xml", "Gadgetron configuration")
      .positional()
      .required()
      .path("output", &O::output, "OUT.yaml", "pipeline file to write; - is stdout")
      .positional();
}

int convert_config(const ConvertConfigOptions& options, std::ostream& out, std::ostream& err) {
  const std::string xml = config::read_text_file(options.input, kMostGadgetronBytes);
  const auto made = from_gadgetron(xml, options.input.filename().string());
  if (!made) throw std::runtime_error(fmt::format("{}: {}", options.input.string(), made.error().message));
  if (options.output == "-") {
    out << made->yaml;
  } else if (std::ofstream file(options.output, std::ios::binary); !(file << made->yaml).flush()) {
    throw std::runtime_error(fmt::format("{}: cannot be written", options.output.string()));
  }
  for (const std::string& each : made->missing) err << fmt::format("warning: missing: {}\n", each);
  for (const std::string& each : made->left_out) err << fmt::format("left out: {}\n", each);
  if (made->properties > 0)
    err << fmt::format("left out: {} properties, which the file's comments name\n", made->properties);
  try {
    PipelinePlan::check(config::read_pipeline(made->yaml, options.output.string()), Registry::builtin());
  } catch (const config::ConfigError& error) {
    err << fmt::format("the pipeline needs changes: {}\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace echotrain::client
