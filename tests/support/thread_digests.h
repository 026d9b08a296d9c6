// The digests show whether results depend on the number of threads.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "tests/support/resources.h"

namespace echotrain::testing {

/// Records the bits of n elements under this name.
using NoteBits = std::function<void(const numerics::cfloat* data, std::int64_t n, const std::string& name)>;
/// Computes with a context and records the bits of its results.
using DigestWork = std::function<void(numerics::Context& context, const NoteBits& note)>;

/// A digest of each result that `work` records, on a pool of so many threads.
inline std::vector<std::string> digests(int threads, const DigestWork& work) {
  numerics::Context context(numerics::Backend::cpu, test_resources(threads));
  EXPECT_EQ(context.threads().size(), threads);
  std::vector<std::string> found;
  work(context, [&found](const numerics::cfloat* data, std::int64_t n, const std::string& name) {
    std::uint64_t hash = 1;
    for (std::int64_t i = 0; i < n; ++i) {
      std::uint64_t bits = 0;
      static_assert(sizeof bits == sizeof *data);
      std::memcpy(&bits, data + i, sizeof bits);
      hash = (hash ^ bits) * 1099511628211ull + (hash >> 31);
    }
    found.push_back(std::to_string(hash) + " of " + name);
  });
  return found;
}

/// Expects `results` results, with the same bits on 1, 2, 3 and 7 threads.
inline void expect_same_bits(std::size_t results, const DigestWork& work) {
  const auto one = digests(1, work);
  ASSERT_EQ(one.size(), results);
  for (const int threads : {2, 3, 7}) EXPECT_EQ(digests(threads, work), one) << threads << " threads";
}

}  // namespace echotrain::testing
