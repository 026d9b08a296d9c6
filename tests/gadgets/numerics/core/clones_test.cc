// Hot loops run with what the machine has, whichever compiler has made them.
#include "gadgets/numerics/core/clones.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

/// The kernel's words for what the machine has: not the compiler's, nor the program's.
bool machine_has(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("flags")) return (line + " ").find(" " + flag + " ") != std::string::npos;
  return false;
}

#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")  // tests have -O1, by which GCC joins no multiplication and addition
#endif
ECHOTRAIN_CLONES void multiply_add(const float* a, const float* b, const float* c, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = a[i] * b[i] + c[i];
}
#if !defined(__clang__)
#pragma GCC pop_options
#endif

// (1 + e)^2 - (1 + 2 e) is e^2 where a multiplication and an addition are one instruction, as from AVX2's time on, and
// 0 where the product is rounded first: in float with e = 2^-12.
TEST(Clones, TheLoaderTakesTheNewestThatTheMachineHas) {
#if defined(__x86_64__) && !defined(ECHOTRAIN_SANITIZED)
  if (!machine_has("avx2") || !machine_has("fma")) GTEST_SKIP() << "a machine without AVX2";
  constexpr std::int64_t kCount = 64;
  constexpr float kSmall = 1.0f / 4096;
  const std::vector<float> a(kCount, 1 + kSmall), c(kCount, -(1 + 2 * kSmall));
  std::vector<float> to(kCount);
  multiply_add(a.data(), a.data(), c.data(), kCount, to.data());
  for (const float value : to) EXPECT_EQ(value, kSmall * kSmall) << "plain SSE on a machine that has more";
#else
  GTEST_SKIP() << "no clones in this build";
#endif
}

TEST(Clones, LogsSayWhichInstructionsTheyAre) {
#if defined(__x86_64__) && !defined(ECHOTRAIN_SANITIZED)
  const std::string expected = !machine_has("avx2") || !machine_has("fma") ? "SSE"
                               : machine_has("avx512f")                    ? "AVX-512"
                                                                           : "AVX2";
#elif defined(__x86_64__)
  const std::string expected = "SSE";
#else
  const std::string expected = "scalar";
#endif
  const std::string said = describe(Backend::cpu, *test_resources());
  EXPECT_NE(said.find("(" + expected + ")"), std::string::npos) << said;
}

}  // namespace
}  // namespace echotrain::numerics
