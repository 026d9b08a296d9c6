#include "gadgets/shared/program/resources_from_options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace echotrain {
namespace {

/// Sets an environment variable while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    if (value == nullptr)
      unsetenv(name);
    else
      setenv(name, value, 1);
  }
  ~Variable() {
    if (old_)
      setenv(name_, old_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// Returns the error for a variable's value; empty when there is none.
std::string refusal(const char* name, const char* value) {
  const Variable variable(name, value);
  try {
    resource_options_from_environment();
  } catch (const config::ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ResourceEnvironment, SetsTheOptions) {
  const Variable threads("ECHOTRAIN_THREADS", "5"), hopper("ECHOTRAIN_HOPPER", "off"), graphs("ECHOTRAIN_GRAPHS", "on"),
      plans("ECHOTRAIN_PLAN_CACHE_MIB", "3"), operators("ECHOTRAIN_OPERATOR_CACHE_MIB", "0"),
      trajectories("ECHOTRAIN_TRAJECTORY_CACHE_MIB", ""), disk("ECHOTRAIN_DISK_CACHE_MIB", "4"),
      store("ECHOTRAIN_SCAN_STORE_MIB", "5"), hours("ECHOTRAIN_SCAN_STORE_HOURS", "6"),
      on_disk("ECHOTRAIN_SCAN_STORE_DISK", "off");
  const numerics::ResourceOptions options = resource_options_from_environment();
  EXPECT_EQ(options.threads, 5);
  EXPECT_FALSE(options.hopper);
  EXPECT_TRUE(options.graphs);
  EXPECT_EQ(options.plan_cache_bytes, 3u << 20);
  EXPECT_EQ(options.operator_cache_bytes, 0u);
  EXPECT_EQ(options.trajectory_cache_bytes, numerics::ResourceOptions().trajectory_cache_bytes);
  EXPECT_EQ(options.disk_cache_bytes, 4u << 20);
  EXPECT_EQ(options.scan_store_bytes, 5u << 20);
  EXPECT_EQ(options.scan_store_hours, 6);
  EXPECT_FALSE(options.scan_store_disk);
}

TEST(ResourceEnvironment, RefusesBadValues) {
  EXPECT_EQ(refusal("ECHOTRAIN_THREADS", "two"),
            "ECHOTRAIN_THREADS: threads: a whole number is expected, not 'two'; allowed is 0 to 4096");
  EXPECT_EQ(refusal("ECHOTRAIN_HOPPER", "no"),
            "ECHOTRAIN_HOPPER: hopper: 'no' is not one of on, off; did you mean 'on'?");
  for (const char* value : {"-1", "4097", "2x", " 2", "99999999999999999999"})
    EXPECT_NE(refusal("ECHOTRAIN_THREADS", value), "") << value;
  for (const char* value : {"-1", "1073741825", "1.5"})
    EXPECT_NE(refusal("ECHOTRAIN_DISK_CACHE_MIB", value), "") << value;
  for (const char* name : {"ECHOTRAIN_THREADS", "ECHOTRAIN_HOPPER", "ECHOTRAIN_PLAN_CACHE_MIB"}) {
    EXPECT_EQ(refusal(name, ""), "") << name;
    EXPECT_EQ(refusal(name, nullptr), "") << name;
  }
}

TEST(ResourceEnvironment, FindsTheCacheFolder) {
  const auto folder = [] { return resource_options_from_environment().cache_folder; };
  const Variable home("HOME", "/home/x");
  {
    const Variable cache("ECHOTRAIN_CACHE_DIR", "/a"), xdg("XDG_CACHE_HOME", "/b");
    EXPECT_EQ(folder(), "/a");
  }
  const Variable cache("ECHOTRAIN_CACHE_DIR", nullptr);
  {
    const Variable xdg("XDG_CACHE_HOME", "/b");
    EXPECT_EQ(folder(), "/b/echotrain");
  }
  const Variable xdg("XDG_CACHE_HOME", "");
  EXPECT_EQ(folder(), "/home/x/.cache/echotrain");
  const Variable homeless("HOME", nullptr);
  EXPECT_EQ(folder(), "");
}

}  // namespace
}  // namespace echotrain
