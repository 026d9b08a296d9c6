// Lists and explanations of all pipelines and gadgets, and the page that is written from them.
#include "gadgets/engine/gadget_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "config/yaml_reader.h"
#include "tests/support/sources.h"

namespace echotrain {
namespace {

using ::testing::HasSubstr;

std::vector<config::PipelineSpec> shipped() { return config::PipelineLibrary({shipped_pipelines()}).all(); }

TEST(ReferenceTest, ThePageOfAllGadgetsIsUpToDate) {
  const std::string page = config::read_text_file(source_path("docs/gadgets.md"), 1 << 20);
  EXPECT_EQ(page, gadgets_markdown(Registry::builtin())) << "`./run docs` writes it anew";
}

TEST(ReferenceTest, ThePageHasEveryParameter) {
  const Registry& registry = Registry::builtin();
  const std::string page = gadgets_markdown(registry);
  for (const std::string& name : registry.names()) {
    EXPECT_THAT(page, HasSubstr("\n## " + name + "\n"));
    for (const ParameterInfo& parameter : registry.find(name)->parameters)
      EXPECT_THAT(page, HasSubstr("|`" + parameter.name + "`|"));
  }
  EXPECT_THAT(page, HasSubstr("|`kernel_width`|integer|2..8|grid cells|`5`|"));
  EXPECT_THAT(page, HasSubstr("|`running`|flag|||`false`|"));
  EXPECT_THAT(page, HasSubstr("|`method`|choice|coherent, incoherent||`coherent`|"));
  EXPECT_THAT(page, HasSubstr("|[`fft`](#fft)|Grid|OversampledImages|"));
}

TEST(ReferenceTest, ListsHaveALineForEach) {
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  const auto pipelines = shipped();
  const std::string listed = list_pipelines(pipelines);
  EXPECT_EQ(lines(listed), static_cast<std::ptrdiff_t>(pipelines.size()));
  for (const auto& spec : pipelines) {
    EXPECT_THAT(listed, HasSubstr(spec.name));
    EXPECT_THAT(listed, HasSubstr(spec.description));
    for (const std::string& alias : spec.aliases) EXPECT_THAT(listed, HasSubstr(alias));
  }
  config::PipelineSpec spec;
  spec.name = "mine";
  spec.description = "one\ntwo \x1B[31mthree";
  EXPECT_EQ(list_pipelines(std::span(&spec, 1)), "mine                     one two  [31mthree\n");
  const Registry& registry = Registry::builtin();
  EXPECT_EQ(lines(list_gadgets(registry)), static_cast<std::ptrdiff_t>(registry.names().size()));
}

TEST(ReferenceTest, AnExplainedPipelineShowsItsChain) {
  for (const auto& spec : shipped()) {
    const std::string text = explain_pipeline(spec, Registry::builtin());
    EXPECT_THAT(text, HasSubstr(spec.name + "\n  " + spec.description + "\n"));
    for (const auto& gadget : spec.gadgets) EXPECT_THAT(text, HasSubstr("\n  " + gadget.name + ": "));
    for (const auto* chain : {&spec.gadgets, &spec.accelerated})  // one line for each gadget
      for (const auto& gadget : *chain) {
        if (Registry::builtin().find(gadget.name) == nullptr) continue;  // a branch
        const std::string line = "\n    " + gadget.name + ": " + Registry::builtin().find(gadget.name)->summary + "\n";
        EXPECT_EQ(text.find(line), text.rfind(line)) << line;
        EXPECT_THAT(text, HasSubstr(line));
      }
  }
}

}  // namespace
}  // namespace echotrain
