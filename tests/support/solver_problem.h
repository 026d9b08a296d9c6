// A solver problem is a sampling, with data, for the solver's tests.
#pragma once

#include <memory>
#include <vector>

#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"
#include "tests/support/backends.h"
#include "tests/support/dense.h"

namespace echotrain::testing {

inline numerics::Shape with_batch(std::int64_t batch, const numerics::Shape& image) {
  numerics::Shape shape{batch};
  for (const auto e : image) shape.push_back(e);
  return shape;
}

struct Sampling {
  std::vector<double> k;
  std::vector<float> w;
};
/// Samples more densely towards the centre, as trajectories do.
inline Sampling make_sampling(std::size_t dims, std::size_t n, unsigned seed) {
  Random random(seed);
  Sampling s;
  for (std::size_t i = 0; i < n; ++i) {
    const double radius = random.uniform(0.2, 1);
    for (std::size_t a = 0; a < dims; ++a) s.k.push_back(radius * random.uniform(-0.5, 0.5));
    s.w.push_back(static_cast<float>(random.uniform(0.5, 1.5)));
  }
  return s;
}

inline Eigen::VectorXcd vector(const std::vector<numerics::cfloat>& values) {
  Eigen::VectorXcd v(static_cast<std::int64_t>(values.size()));
  for (std::int64_t i = 0; i < v.size(); ++i) v[i] = numerics::cdouble(values[static_cast<std::size_t>(i)]);
  return v;
}
/// The Toeplitz operator of these samples.
inline std::shared_ptr<const numerics::ToeplitzOperator> make_toeplitz(numerics::Context& context, const Sampling& s,
                                                                       const numerics::Shape& image) {
  numerics::Shape lags;
  for (const auto e : image) lags.push_back(2 * e);
  auto q = context.allocate<numerics::cfloat>(lags);
  const auto dims = static_cast<std::int64_t>(image.rank()), n = static_cast<std::int64_t>(s.w.size());
  numerics::point_spread(context, {s.k.data(), {n, dims}}, {s.w.data(), {n}}, image, numerics::VoxelBasis::delta,
                         q.view());
  return std::make_shared<const numerics::ToeplitzOperator>(context, q.cview());
}

}  // namespace echotrain::testing
