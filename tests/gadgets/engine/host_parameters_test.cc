#include "gadgets/engine/host/host_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "protocol/data/meta.h"

namespace echotrain {
namespace {

using config::ConfigError;
using ::testing::HasSubstr;

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

config::PipelineSpec spec_with(const std::string& steps) {
  return config::read_pipeline(
      "echotrain: 1\nname: quiet\ndescription: x\ninput: images\nexpose:\n  strength: {sets: denoise.strength}\n"
      "pipeline:\n  - denoise\n  - image\n" +
          steps,
      "p.yaml");
}

HostChange change(const std::string& json, const std::string& steps = "") {
  return with_host_values(spec_with(steps), read_host_parameters(json), Registry::builtin());
}

TEST(HostParameters, ThatNoGadgetHasGoToStepsThatTakeThem) {
  const std::string json =
      R"({"token": "secret", "version": "1", "parameters": {"config": "quiet", "strength": 2, "mode": "\u00e9"}})";
  const HostChange without = change(json), deaf = change(json, "  - python: {module: a}\n");
  for (const HostChange* each : {&without, &deaf}) {
    EXPECT_EQ(each->set_by_host, "strength=2");
    EXPECT_THAT(each->warning, HasSubstr("exposes no parameter mode"));
    EXPECT_EQ(each->used.json, "");
  }
  for (const char* step : {"python: {module: a, host_parameters: true}",
                           "mrd_server: {address: \"a:1\", config: b, host_parameters: true}",
                           "branch: {pipeline: [python: {module: a, host_parameters: true}]}"}) {
    const HostChange taken = change(json, std::string("  - ") + step + "\n");
    EXPECT_EQ(taken.warning, "");
    EXPECT_EQ(taken.set_by_host, "mode=\u00e9, strength=2");
    EXPECT_EQ(taken.used.json, R"({"parameters":{"config":"quiet","mode":"\u00e9","strength":2},"version":"1"})");
    EXPECT_THAT(taken.spec.text, HasSubstr(taken.used.json));  // by which archives tell series apart
  }
}

TEST(HostParameters, ThatComeLaterCount) {
  const HostParameters first = read_host_parameters(R"({"parameters": {"config": "a", "x": 1, "y": 2}, "version": 1})");
  const HostParameters second = read_host_parameters(R"({"parameters": {"y": 3, "z": [4]}})");
  const HostParameters both = later(first, second);
  EXPECT_EQ(both.json, R"({"parameters":{"config":"a","x":1,"y":3,"z":[4]},"version":1})");
  ASSERT_EQ(both.values.size(), 3U);
  EXPECT_EQ(both.values[1].id, "y");
  EXPECT_EQ(both.values[1].text, "3");
  EXPECT_EQ(later({}, second).json, second.json);
  EXPECT_EQ(later(first, {}).json, first.json);
}

TEST(HostParameters, ThatAreTooLongOrTooDeepAreRefused) {
  const std::string step = "  - python: {module: a, host_parameters: true}\n";
  const auto nested = [](std::size_t depth) {
    return R"({"parameters": {"a": "]]", "x": )" + std::string(depth, '[') + std::string(depth, ']') + "}}";
  };
  EXPECT_EQ(change(nested(62), step).warning, "");
  EXPECT_THROW(change(nested(63), step), ConfigError);
  EXPECT_THROW(change(nested(1000000), step), ConfigError);  // writing it would need a stack of its own
  EXPECT_THROW(change(R"({"parameters": {"x": ")" + std::string(70000, 'a') + "\"}}", step), ConfigError);
}

TEST(HostParameters, AreWrittenIntoTheImagesMeta) {
  std::string attributes;
  note_parameters(attributes, "");
  EXPECT_EQ(attributes, "");
  note_parameters(attributes, "x=<1>, y=\"&\"");
  EXPECT_EQ(protocol::meta_value(attributes, "echotrain_parameters"), "x=?1?, y=???");
}

TEST(HostParameters, AreBoundedInBytesAndNumber) {
  const auto with = [](std::size_t count, const std::string& padding) {
    std::string text = "{\"parameters\": {\"x\": \"" + padding + '"';
    for (std::size_t i = 0; i < count; ++i) text += ", \"p" + std::to_string(i) + "\": 1";
    return text + "}}";
  };
  const HostParameters most = read_host_parameters(with(kMostHostParameters - 1, ""));
  EXPECT_EQ(most.problem, "");
  EXPECT_EQ(most.values.size(), kMostHostParameters);
  EXPECT_THAT(read_host_parameters(with(kMostHostParameters, "")).problem, HasSubstr("at most 1024"));
  const HostParameters long_one = read_host_parameters(with(0, std::string(kMostHostBytes, 'x')));
  EXPECT_TRUE(long_one.given);
  EXPECT_THAT(long_one.problem, HasSubstr("at most 65536"));
  EXPECT_FALSE(read_host_parameters("{\"a\": \"" + std::string(kMostHostBytes, 'x') + "\"}").given);
}

TEST(HostParameters, ThatComeTogetherAreBoundedToo) {
  HostParameters one, other;
  for (std::size_t i = 0; i < kMostHostParameters; ++i) {
    one.values.push_back({"a" + std::to_string(i), "1"});
    other.values.push_back({"b" + std::to_string(i), "2"});
  }
  EXPECT_EQ(later(one, one).problem, "");
  EXPECT_THAT(later(one, other).problem, HasSubstr("2048 parameters"));
  EXPECT_EQ(later(one, other).values[kMostHostParameters].id, "b0") << "in the order in which they came";
}

}  // namespace
}  // namespace echotrain
