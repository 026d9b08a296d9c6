// Whether results depend on the number of threads: the pool's size is fixed per process, so a disabled test that prints
// digests is run in processes of its own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::testing {

/// Prints a digest of the elements' bits.
inline void print_digest(numerics::Context& context, const numerics::cfloat* data, std::int64_t n,
                         const std::string& name) {
  std::uint64_t hash = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint64_t bits = 0;
    static_assert(sizeof bits == sizeof *data);
    std::memcpy(&bits, data + i, sizeof bits);
    hash = (hash ^ bits) * 1099511628211ull + (hash >> 31);
  }
  std::printf("digest %llx of %s on threads: %d\n", static_cast<unsigned long long>(hash), name.c_str(),
              context.threads().size());
}

/// The digests that the disabled test `name` of this program prints on so many threads.
inline std::vector<std::string> digests(const std::string& name, int threads) {
  // A tuning is one number of threads' own.
  const std::string command = "ECHOTRAIN_AUTOTUNE=off ECHOTRAIN_THREADS=" + std::to_string(threads) +
                              " GTEST_COLOR=no /proc/" + std::to_string(getpid()) +
                              "/exe --gtest_also_run_disabled_tests --gtest_filter=" + name;
  std::vector<std::string> found;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return found;
  char line[256];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const std::string text(line);
    const auto end = text.find(" on threads: ");
    if (text.rfind("digest ", 0) != 0 || end == std::string::npos) continue;
    EXPECT_EQ(text.substr(end), " on threads: " + std::to_string(threads) + "\n");
    found.push_back(text.substr(0, end));
  }
  pclose(pipe);
  return found;
}

}  // namespace echotrain::testing
