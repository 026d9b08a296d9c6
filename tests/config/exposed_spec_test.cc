#include "config/exposed_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/pipeline_spec.h"

namespace echotrain::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kBegin = "echotrain: 1\nname: quiet\ndescription: a test\n";
const std::string kChain = "pipeline:\n  - denoise: {patch: 2}\n  - image\n";

std::string refusal(const std::string& expose, const std::string& chain = kChain) {
  try {
    read_pipeline(kBegin + "expose:\n" + expose + chain, "p.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(ExposedSpecs, HaveEveryKey) {
  const PipelineSpec spec = read_pipeline(kBegin + R"(expose:
  strength: {sets: denoise.strength, label: Strength, information: how much, range: [0.1, 4], default: 2}
  Mode2:
    sets: denoise.dimensions
    values: {2: plane by plane, auto: as they are}
)" + kChain,
                                          "p.yaml");
  ASSERT_EQ(spec.exposed.size(), 2U);
  const ExposedSpec &one = spec.exposed[0], &two = spec.exposed[1];
  EXPECT_EQ(one.id, "strength");
  EXPECT_EQ(one.gadget, "denoise");
  EXPECT_EQ(one.parameter, "strength");
  EXPECT_EQ(one.label, "Strength");
  EXPECT_EQ(one.information, "how much");
  EXPECT_EQ(one.range.as_sequence()[1].as_double(), 4);
  EXPECT_EQ(one.mark.text(), "p.yaml:5:3");
  EXPECT_EQ(two.label, "Mode2");
  ASSERT_EQ(two.values.size(), 2U);
  EXPECT_EQ(two.values[0].text, "2");
  EXPECT_EQ(two.values[1].name, "as they are");
  EXPECT_TRUE(read_pipeline(kBegin + kChain, "p.yaml").exposed.empty());
}

TEST(ExposedSpecs, WriteTheirDefaultsIntoAllChains) {
  const PipelineSpec spec = read_pipeline(
      kBegin + "expose:\n  strength: {sets: denoise.strength, default: 2}\n" + kChain + "accelerated:\n  - denoise\n",
      "p.yaml");
  EXPECT_EQ(spec.gadgets[0].parameters.get("strength").as_int(), 2);
  EXPECT_EQ(spec.gadgets[0].parameters.get("patch").as_int(), 2);
  EXPECT_EQ(spec.accelerated[0].parameters.get("strength").as_int(), 2);
  EXPECT_EQ(parameters_of(spec, "denoise", "strength").size(), 2U);
  EXPECT_EQ(parameters_of(spec, "denoise", "patch")[1].kind(), Node::Kind::null);
  EXPECT_TRUE(parameters_of(spec, "noise_adjust", "patch").empty());
}

TEST(ExposedSpecs, ReachIntoBranches) {
  const PipelineSpec spec = read_pipeline(kBegin + R"(expose:
  strength: {sets: denoise.strength, default: 2}
pipeline:
  - branch:
      when: {contrast: 1}
      pipeline:
        - denoise
        - branch: {pipeline: [denoise: {patch: 3}, image]}
        - image
  - image
)",
                                          "p.yaml");
  EXPECT_EQ(parameters_of(spec, "denoise", "strength").size(), 2U);
  const Node branch = spec.gadgets[0].parameters;
  EXPECT_EQ(branch.get("when").get("contrast").as_int(), 1);
  const std::vector<Node>& chain = branch.get("pipeline").as_sequence();
  ASSERT_EQ(chain.size(), 3U);
  EXPECT_EQ(chain[0].get("denoise").get("strength").as_int(), 2);
  EXPECT_EQ(chain[2].as_string(), "image");
  const Node inner = chain[1].get("branch").get("pipeline").as_sequence()[0].get("denoise");
  EXPECT_EQ(inner.get("strength").as_int(), 2);
  EXPECT_EQ(inner.get("patch").as_int(), 3);
}

TEST(ExposedSpecs, SayWhatIsWrongAndWhere) {
  EXPECT_THAT(refusal("  no_sign: {sets: denoise.strength}\n"),
              AllOf(StartsWith("p.yaml:5:3: "), HasSubstr("letters")));
  EXPECT_THAT(refusal("  config: {sets: denoise.strength}\n"), HasSubstr("name a pipeline by"));
  EXPECT_THAT(refusal("  a: {label: A}\n"), HasSubstr("'a' sets nothing"));
  EXPECT_THAT(refusal("  a:\n"), HasSubstr("'a' sets nothing"));
  for (const char* sets : {"denoise", "denoise.", ".strength"})
    EXPECT_THAT(refusal(std::string("  a: {sets: ") + sets + "}\n"), HasSubstr("is not GADGET.PARAMETER")) << sets;
  EXPECT_THAT(refusal("  a: {sets: denoize.strength}\n"),
              AllOf(StartsWith("p.yaml:5:13: "), HasSubstr("did you mean 'denoise'?")));
  EXPECT_THAT(refusal("  a: {sets: denoise.strength, rang: [1, 2]}\n"), HasSubstr("did you mean 'range'?"));
  EXPECT_THAT(refusal("  a: {sets: denoise.strength, range: [1]}\n"), HasSubstr("two numbers"));
  EXPECT_THAT(refusal("  a: {sets: denoise.strength, range: [1, 2], values: [1]}\n"), HasSubstr("either"));
  EXPECT_THAT(refusal("  a: {sets: denoise.strength, values: []}\n"), HasSubstr("'values' is empty"));
  EXPECT_THAT(refusal("  a: {sets: denoise.strength, values: [1, 1]}\n"), HasSubstr("given twice"));
  EXPECT_THAT(refusal("  a: {sets: denoise.strength, label: ''}\n"), HasSubstr("1 to 256 characters"));
  EXPECT_THAT(refusal("  a: {sets: denoise.strength}\n  b: {sets: denoise.strength}\n"),
              AllOf(StartsWith("p.yaml:6:13: "), HasSubstr("'a' sets denoise.strength already")));
  EXPECT_THAT(refusal("  a: {sets: denoise.patch, default: 3}\n"), HasSubstr("has a value already (p.yaml:7:"));
  EXPECT_THAT(refusal("  - a\n"), StartsWith("p.yaml:5:"));
}

}  // namespace
}  // namespace echotrain::config
