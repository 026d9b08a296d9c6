// Ordered sums on the CPU, for the reductions and for loops that compute what they sum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::numerics::cpu {

constexpr std::int64_t kSums = 16;              // running sums side by side, so that they vectorise
constexpr std::int64_t kReductionBlock = 4096;  // values of a block; fixed, so that results do not depend on the
                                                // threads

ECHOTRAIN_INLINE double add_up(const double* sums) {
  double sum = 0;
  for (std::int64_t l = 0; l < kSums; ++l) sum += sums[l];
  return sum;
}

/// Calls term(l, i) for all i < n, where l = i % kSums counts the running sums.
template <class Term>
ECHOTRAIN_INLINE void for_terms(std::int64_t n, const Term& term) {
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (std::int64_t l = 0; l < kSums; ++l) term(l, i + l);
  for (std::int64_t l = 0; i + l < n; ++l) term(l, i + l);
}

/// Joins the results of work(begin, end), each a Value (reductions_ops.h), over blocks of [0, n), in their order.
template <class Value, class Work>
Value reduce_blocks(ThreadPool& threads, std::int64_t n, const Work& work) {
  constexpr std::int64_t kGrain = 4;  // blocks for which another thread is worth waking
  const std::int64_t blocks = (n + kReductionBlock - 1) / kReductionBlock;
  std::vector<Value> parts(static_cast<std::size_t>(blocks));
  threads.parallel_for(blocks, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      parts[static_cast<std::size_t>(b)] = work(b * kReductionBlock, std::min(n, (b + 1) * kReductionBlock));
  });
  Value all;
  for (const Value& part : parts) all.join(part);
  return all;
}

}  // namespace echotrain::numerics::cpu
