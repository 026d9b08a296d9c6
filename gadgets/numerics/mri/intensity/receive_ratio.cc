#include "gadgets/numerics/mri/intensity/receive_ratio.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace echotrain::numerics {
namespace {

using Values = std::vector<double>;

/// Adds up, for each voxel, its differences from the neighbours along each axis.
void laplacian(const Extents& n, const Values& from, Values& to) {
  std::fill(to.begin(), to.end(), 0.0);
  const std::int64_t size = volume(n);
  for (std::size_t a = 0; a < 3; ++a) {
    std::int64_t behind = 1;
    for (std::size_t b = a + 1; b < 3; ++b) behind *= n[b];
    for (std::int64_t plane = 0; plane < size; plane += n[a] * behind)
      for (std::int64_t i = 0; i + 1 < n[a]; ++i) {
        const double* const f = from.data() + plane + i * behind;
        double* const t = to.data() + plane + i * behind;
        for (std::int64_t x = 0; x < behind; ++x) {
          const double step = f[x] - f[x + behind];
          t[x] += step;
          t[x + behind] -= step;
        }
      }
  }
}

double inner(const Values& a, const Values& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

/// The matrix of the normal equations, reference^2 + smoothness L L.
struct Normal {
  const Extents& n;
  Values weights;
  double smoothness;
  Values once, twice;

  void operator()(const Values& from, Values& to) {
    laplacian(n, from, once);
    laplacian(n, once, twice);
    for (std::size_t v = 0; v < from.size(); ++v) to[v] = weights[v] * from[v] + smoothness * twice[v];
  }
  Values diagonal() const {
    Values out = weights;
    std::size_t v = 0;
    for (std::int64_t z = 0; z < n[0]; ++z)
      for (std::int64_t y = 0; y < n[1]; ++y)
        for (std::int64_t x = 0; x < n[2]; ++x, ++v) {
          const double neighbours = (z > 0) + (z + 1 < n[0]) + (y > 0) + (y + 1 < n[1]) + (x > 0) + (x + 1 < n[2]);
          out[v] += smoothness * neighbours * (neighbours + 1);
        }
    return out;
  }
};

double largest(const Values& values, const char* name) {
  double most = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) throw std::invalid_argument(fmt::format("receive ratio: {} is not finite everywhere", name));
    most = std::max(most, std::abs(v));
  }
  return most;
}

}  // namespace

ReceiveRatio receive_ratio(const ThreadPool& threads, const Extents& grid, const Values& seen, const Values& reference,
                           const ReceiveRatioOptions& options) {
  const auto size = static_cast<std::size_t>(volume(grid));
  if (seen.size() != size || reference.size() != size || size == 0)
    throw std::invalid_argument(
        fmt::format("receive ratio: {} and {} voxels are not {}", seen.size(), reference.size(), size));
  const double most = largest(reference, "the reference"), most_seen = largest(seen, "the image");
  if (!(most > 0)) throw std::invalid_argument("receive ratio: the reference has no signal");
  Normal matrix{grid, Values(size), options.smoothness, Values(size), Values(size)};
  Values residual(size), product(size), preconditioned(size);
  for (std::size_t v = 0; v < size; ++v) {
    const double r = reference[v] / most;
    matrix.weights[v] = r * r;
    residual[v] = most_seen > 0 ? r * (seen[v] / most_seen) : 0;
  }
  ReceiveRatio out;
  out.field.assign(size, 0.0);
  const Values diagonal = matrix.diagonal();
  const auto precondition = [&] {
    for (std::size_t v = 0; v < size; ++v) preconditioned[v] = residual[v] / diagonal[v];
    return inner(residual, preconditioned);
  };
  const double enough = options.accuracy * options.accuracy * inner(residual, residual);
  double rho = precondition();
  Values direction = preconditioned;
  while (inner(residual, residual) > enough && out.iterations < options.iterations) {
    threads.check_stop();
    matrix(direction, product);
    const double step = rho / inner(direction, product);
    for (std::size_t v = 0; v < size; ++v) {
      out.field[v] += step * direction[v];
      residual[v] -= step * product[v];
    }
    const double next = precondition();
    for (std::size_t v = 0; v < size; ++v) direction[v] = preconditioned[v] + next / rho * direction[v];
    rho = next;
    ++out.iterations;
  }
  for (double& v : out.field) v *= most_seen / most;
  return out;
}

}  // namespace echotrain::numerics
