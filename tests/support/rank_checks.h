// A rank check holds for any ranks, however they are connected. Each rank calls it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "gadgets/numerics/core/team/ranks.h"
#include "gadgets/numerics/inverse/solver/pcg.h"
#include "tests/support/backends.h"
#include "tests/support/resources.h"
#include "tests/support/solver_problem.h"
#include "tests/support/split_problem.h"

namespace echotrain::testing {

using numerics::Context;
using numerics::Ranks;
using numerics::Shape;
using numerics::Team;

/// The part of rank `rank` in a sum of n values.
inline std::vector<float> part_of_sum(int rank, std::size_t n) {
  Random random(100 + static_cast<unsigned>(rank));
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(static_cast<float>(random.uniform(-1, 1)));
  return values;
}

inline void check_sums(Ranks& ranks) {
  for (const std::size_t n : {1u, 2u, 3u, 7u, 1000u, 100003u}) {
    std::vector<float> truth(n, 0.0f), values = part_of_sum(ranks.rank(), n);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const auto part = part_of_sum(rank, n);
      for (std::size_t i = 0; i < n; ++i) truth[i] += part[i];
    }
    ranks.sum(values);
    EXPECT_TRUE(same_bits(values, truth)) << n;
  }
}

inline void check_broadcasts(Ranks& ranks) {
  for (int from = 0; from < ranks.size(); ++from)
    for (const std::size_t n : {0u, 1u, 5000u, 3000001u}) {
      std::vector<std::byte> truth(n), bytes;
      for (std::size_t i = 0; i < n; ++i)
        truth[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(from)) % 251);
      if (ranks.rank() == from) bytes = truth;
      numerics::broadcast(ranks, bytes, from);
      EXPECT_TRUE(bytes == truth) << n << " bytes from rank " << from;
    }
}

/// The exact transform by all ranks has the bits of one process, on every rank.
inline void check_exact_transform(Ranks& ranks) {
  Context context(numerics::Backend::cpu, test_resources());
  Team team(context, ranks);
  for (const Shape& image : {Shape{61, 45}, Shape{64, 48}, Shape{33, 20, 17}, Shape{40, 24, 20}}) {
    const SplitProblem problem(image, 3, 600);
    const auto transform = [&](Team* with) {
      return split_adjoint(context, with, problem, numerics::VoxelBasis::delta, 200);
    };
    EXPECT_TRUE(same_bits(transform(&team), transform(nullptr))) << image.text() << " by " << ranks.size();
  }
}

/// The solver with the coils shared out: close to one process, and the same bits on every rank.
inline void check_solver(Ranks& ranks) {
  Context context(numerics::Backend::cpu, test_resources());
  Team team(context, ranks);
  const Shape image{24, 23};
  const std::int64_t coils = 5;
  const auto toeplitz = make_toeplitz(context, make_sampling(2, 700, 3), image);
  const auto maps = Random(5).normals(coils * image.size()), b = Random(6).normals(2 * image.size());
  const auto right = context.upload<numerics::cfloat>({b.data(), with_batch(2, image)});
  const auto prior = numerics::smoothness(image, {1, 1});
  for (const auto preconditioner : {numerics::Preconditioner::none, numerics::Preconditioner::circulant}) {
    numerics::PcgOptions options;
    options.lambda = 1e-2;
    options.iterations = 500;
    options.tolerance = 1e-6;
    options.preconditioner = preconditioner;
    const auto solve = [&](const numerics::LinearOperator& a) {
      auto x = context.zeros<numerics::cfloat>(with_batch(2, image));
      numerics::pcg(context, a, prior.get(), right.cview(), x.view(), options);
      return std::vector<numerics::cfloat>(x.data(), x.data() + x.size());
    };
    const auto all = context.upload<numerics::cfloat>({maps.data(), with_batch(coils, image)});
    const auto alone = solve(numerics::SenseNormal(context, toeplitz, all));
    std::vector<numerics::cfloat> together;
    team.run(numerics::Team::Sums::some, [&](numerics::Member& member) {
      const std::int64_t first = member.first(coils), last = member.last(coils);
      const auto part =
          context.upload<numerics::cfloat>({maps.data() + first * image.size(), with_batch(last - first, image)});
      together = solve(numerics::SenseNormal(context, toeplitz, part, member.others));
    });
    EXPECT_LT((vector(together) - vector(alone)).norm() / vector(alone).norm(), 1e-4);
    std::vector<numerics::cfloat> of_first = together;
    auto shared = context.upload<numerics::cfloat>({of_first.data(), {2 * image.size()}});
    team.share(context, shared.view(), 0);
    EXPECT_EQ(std::memcmp(shared.data(), together.data(), together.size() * sizeof(numerics::cfloat)), 0);
  }
}

}  // namespace echotrain::testing
