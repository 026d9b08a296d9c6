#include "config/mistakes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/pipeline_spec.h"

namespace echotrain::config {
namespace {

using testing::ElementsAre;

void fail_at(int line, const std::string& message) { throw ConfigError({"p.yaml", line, 1}, message); }

TEST(Mistakes, ArePassedOnUnlessOneLives) {
  EXPECT_THROW(Mistakes::attempt([] { fail_at(1, "a"); }), ConfigError);
  {
    const Mistakes mistakes;
    EXPECT_TRUE(Mistakes::attempt([] {}));
    EXPECT_FALSE(Mistakes::found());
    for (const auto& [line, message] : {std::pair{3, "c"}, {1, "a"}, {3, "c"}, {3, "b"}})
      EXPECT_FALSE(Mistakes::attempt([&, l = line, m = message] { fail_at(l, m); }));
    EXPECT_TRUE(Mistakes::found());
    std::vector<std::string> told;
    for (const ConfigError& each : mistakes.all()) told.emplace_back(each.what());
    EXPECT_THAT(told, ElementsAre("p.yaml:1:1: a", "p.yaml:3:1: b", "p.yaml:3:1: c"));
  }
  EXPECT_FALSE(Mistakes::found());
  EXPECT_THROW(Mistakes::attempt([] { fail_at(1, "a"); }), ConfigError);
}

TEST(Mistakes, AreAllThoseOfAFile) {
  const Mistakes mistakes;
  read_pipeline("echotrain: 2\nname: A\nbackend: gpu\npipeline:\n  - a: 1\n  - b\n  - {}\naccelerated: []\n", "p.yaml");
  std::vector<int> lines;
  for (const ConfigError& each : mistakes.all()) lines.push_back(each.mark().line);
  // No description; the version, the name, the backend, a's parameters, the gadget without a name, no gadget.
  EXPECT_THAT(lines, ElementsAre(1, 1, 2, 3, 5, 7, 8));
}

}  // namespace
}  // namespace echotrain::config
