// A split problem is one for the exact transform, which a team or ranks solve together and one device alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gadgets/numerics/core/team/team.h"
#include "gadgets/numerics/transforms/exact/split_adjoint.h"
#include "tests/support/backends.h"
#include "tests/support/solver_problem.h"

namespace echotrain::testing {

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Samples anywhere in k-space. `k`: [count, axis], `weights`: [count], `samples`: [count, coil].
struct SplitProblem {
  SplitProblem(const numerics::Shape& its_image, std::int64_t its_coils, std::int64_t its_count)
      : image(its_image), coils(its_coils), count(its_count) {
    Random random(31);
    const std::int64_t coordinates = count * static_cast<std::int64_t>(image.rank());
    for (std::int64_t i = 0; i < coordinates; ++i) k.push_back(random.uniform(-0.5, 0.5));
    for (std::int64_t i = 0; i < count; ++i) weights.push_back(static_cast<float>(random.uniform(0.5, 1.5)));
    samples = random.normals(count * coils);
  }
  const numerics::Shape image;
  const std::int64_t coils, count;
  std::vector<double> k;
  std::vector<float> weights;
  std::vector<numerics::cfloat> samples;
};

/// Its images [coil, ...], from samples that come `batch` at a time. `team`: nullptr for one device.
inline std::vector<numerics::cfloat> split_adjoint(numerics::Context& context, numerics::Team* team,
                                                   const SplitProblem& p, numerics::VoxelBasis basis,
                                                   std::int64_t batch) {
  const auto dims = static_cast<std::int64_t>(p.image.rank());
  numerics::SplitAdjoint sum(context, team, p.image, p.coils, basis, numerics::Precision::exact);
  for (std::int64_t at = 0; at < p.count;) {
    const std::int64_t n = std::min(p.count - at, batch);
    const auto part = context.upload<numerics::cfloat>({p.samples.data() + at * p.coils, {n, p.coils}});
    sum.add(context, {p.k.data() + at * dims, {n, dims}}, part.view(), {p.weights.data() + at, {n}});
    at += n;
  }
  auto out = context.zeros<numerics::cfloat>(with_batch(p.coils, p.image));
  sum.get(context, out.view());
  const auto host = context.download<numerics::cfloat>(out.cview());
  return {host.data(), host.data() + host.size()};
}

}  // namespace echotrain::testing
