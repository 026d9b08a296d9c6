// The use of GPUs is told by a library in the place of NVML (tests/support/fake_nvml.c).
#include "server/metrics/gpu_use.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;

std::string fake_library() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libechotrain_fake_nvml.so";
}

TEST(GpuUse, TellsWhatTheLibraryTells) {
  GpuUse use(fake_library());
  const std::string gpu = "0000:01:00.0";
  EXPECT_EQ(use.percent(gpu), std::nullopt);  // waits for nobody
  for (int i = 0; i < 1000 && !use.percent(gpu); ++i) std::this_thread::sleep_for(5ms);
  ASSERT_EQ(use.percent(gpu), 10);
  EXPECT_EQ(use.percent(gpu), 10);  // questions make no others
  EXPECT_EQ(use.percent("0000:02:00.0"), std::nullopt);
  EXPECT_EQ(use.percent("0000:03:00.0"), std::nullopt);
  for (int i = 0; i < 1000 && use.percent(gpu) < 20; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_GE(use.percent(gpu), 20);  // within a second or so; more where this thread had no core for another one
  EXPECT_EQ(use.percent("0000:02:00.0"), std::nullopt);
}

TEST(GpuUse, WithoutTheLibraryNothingIsKnown) {
  GpuUse use("libno-such-thing.so.1");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(use.percent("0000:01:00.0"), std::nullopt);
    std::this_thread::sleep_for(5ms);
  }
}

}  // namespace
}  // namespace echotrain::server
