#include "server/scan/openrecon_label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/scan/pipeline_catalogue.h"
#include "tests/gadgets/exposing.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using testing::error_of;
using testing::exposing;
using ::testing::HasSubstr;
using testing::spec_of;

TEST(CatalogueValues, ChangeTheChainOrSayWhyNot) {
  const PipelineCatalogue catalogue(config::PipelineLibrary({shipped_pipelines()}));
  const PipelineCatalogue::Plan plan = *catalogue.by_name("images_denoise");
  const auto set = [&](std::vector<HostValue> values) {
    HostParameters host;
    host.values = std::move(values);
    return catalogue.with_values(plan, host);
  };
  const auto none = set({});
  ASSERT_TRUE(none);
  EXPECT_EQ(none->plan, plan);

  const auto changed = set({{"strength", "2.5"}, {"search", "3"}, {"other", "1"}});
  ASSERT_TRUE(changed);
  const config::Node parameters = changed->plan->spec().gadgets[0].parameters;
  EXPECT_EQ(parameters.get("strength").as_double(), 2.5);
  EXPECT_EQ(parameters.get("search").as_int(), 3);
  EXPECT_EQ(changed->set_by_host, "strength=2.5, search=3");
  EXPECT_THAT(changed->warning, HasSubstr("exposes no parameter other"));
  EXPECT_THAT(changed->warning, HasSubstr("it exposes strength, search, rician"));
  EXPECT_NE(changed->plan->spec().text, plan->spec().text);  // by which archives tell series apart
  EXPECT_TRUE(catalogue.offers(changed->plan));
  EXPECT_FALSE(
      catalogue.offers(*catalogue.from_text("echotrain: 1\nname: images_denoise\ndescription: x\ninput: images\n"
                                            "pipeline:\n  - denoise\n  - image\n")));

  const auto beyond = set({{"strength", "7"}});
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, "bad-config");
  EXPECT_EQ(beyond.error().message,
            "parameter 'strength' (Strength, sets denoise.strength): '7' is out of range; allowed is 0.1 to 5");
  EXPECT_THAT(set({{"strength", "a list", false}}).error().message, HasSubstr("one value is expected, not a list"));
}

// --- labels
// -----------------------------------------------------------------------------------------------------------

nlohmann::json label_of(const std::vector<std::string>& names) {
  const config::PipelineLibrary library({shipped_pipelines()});
  std::vector<const config::PipelineSpec*> pipelines;
  for (const std::string& name : names) pipelines.push_back(library.find(name));
  return nlohmann::json::parse(openrecon_label(pipelines, Registry::builtin()));
}

TEST(OpenReconLabel, SaysWhatAPipelineTakesAndExposes) {
  const nlohmann::json label = label_of({"images_denoise"});
  EXPECT_EQ(label["reconstruction"]["emitter"], "image");
  EXPECT_EQ(label["reconstruction"]["injector"], "image");
  EXPECT_EQ(label["reconstruction"]["can_process_adjustment_data"], false);
  EXPECT_EQ(label["general"]["name"]["en"], "EchotrainImagesDenoise");
  const nlohmann::json& parameters = label["parameters"];
  ASSERT_EQ(parameters.size(), 4U);
  EXPECT_EQ(parameters[0]["id"], "config");
  EXPECT_EQ(parameters[0]["default"], "images_denoise");
  const nlohmann::json strength{{"id", "strength"}, {"label", {{"en", "Strength"}}},
                                {"type", "double"}, {"minimum", 0.1},
                                {"maximum", 5.0},   {"default", 0.8}};
  for (const auto& [key, value] : strength.items()) EXPECT_EQ(parameters[1][key], value) << key;
  EXPECT_EQ(parameters[2]["type"], "int");
  EXPECT_EQ(parameters[2]["maximum"], 9);
  EXPECT_EQ(parameters[3]["type"], "boolean");
  EXPECT_EQ(parameters[3]["default"], false);
  const nlohmann::json display = label_of({"images_display"})["parameters"][1];
  EXPECT_EQ(display["type"], "choice");
  EXPECT_EQ(display["default"], "99.5");
  EXPECT_EQ(display["values"][2]["name"]["en"], "99.5 %");
}

TEST(OpenReconLabel, OfReadoutsTakesAdjustmentData) {
  const nlohmann::json label = label_of({"cartesian_display", "radial_2d"});
  EXPECT_EQ(label["reconstruction"]["emitter"], "raw");
  EXPECT_EQ(label["reconstruction"]["can_process_adjustment_data"], true);
  EXPECT_EQ(label["general"]["name"]["en"], "Echotrain");
  EXPECT_EQ(label["parameters"][0]["values"].size(), 2U);
}

TEST(OpenReconLabel, RefusesWhatTheSchemaCannotSay) {
  const auto refusal = [](const std::string& entries) {
    return error_of([&] {
      const config::PipelineSpec spec = spec_of(exposing(entries));
      openrecon_label({&spec}, Registry::builtin());
    });
  };
  EXPECT_THAT(refusal("  s: {sets: denoise.strength}\n"), HasSubstr("lowest value 0.05 is no multiple of 0.1"));
  EXPECT_THAT(refusal("  s: {sets: denoise.strength, range: [0.1, 5], default: 0.25}\n"), HasSubstr("default 0.25"));
  EXPECT_EQ(refusal("  s: {sets: denoise.strength, values: [0.05, 0.8]}\n"), "none");
  EXPECT_THAT(error_of([] { label_of({"images_denoise", "radial_2d"}); }), HasSubstr("a label is for either"));
  EXPECT_EQ(error_of([] { label_of({"images_denoise", "images_invert", "images_display"}); }), "none");
}

}  // namespace
}  // namespace echotrain::server
