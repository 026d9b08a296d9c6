// The target reads what a client may send as a pipeline: YAML, the pipeline in it, and whether its gadgets fit
// together; or Gadgetron's XML.
#include "config/pipeline_spec.h"
#include "config/yaml_reader.h"
#include "gadgets/engine/gadgetron/gadgetron_pipeline.h"
#include "gadgets/engine/pipeline.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace echotrain;

// Reads every value in every way.
void visit(const config::Node& node, int depth) {
  fuzz::require(depth <= config::YamlLimits{}.depth + 1, "a tree is deeper than its limit");
  const auto attempt = [&](auto read) {
    try {
      read();
    } catch (const config::ConfigError& error) {
      fuzz::require(error.what()[0] != 0, "an error without a reason");
    }
  };
  static const std::vector<std::string> kWords = {"auto", "cpu", "cuda", "rss"};
  attempt([&] { (void)node.as_string(); });
  attempt([&] { (void)node.as_bool(); });
  attempt([&] { (void)node.as_int(-5, 1000); });
  attempt([&] { (void)node.as_double(0, 1e6); });
  attempt([&] { (void)node.as_choice(kWords); });
  attempt([&] { node.only(kWords); });
  if (node.kind() == config::Node::Kind::sequence)
    for (const auto& item : node.as_sequence()) visit(item, depth + 1);
  if (node.kind() == config::Node::Kind::map)
    for (const auto& entry : node.as_map()) visit(entry.value, depth + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::as_text(data, size);
  try {
    (void)config::read_client_config(text, "fuzz");
  } catch (const config::ConfigError& error) {
    fuzz::require(error.mark().file == "fuzz", "an error that does not say where");
  }
  try {
    visit(config::read_yaml(text, "fuzz"), 0);
    const auto plan = PipelinePlan::check(config::read_pipeline(text, "fuzz"));
    fuzz::require(!plan->describe().empty(), "a pipeline without gadgets");
  } catch (const config::ConfigError& error) {
    fuzz::require(error.mark().file == "fuzz", "an error that does not say where");
  }
  if (const auto made = from_gadgetron(text, "fuzz.xml")) {
    try {
      (void)PipelinePlan::check(config::read_pipeline(made->yaml, "made"));
    } catch (const config::ConfigError& error) {
      fuzz::require(error.mark().file == "made", "an error that does not say where");
    }
  }
  return 0;
}
