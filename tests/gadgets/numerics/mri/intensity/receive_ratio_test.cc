// Receive ratios against the normal equations, solved directly, and against a field that is known.
#include "gadgets/numerics/mri/intensity/receive_ratio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stop_token>

#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::Extents;
using numerics::receive_ratio;

/// Two coils' magnitudes of one object, and the ratio of their sensitivities.
struct Seen {
  Extents n;
  std::vector<double> seen, reference, truth;

  explicit Seen(const Extents& extents, double noise = 0) : n(extents) {
    Random random(3);
    const auto half = [](std::int64_t i, std::int64_t of) {
      return of > 1 ? (static_cast<double>(i) - static_cast<double>(of / 2)) / (static_cast<double>(of) / 2) : 0;
    };
    for (std::int64_t z = 0; z < n[0]; ++z)
      for (std::int64_t y = 0; y < n[1]; ++y)
        for (std::int64_t x = 0; x < n[2]; ++x) {
          const double u = half(x, n[2]), v = half(y, n[1]), w = half(z, n[0]);
          truth.push_back(3 * std::exp(0.8 * u - 0.5 * v + 0.6 * u * u - 0.4 * u * v + 0.3 * w));
          const double r = u * u / 0.64 + v * v / 0.75 + w * w / 0.8;
          const double object = r < 1 ? 1 + 0.5 * std::sin(9 * u) * std::cos(7 * v) : 0;
          reference.push_back(std::abs(object + noise * numerics::cdouble(random.normal())));
          seen.push_back(std::abs(object * truth.back() + noise * numerics::cdouble(random.normal())));
        }
  }
  /// Standard deviation of field over truth where the object is, over its mean.
  double error(const std::vector<double>& field) const {
    double sum = 0, squares = 0, count = 0;
    for (std::size_t v = 0; v < field.size(); ++v)
      if (reference[v] > 0.4) {
        const double ratio = field[v] / truth[v];
        sum += ratio, squares += ratio * ratio, ++count;
      }
    return std::sqrt(squares / count - sum * sum / count / count) / (sum / count);
  }
};

/// Solves (diag(reference^2) + smoothness max^2 L L) f = reference seen by elimination; L from its definition.
std::vector<double> eliminated(const Seen& of, double smoothness) {
  const std::size_t size = of.seen.size();
  std::vector<std::vector<double>> laplacian(size, std::vector<double>(size, 0)), rows = laplacian;
  const auto at = [&](std::int64_t z, std::int64_t y, std::int64_t x) {
    return static_cast<std::size_t>((z * of.n[1] + y) * of.n[2] + x);
  };
  for (std::int64_t z = 0; z < of.n[0]; ++z)
    for (std::int64_t y = 0; y < of.n[1]; ++y)
      for (std::int64_t x = 0; x < of.n[2]; ++x)
        for (const auto& [dz, dy, dx] :
             std::vector<Extents>{{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}}) {
          if (z + dz < 0 || z + dz >= of.n[0] || y + dy < 0 || y + dy >= of.n[1] || x + dx < 0 || x + dx >= of.n[2])
            continue;
          laplacian[at(z, y, x)][at(z, y, x)] += 1;
          laplacian[at(z, y, x)][at(z + dz, y + dy, x + dx)] -= 1;
        }
  const double most = *std::max_element(of.reference.begin(), of.reference.end());
  std::vector<double> right(size);
  for (std::size_t i = 0; i < size; ++i) {
    right[i] = of.reference[i] * of.seen[i];
    for (std::size_t j = 0; j < size; ++j)
      for (std::size_t k = 0; k < size; ++k) rows[i][j] += smoothness * most * most * laplacian[k][i] * laplacian[k][j];
    rows[i][i] += of.reference[i] * of.reference[i];
  }
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = i + 1; j < size; ++j) {
      const double factor = rows[j][i] / rows[i][i];
      for (std::size_t k = i; k < size; ++k) rows[j][k] -= factor * rows[i][k];
      right[j] -= factor * right[i];
    }
  for (std::size_t i = size; i-- > 0;) {
    for (std::size_t k = i + 1; k < size; ++k) right[i] -= rows[i][k] * right[k];
    right[i] /= rows[i][i];
  }
  return right;
}

TEST(ReceiveRatio, SolvesTheNormalEquations) {
  for (const Extents& n : {Extents{1, 9, 11}, Extents{4, 6, 5}})
    for (const double unit : {1.0, 1e-9}) {  // measured readouts are small numbers
      numerics::ThreadPool threads(1);
      Seen scene(n);
      for (double& v : scene.reference) v *= unit;
      for (double& v : scene.seen) v *= unit;
      const auto truth = eliminated(scene, 0.02);
      const auto found =
          receive_ratio(threads, n, scene.seen, scene.reference, {.smoothness = 0.02, .accuracy = 1e-12});
      double error = 0, norm = 0;
      for (std::size_t v = 0; v < truth.size(); ++v) {
        error += std::pow(found.field[v] - truth[v], 2);
        norm += truth[v] * truth[v];
      }
      EXPECT_LT(std::sqrt(error / norm), 1e-8);  // the residual's bound times the condition, some 1e3
    }
}

// The issue asks for 3 %; noise of 5 % of the object is that of a body coil.
TEST(ReceiveRatio, FindsAKnownFieldInNoise) {
  numerics::ThreadPool threads(1);
  for (const Extents& n : {Extents{1, 32, 32}, Extents{12, 24, 32}}) {
    const Seen quiet(n), noisy(n, 0.05);
    EXPECT_GT(quiet.error(std::vector<double>(quiet.truth.size(), 1)), 0.3);
    EXPECT_LT(quiet.error(receive_ratio(threads, n, quiet.seen, quiet.reference).field), 0.01);
    const auto field = receive_ratio(threads, n, noisy.seen, noisy.reference).field;
    EXPECT_LT(quiet.error(field), 0.03);
    for (const double v : field) EXPECT_TRUE(std::isfinite(v));
  }
}

TEST(ReceiveRatio, RefusesWhatIsNoImage) {
  numerics::ThreadPool threads(1);
  const Seen scene({1, 8, 8});
  const std::vector<double> nothing(64, 0), few(63, 1);
  auto bad = scene.reference;
  bad[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(receive_ratio(threads, scene.n, scene.seen, nothing), std::invalid_argument);
  EXPECT_THROW(receive_ratio(threads, scene.n, few, scene.reference), std::invalid_argument);
  EXPECT_THROW(receive_ratio(threads, scene.n, scene.seen, bad), std::invalid_argument);
  EXPECT_THROW(receive_ratio(threads, scene.n, bad, scene.reference), std::invalid_argument);
  EXPECT_EQ(receive_ratio(threads, scene.n, nothing, scene.reference).field, nothing);
}

TEST(ReceiveRatio, Stops) {
  std::stop_source stop;
  stop.request_stop();
  numerics::ThreadPool all(1), threads(all, stop.get_token());
  const Seen scene({1, 8, 8});
  EXPECT_THROW(receive_ratio(threads, scene.n, scene.seen, scene.reference), numerics::Stopped);
}

}  // namespace
}  // namespace echotrain::testing
