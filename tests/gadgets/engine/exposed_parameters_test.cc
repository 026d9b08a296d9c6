#include "gadgets/engine/host/exposed_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gadgets/exposing.h"

namespace echotrain {
namespace {

using ::testing::AllOf;
using testing::error_of;
using testing::exposing;
using ::testing::HasSubstr;
using testing::spec_of;
using ::testing::StartsWith;

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

}  // namespace
}  // namespace echotrain
