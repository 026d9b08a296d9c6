// Unringing against Kellner's method by direct sums in float64, and of a phantom whose k-space is known.
#include "gadgets/numerics/transforms/partial/unring.h"

#include <cmath>
#include <numbers>

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;
using Plane = std::vector<cdouble>;  // [y, x]

double frequency(std::int64_t k, std::int64_t n) { return static_cast<double>(2 * k < n ? k : k - n); }

/// One line's values at x + s, by its discrete Fourier series.
std::vector<cdouble> moved(const std::vector<cdouble>& line, double s) {
  const auto n = static_cast<std::int64_t>(line.size());
  std::vector<cdouble> out(line.size());
  for (std::int64_t k = 0; k < n; ++k) {
    cdouble c = 0;
    const double turn = 2 * std::numbers::pi * frequency(k, n) / static_cast<double>(n);
    for (std::int64_t x = 0; x < n; ++x)
      c += line[static_cast<std::size_t>(x)] * std::polar(1.0, -turn * static_cast<double>(x));
    cdouble by = std::polar(1.0, turn * s);
    if (2 * k == n) by = by.real();
    for (std::int64_t x = 0; x < n; ++x)
      out[static_cast<std::size_t>(x)] +=
          c * by * std::polar(1 / static_cast<double>(n), turn * static_cast<double>(x));
  }
  return out;
}

/// A line unringed, and which of its voxels have a second shift that is as good as the best but for rounding.
void unring_line(std::vector<cdouble>& line, int shifts, std::vector<bool>& doubtful) {
  const auto n = static_cast<std::int64_t>(line.size());
  std::vector<double> least(line.size(), INFINITY), second(line.size(), INFINITY);
  std::vector<cdouble> out(line.size());
  for (int m = -shifts; m <= shifts; ++m) {
    const double s = m / (2.0 * shifts);
    const std::vector<cdouble> at = moved(line, s);
    const auto value = [&](std::int64_t x) { return at[static_cast<std::size_t>((x + n) % n)]; };
    for (std::int64_t x = 0; x < n; ++x) {
      double left = 0, right = 0;
      for (int i = 1; i <= 3; ++i) {
        right += std::abs(value(x + i + 1) - value(x + i));
        left += std::abs(value(x - i) - value(x - i - 1));
      }
      const double found = std::min(left, right);
      const auto v = static_cast<std::size_t>(x);
      if (found < least[v]) {
        second[v] = least[v];
        least[v] = found;
        out[v] = (1 - std::abs(s)) * value(x) + std::abs(s) * value(s > 0 ? x - 1 : x + 1);
      } else {
        second[v] = std::min(second[v], found);
      }
    }
  }
  for (std::size_t v = 0; v < line.size(); ++v) doubtful[v] = second[v] < least[v] * (1 + 1e-4);
  line = out;
}

struct Unringed {
  Plane image;
  std::vector<bool> doubtful;
};
Unringed by_its_method(const Plane& image, std::int64_t ny, std::int64_t nx, int shifts) {
  Unringed out{Plane(image.size()), std::vector<bool>(image.size())};
  for (const bool along_y : {false, true}) {
    Plane part(image.size());
    for (std::int64_t ky = 0; ky < ny; ++ky)
      for (std::int64_t kx = 0; kx < nx; ++kx) {
        const double cy = 1 + std::cos(2 * std::numbers::pi * static_cast<double>(ky) / static_cast<double>(ny)),
                     cx = 1 + std::cos(2 * std::numbers::pi * static_cast<double>(kx) / static_cast<double>(nx));
        const double g = cx + cy < 1e-12 ? 0.5 : (along_y ? cx : cy) / (cx + cy);
        const auto turn = [&](std::int64_t y, std::int64_t x) {
          return 2 * std::numbers::pi *
                 (static_cast<double>(ky * y) / static_cast<double>(ny) +
                  static_cast<double>(kx * x) / static_cast<double>(nx));
        };
        cdouble c = 0;
        for (std::int64_t i = 0; i < ny * nx; ++i)
          c += image[static_cast<std::size_t>(i)] * std::polar(1.0, -turn(i / nx, i % nx));
        for (std::int64_t i = 0; i < ny * nx; ++i)
          part[static_cast<std::size_t>(i)] += c * std::polar(g / static_cast<double>(ny * nx), turn(i / nx, i % nx));
      }
    const std::int64_t n = along_y ? ny : nx, step = along_y ? nx : 1;
    for (std::int64_t l = 0; l < (along_y ? nx : ny); ++l) {
      const std::int64_t first = along_y ? l : l * nx;
      std::vector<cdouble> line;
      std::vector<bool> doubtful(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) line.push_back(part[static_cast<std::size_t>(first + i * step)]);
      unring_line(line, shifts, doubtful);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto v = static_cast<std::size_t>(first + i * step);
        out.image[v] += line[static_cast<std::size_t>(i)];
        if (doubtful[static_cast<std::size_t>(i)]) out.doubtful[v] = true;
      }
    }
  }
  return out;
}

/// A smooth-phased rectangle from its sinc-shaped k-space of n x n points: the image of n x n voxels rings.
/// With `hann`, its k-space is multiplied by that window.
Plane ringing_box(std::int64_t n, double left, double right, bool hann = false) {
  const auto series = [&](double x) {
    cdouble sum = 0;
    for (std::int64_t k = -n / 2; k < n - n / 2; ++k) {
      const double w = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
      const cdouble c =
          k == 0 ? cdouble(right - left) : (std::polar(1.0, -w * left) - std::polar(1.0, -w * right)) / cdouble(0, w);
      sum += (hann ? 0.5 + 0.5 * std::cos(w) : 1.0) * c * std::polar(1 / static_cast<double>(n), w * x);
    }
    return sum;
  };
  Plane out;
  std::vector<cdouble> line;
  for (std::int64_t x = 0; x < n; ++x) line.push_back(series(static_cast<double>(x)));
  for (std::int64_t y = 0; y < n; ++y)
    for (std::int64_t x = 0; x < n; ++x)
      out.push_back(line[static_cast<std::size_t>(y)] * line[static_cast<std::size_t>(x)]);
  return out;
}

template <class B>
class UnringTest : public testing::OnBackend<B> {
 protected:
  std::vector<cfloat> unringed(const std::vector<cfloat>& values, const Shape& shape, int shifts) {
    auto data = this->upload(values, shape);
    unring(this->context(), data.view(), shifts);
    return this->download(data);
  }
};
TYPED_TEST_SUITE(UnringTest, Backends, testing::BackendNames);

TYPED_TEST(UnringTest, IsItsMethod) {
  for (const auto& [ny, nx, shifts] : {std::tuple{16, 18, 20}, {17, 12, 7}, {8, 15, 1}}) {
    SCOPED_TRACE(std::to_string(ny) + " x " + std::to_string(nx));
    const std::int64_t voxels = ny * nx;
    auto values = Random(5).normals(2 * voxels);
    for (std::size_t i = 0; i < values.size(); ++i)  // an edge in noise
      if (i % static_cast<std::size_t>(nx) > 5) values[i] += cfloat(20, -9);
    const auto got = this->unringed(values, {2, ny, nx}, shifts);
    for (const std::int64_t item : {0, 1}) {
      const auto begin = values.begin() + item * voxels;
      const Unringed truth = by_its_method(Plane(begin, begin + voxels), ny, nx, shifts);
      double error = 0, size = 0;
      std::int64_t doubts = 0;
      for (std::int64_t v = 0; v < voxels; ++v) {
        const auto i = static_cast<std::size_t>(v);
        if (truth.doubtful[i] && ++doubts) continue;
        error += std::norm(cdouble(got[static_cast<std::size_t>(item * voxels + v)]) - truth.image[i]);
        size += std::norm(truth.image[i]);
      }
      EXPECT_LT(std::sqrt(error / size), 1e-5);
      EXPECT_LE(doubts, voxels / 20);
    }
  }
}

// Ringing in the flat parts goes, and beside edges the image is as near to the object as before: what is blurred is
// not.
TYPED_TEST(UnringTest, TakesRingingAwayAndKeepsEdges) {
  constexpr std::int64_t kN = 64;
  for (const double off : {0.1, 0.35, 0.5}) {
    const double left = 16 + off, right = 44 + off;
    const Plane before = ringing_box(kN, left, right), windowed = ringing_box(kN, left, right, true);
    std::vector<cfloat> values;
    for (const cdouble& v : before) values.emplace_back(v * std::polar(1.0, 0.6));
    const auto after = this->unringed(values, {kN, kN}, 20);
    double rings_before = 0, rings_after = 0, edges_windowed = 0, edges_after = 0;
    for (std::int64_t y = 0; y < kN; ++y)
      for (std::int64_t x = 0; x < kN; ++x) {
        const auto i = static_cast<std::size_t>(y * kN + x);
        const auto dx = static_cast<double>(x), dy = static_cast<double>(y);
        const double away =
            std::min({std::abs(dx - left), std::abs(dx - right), std::abs(dy - left), std::abs(dy - right)});
        const double truth = dx > left && dx < right && dy > left && dy < right ? 1 : 0;
        if (away > 2)
          rings_before += std::norm(before[i] - truth);
        else
          edges_windowed += std::norm(windowed[i] - truth);
        (away > 2 ? rings_after : edges_after) += std::norm(cdouble(after[i]) * std::polar(1.0, -0.6) - truth);
      }
    EXPECT_LT(rings_after, 0.25 * rings_before) << off;  // half of the amplitude and more
    EXPECT_LT(edges_after, edges_windowed) << off;
  }
}

TYPED_TEST(UnringTest, RefusesWhatCannotBe) {
  auto data = this->context().template zeros<cfloat>({2, 16, 16}), line = this->context().template zeros<cfloat>({16}),
       narrow = this->context().template zeros<cfloat>({16, 7});
  EXPECT_NO_THROW(unring(this->context(), data.view(), 3));
  EXPECT_THROW(unring(this->context(), data.view(), 0), std::invalid_argument);
  EXPECT_THROW(unring(this->context(), data.view(), kMostUnringShifts + 1), std::invalid_argument);
  EXPECT_THROW(unring(this->context(), line.view(), 3), std::invalid_argument);
  EXPECT_THROW(unring(this->context(), narrow.view(), 3), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
