#include "gadgets/shared/program/step_sandbox.h"

#include <gmock/gmock.h>

namespace echotrain {
namespace {

using ::testing::HasSubstr;

StepSettings with(const std::string& sandbox) {
  StepSettings settings;
  settings.modules = "modules";
  settings.sandbox = sandbox;
  return settings;
}

TEST(StepSandbox, SaysNothingWithoutModules) { EXPECT_EQ(sandbox_line(StepSettings(), {}).text, ""); }

TEST(StepSandbox, SaysWhatAMachineLacks) {
  EXPECT_FALSE(sandbox_line(with("auto"), {2, true}).is_warning);
  EXPECT_EQ(sandbox_line(with("require"), {2, true}).text, "python steps run in a sandbox: Landlock 2, seccomp");
  EXPECT_THAT(sandbox_line(with("auto"), {0, true}).text, HasSubstr("has no Landlock: a python step may do more"));
  EXPECT_THAT(sandbox_line(with("auto"), {5, false}).text, HasSubstr("has no seccomp"));
  EXPECT_THAT(sandbox_line(with("require"), {0, false}).text,
              HasSubstr("has no Landlock and seccomp: python steps are refused (python_sandbox: require)"));
  EXPECT_TRUE(sandbox_line(with("require"), {0, false}).is_warning);
  EXPECT_TRUE(sandbox_line(with("off"), {7, true}).is_warning);
}

}  // namespace
}  // namespace echotrain
