#include "server/scan/exposed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "server/scan/catalogue.h"
#include "server/scan/openrecon_label.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using config::ConfigError;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string exposing(const std::string& entries, const std::string& denoise = "denoise") {
  return "echotrain: 1\nname: quiet\ndescription: Less noise\ninput: images\nexpose:\n" + entries + "pipeline:\n  - " +
         denoise + "\n  - image\n";
}

config::PipelineSpec spec_of(const std::string& text) { return config::read_pipeline(text, "p.yaml"); }

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

std::string expose_error(const std::string& entries, const std::string& denoise = "denoise") {
  return error_of([&] { exposed_of(spec_of(exposing(entries, denoise)), Registry::builtin()); });
}

TEST(ExposedParameters, HaveWhatGadgetsDeclareNarrowed) {
  const auto all = exposed_of(spec_of(exposing("  s: {sets: denoise.strength, range: [0.5, 2]}\n"
                                               "  p: {sets: denoise.patch}\n"
                                               "  d: {sets: denoise.dimensions}\n"
                                               "  r: {sets: denoise.rician}\n"
                                               "  n: {sets: denoise.search, values: {3: near, 7: far}}\n"
                                               "  l: {sets: image.scale, values: [1.0, 1.5], default: 1.0}\n",
                                               "denoise: {search: 3}")),
                              Registry::builtin());
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(all[0].info.name, "denoise.strength");
  EXPECT_EQ(all[0].info.allowed(), "0.5 to 2");
  EXPECT_EQ(all[0].info.fallback, "0.8");
  EXPECT_EQ(all[1].info.allowed(), "0 to 4");
  EXPECT_EQ(all[1].info.unit, "voxels");
  EXPECT_EQ(all[2].info.allowed(), "auto, 2, 3");
  EXPECT_EQ(all[3].info.fallback, "false");
  EXPECT_EQ(all[4].info.allowed(), "3, 7");
  EXPECT_EQ(all[4].info.fallback, "3");

  EXPECT_EQ(all[0].read("2").as_double(), 2);
  EXPECT_EQ(all[5].read("1").as_string(), "1.0");
  EXPECT_TRUE(all[3].read("True").as_bool());
  EXPECT_EQ(error_of([&] { all[0].read("2.1"); }), "'2.1' is out of range; allowed is 0.5 to 2");
  EXPECT_EQ(error_of([&] { all[0].read("much"); }), "a finite number is expected, not 'much'");
  EXPECT_EQ(error_of([&] { all[1].read("1.5"); }), "a whole number is expected, not '1.5'");
  EXPECT_THAT(error_of([&] { all[4].read("4"); }), HasSubstr("'4' is not one of 3, 7"));
  EXPECT_THAT(error_of([&] { all[3].read("1"); }), HasSubstr("write true or false"));
}

TEST(ExposedParameters, ThatTheirGadgetDoesNotHaveAreRefused) {
  EXPECT_THAT(expose_error("  s: {sets: denoise.strenght}\n"),
              AllOf(StartsWith("p.yaml:6:13: "), HasSubstr("did you mean 'strength'?")));
  EXPECT_THAT(expose_error("  s: {sets: denoise.strength, range: [0, 9]}\n"), HasSubstr("allowed is 0.05 to 5"));
  EXPECT_THAT(expose_error("  s: {sets: denoise.strength, range: [2, 1]}\n"), HasSubstr("the larger one"));
  EXPECT_THAT(expose_error("  s: {sets: denoise.rician, range: [0, 1]}\n"), HasSubstr("is no number"));
  EXPECT_THAT(expose_error("  s: {sets: denoise.rician, values: [yes]}\n"), HasSubstr("true or false"));
  EXPECT_THAT(expose_error("  s: {sets: denoise.dimensions, values: [4]}\n"), HasSubstr("is not one of auto, 2, 3"));
  // A default beyond the range: the gadget's, the chain's, and the entry's own.
  EXPECT_THAT(expose_error("  s: {sets: denoise.strength, range: [1, 2]}\n"), HasSubstr("'0.8' is out of range"));
  EXPECT_THAT(expose_error("  s: {sets: denoise.strength, range: [1, 2]}\n", "denoise: {strength: 3}"),
              AllOf(StartsWith("p.yaml:8:"), HasSubstr("'3' is out of range")));
  EXPECT_THAT(expose_error("  s: {sets: denoise.strength, range: [1, 2], default: 4}\n"),
              AllOf(StartsWith("p.yaml:6:"), HasSubstr("'4' is out of range")));
  EXPECT_THAT(expose_error("  s: {sets: denoise.patch}\n", "denoise: {patch: 1}\n  - denoise: {patch: 2}"),
              HasSubstr("is '1' in one place of the pipeline and '2' in another"));
}

TEST(HostParameters, AreReadFromJsonOfEveryHand) {
  const HostParameters host = read_host_parameters(
      R"({"version": 1, "token": "secret", "parameters": {"config": "a", "customconfig": "", "whole": 3, "alsoWhole": 3.0,
          "real": 0.25, "text": "0.5", "yes": true, "no": "False", "list": [1], "nothing": null}})");
  EXPECT_TRUE(host.given);
  EXPECT_EQ(host.pipeline, "a");
  EXPECT_EQ(host.token, "secret");
  std::map<std::string, std::string> values;
  for (const HostValue& value : host.values) {
    values[value.id] = value.text;
    EXPECT_EQ(value.simple, value.id != "list" && value.id != "nothing") << value.id;
  }
  const std::map<std::string, std::string> expected{{"whole", "3"},     {"alsoWhole", "3"}, {"real", "0.25"},
                                                    {"text", "0.5"},    {"yes", "true"},    {"no", "False"},
                                                    {"list", "a list"}, {"nothing", "null"}};
  EXPECT_EQ(values, expected);
  EXPECT_EQ(read_host_parameters(R"({"parameters": {"config": "a", "customconfig": "b"}})").pipeline, "b");
  for (const char* other : {"", "hello", "[1]", "{}", R"({"parameters": 3})", R"({"parameters": {)"})
    EXPECT_FALSE(read_host_parameters(other).given) << other;
}

TEST(HostParameters, ChangeTheChainOrSayWhyNot) {
  const Catalogue catalogue(config::PipelineLibrary({shipped_pipelines()}));
  const Catalogue::Plan plan = *catalogue.by_name("images_denoise");
  const auto set = [&](std::vector<HostValue> values) { return catalogue.with_values(plan, values); };
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
