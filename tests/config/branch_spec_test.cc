// Branches as text: what is read, and where and why the rest is refused.
#include "config/branch_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace echotrain::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// A pipeline whose only item is this branch; the branch's map begins in line 5, column 13.
std::string with_branch(const std::string& parameters) {
  return "echotrain: 1\nname: p\ndescription: a test\npipeline:\n  - branch: " + parameters + "\n";
}

BranchSpec branch_of(const std::string& parameters) {
  return read_branch(read_pipeline(with_branch(parameters), "p.yaml").gadgets.at(0));
}

std::string refusal_of_branch(const std::string& parameters) {
  try {
    read_pipeline(with_branch(parameters), "p.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<std::string> names_in(const std::vector<GadgetSpec>& chain) {
  std::vector<std::string> names;
  for (const GadgetSpec& gadget : chain) names.push_back(gadget.name);
  return names;
}

TEST(BranchSpec, HasDefaults) {
  const BranchSpec branch = branch_of("{pipeline: [resize: {crop_x: 8}, image]}");
  EXPECT_THAT(names_in(branch.gadgets), ElementsAre("resize", "image"));
  EXPECT_EQ(branch.gadgets[0].parameters.get("crop_x").as_int(), 8);
  EXPECT_EQ(branch.mark.text(), "p.yaml:5:5");
  EXPECT_TRUE(branch.pass_on);
  EXPECT_FALSE(branch.series_offset);
  EXPECT_THAT(branch.role, IsEmpty());
  EXPECT_THAT(branch.when.keys, IsEmpty());
  EXPECT_EQ(branch.size, 2u);
}

TEST(BranchSpec, ReadsEveryKey) {
  const BranchSpec branch = branch_of(
      "{when: {item: images, contrast: [0, 2], slice: {from: 3}, set: {from: 1, to: 2}, series: 4, image_type: phase, "
      "kind: [noise, imaging], flag: user_8, content: snr, meta: {DataRole: [Image, Other], own: x}}, pass_on: false, "
      "series_offset: 40, pipeline: [image]}");
  const When& when = branch.when;
  ASSERT_TRUE(when.item);
  EXPECT_EQ(*when.item, Input::images);
  const auto ranges = [&](std::string_view name) {
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    const auto at = std::find(kCounters.begin(), kCounters.end(), name) - kCounters.begin();
    for (const auto& range : when.counters.at(static_cast<std::size_t>(at))) out.emplace_back(range.first, range.last);
    return out;
  };
  EXPECT_THAT(ranges("contrast"), ElementsAre(std::pair(0, 0), std::pair(2, 2)));
  EXPECT_THAT(ranges("slice"), ElementsAre(std::pair(3, 65535)));
  EXPECT_THAT(ranges("set"), ElementsAre(std::pair(1, 2)));
  EXPECT_THAT(ranges("series"), ElementsAre(std::pair(4, 4)));
  EXPECT_THAT(ranges("phase"), IsEmpty());
  EXPECT_THAT(when.image_types, ElementsAre("phase"));
  EXPECT_THAT(when.kinds, ElementsAre("noise", "imaging"));
  EXPECT_THAT(when.flags, ElementsAre("user_8"));
  EXPECT_THAT(when.contents, ElementsAre("snr"));
  EXPECT_THAT(when.meta.at("DataRole"), ElementsAre("Image", "Other"));
  EXPECT_THAT(when.meta.at("own"), ElementsAre("x"));
  EXPECT_EQ(when.keys.size(), 10u);
  EXPECT_EQ(when.keys[0].second.text(), "p.yaml:5:21");
  EXPECT_THAT(when.text, StartsWith("item is images, contrast is 0 or 2, slice is 3 and above, set is 1 to 2, "));
  EXPECT_THAT(when.text, HasSubstr("'DataRole' is Image or Other"));
  EXPECT_FALSE(branch.pass_on);
  EXPECT_EQ(branch.series_offset, 40);
  EXPECT_EQ(branch_of("{role: coil_maps, pipeline: [image]}").role, "coil_maps");
}

TEST(BranchSpec, MayHaveBranches) {
  const std::string inner = "{pipeline: [orient, branch: {pipeline: [image]}, image]}";
  const PipelineSpec spec = read_pipeline(with_branch(inner), "p.yaml");
  EXPECT_THAT(names_in(spec.gadgets), ElementsAre("branch"));
  EXPECT_THAT(names_in(gadgets_in(spec.gadgets)), ElementsAre("orient", "image", "image"));
  EXPECT_EQ(branch_of(inner).size, 4u);
}

TEST(BranchSpec, UnknownKeysAndValuesAreRefusedWhereTheyAre) {
  for (const auto& [wrong, place, words] : std::vector<std::array<std::string, 3>>{
           {"{pipelin: [image]}", "5:14", "did you mean 'pipeline'?"},
           {"{when: {contrst: 0}, pipeline: [image]}", "5:21", "unknown key 'contrst'; did you mean 'contrast'?"},
           {"{when: {kind: noize}, pipeline: [image]}", "5:27", "did you mean 'noise'?"},
           {"{when: {flag: [user_1, user_9]}, pipeline: [image]}", "5:36", "'user_9' is not one of"},
           {"{when: {item: kspace}, pipeline: [image]}", "5:27", "'kspace' is not one of readouts, images"},
           {"{when: {image_type: fase}, pipeline: [image]}", "5:33", "'fase' is not one of"},
           {"{when: {content: gfactor}, pipeline: [image]}", "5:30", "did you mean 'g_factor'?"},
           {"{when: {contrast: one}, pipeline: [image]}", "5:31", "a whole number is expected"},
           {"{when: {contrast: 65536}, pipeline: [image]}", "5:31", "allowed is 0 to 65535"},
           {"{when: {contrast: []}, pipeline: [image]}", "5:31", "the list is empty"},
           {"{when: {slice: {from: 2, to: 1}}, pipeline: [image]}", "5:42", "allowed is 2 to 65535"},
           {"{when: {slice: {form: 2}}, pipeline: [image]}", "5:29", "did you mean 'from'?"},
           {"{when: {meta: {}}, pipeline: [image]}", "5:27", "name a meta attribute"},
           {"{when: {}, pipeline: [image]}", "5:20", "'when' is empty"},
           {"{when: noise, pipeline: [image]}", "5:20", "a map of 'key: value' is expected"},
           {"{when: {contrast: 0}}", "5:5", "a branch needs gadgets of its own"},
           {"", "5:5", "a branch needs gadgets of its own"},
           {"{pipeline: []}", "5:24", "'pipeline' is empty"},
           {"{pipeline: image}", "5:24", "a list is expected"},
           {"{pass_on: no, pipeline: [image]}", "5:23", "write true or false"},
           {"{series_offset: 60001, pipeline: [image]}", "5:29", "allowed is 0 to 60000"},
           {"{role: Coil-Maps, pipeline: [image]}", "5:20", "'Coil-Maps' is no role"},
           {"{role: maps, series_offset: 1, pipeline: [image]}", "5:41", "'series_offset' has no use"},
           {"{pipeline: [branch: {when: {slize: 1}, pipeline: [image]}]}", "5:41", "did you mean 'slice'?"}})
    EXPECT_THAT(refusal_of_branch(wrong), AllOf(StartsWith("p.yaml:" + place + ": "), HasSubstr(words))) << wrong;
}

TEST(BranchSpec, CountsInTheBoundOfGadgets) {
  std::string chain = "image";
  for (std::size_t i = 2; i < kMostGadgets; ++i) chain = "orient, " + chain;
  EXPECT_EQ(refusal_of_branch("{pipeline: [" + chain + "]}"), "no error");
  EXPECT_THAT(refusal_of_branch("{pipeline: [orient, " + chain + "]}"), HasSubstr("at most 64 gadgets"));
  EXPECT_THAT(refusal_of_branch("{pipeline: [branch: {pipeline: [" + chain + "]}]}"), HasSubstr("at most 64 gadgets"));
}

}  // namespace
}  // namespace echotrain::config
