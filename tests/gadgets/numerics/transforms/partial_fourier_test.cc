// Homodyne detection and POCS against their formulas in float64, and against objects that they must recover.
#include "gadgets/numerics/transforms/partial/partial_fourier.h"

#include <numbers>

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

constexpr double kTolerance = 1e-5;  // of operations (CONTRIBUTING.md)
using Item = std::vector<cdouble>;   // one coil, centred
using Box = AcquiredBox;

/// Centred transform of all axes, unscaled, by its sum along each axis.
Item transformed(Item data, const Shape& n, double sign) {
  std::int64_t stride = 1;
  for (std::size_t a = 3; a-- > 0; stride *= n[a]) {
    const Item from = data;
    for (std::int64_t i = 0; i < n.size(); ++i) {
      const std::int64_t at = i / stride % n[a];
      cdouble sum = 0;
      for (std::int64_t j = 0; j < n[a]; ++j)
        sum += from[static_cast<std::size_t>(i + (j - at) * stride)] *
               std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>((j - n[a] / 2) * (at - n[a] / 2)) /
                                   static_cast<double>(n[a]));
      data[static_cast<std::size_t>(i)] = sum;
    }
  }
  return data;
}

/// Index along each axis.
std::array<std::int64_t, 3> index_of(std::int64_t i, const Shape& n) {
  return {i / (n[1] * n[2]), i / n[2] % n[1], i % n[2]};
}
bool holds(const Box& box, std::size_t a, std::int64_t i) { return i >= box.first[a] && i < box.last[a]; }
std::int64_t band_of(const Box& box, std::size_t a, const Shape& n) {
  return std::min(n[a] / 2 - box.first[a], box.last[a] - 1 - n[a] / 2);
}
bool is_one_sided(const Box& box, std::size_t a, const Shape& n) {
  return std::abs((n[a] / 2 - box.first[a]) - (box.last[a] - 1 - n[a] / 2)) > 1;
}

/// exp(i phase) of the low-pass image.
Item units(const Item& d, const Box& box, const Shape& n) {
  Item low = d;
  for (std::int64_t i = 0; i < n.size(); ++i)
    for (std::size_t a = 0; a < 3; ++a) {
      if (!is_one_sided(box, a, n)) continue;
      const auto k = static_cast<double>(std::abs(index_of(i, n)[a] - n[a] / 2)),
                 band = static_cast<double>(band_of(box, a, n));
      low[static_cast<std::size_t>(i)] *= k > band ? 0 : 0.5 + 0.5 * std::cos(std::numbers::pi * k / band);
    }
  Item image = transformed(low, n, 1);
  for (cdouble& v : image) v /= std::abs(v);
  return image;
}

Item pocs_formula(const Item& d, const Box& box, const Shape& n, int iterations, std::int64_t transition) {
  const Item u = units(d, box, n);
  Item spectrum = d;
  for (int i = 0; i < iterations; ++i) {
    Item image = transformed(spectrum, n, 1);
    for (std::size_t v = 0; v < image.size(); ++v) image[v] = std::abs(image[v]) * u[v] / static_cast<double>(n.size());
    const Item x = transformed(image, n, -1);
    for (std::int64_t k = 0; k < n.size(); ++k) {
      double m = 1;
      bool opposite = true;
      for (std::size_t a = 0; a < 3; ++a) {
        const std::int64_t at = index_of(k, n)[a], mirrored = (2 * (n[a] / 2) - at) % n[a];
        opposite = opposite && holds(box, a, mirrored);
        if (!holds(box, a, at)) m = 0;
        if (!is_one_sided(box, a, n) || transition == 0) continue;
        const bool below = n[a] / 2 - box.first[a] < box.last[a] - 1 - n[a] / 2;
        const std::int64_t edge = below ? at - box.first[a] : box.last[a] - 1 - at;
        const std::int64_t width = std::min(transition, band_of(box, a, n));
        if (edge < width)
          m *= 0.5 - 0.5 * std::cos(std::numbers::pi * (static_cast<double>(edge) + 0.5) / static_cast<double>(width));
      }
      const auto s = static_cast<std::size_t>(k);
      spectrum[s] = m > 0 || opposite ? m * d[s] + (1 - m) * x[s] : 0.0;
    }
  }
  return spectrum;
}

Item homodyne_formula(const Item& d, const Box& box, const Shape& n, std::size_t axis) {
  const Item u = units(d, box, n);
  const bool below = n[axis] / 2 - box.first[axis] < box.last[axis] - 1 - n[axis] / 2;
  Item weighted = d;
  for (std::int64_t k = 0; k < n.size(); ++k) {
    const std::int64_t at = index_of(k, n)[axis] - n[axis] / 2;
    if (2 * at == -n[axis]) continue;  // its own opposite
    const double ramp = static_cast<double>(below ? at : -at) / static_cast<double>(band_of(box, axis, n));
    weighted[static_cast<std::size_t>(k)] *= std::min(2.0, std::max(0.0, 1 + ramp));
  }
  Item image = transformed(weighted, n, 1);
  for (std::size_t v = 0; v < image.size(); ++v)
    image[v] = (image[v] * std::conj(u[v])).real() * u[v] / static_cast<double>(n.size());
  return transformed(image, n, -1);
}

/// Data of two coils, with more in the middle as measured data have, and zeros outside the box.
std::vector<cfloat> boxed_data(const Box& box, const Shape& n, unsigned seed) {
  auto data = Random(seed).normals(2 * n.size());
  for (std::int64_t i = 0; i < 2 * n.size(); ++i) {
    const auto at = index_of(i % n.size(), n);
    double radius = 0;
    bool inside = true;
    for (std::size_t a = 0; a < 3; ++a) {
      radius += std::pow(static_cast<double>(at[a] - n[a] / 2), 2);
      inside = inside && holds(box, a, at[a]);
    }
    data[static_cast<std::size_t>(i)] *= inside ? static_cast<float>(1 / (1 + radius)) : 0.0f;
  }
  return data;
}
Item coil_of(const std::vector<cfloat>& data, const Shape& n, std::int64_t coil) {
  return {data.begin() + coil * n.size(), data.begin() + (coil + 1) * n.size()};
}

struct BoxCase {
  Shape n;
  Box box;
  std::size_t axis;  // the one for homodyne
};
std::vector<BoxCase> box_cases() {
  return {
      {{1, 16, 15}, {{0, 5, 0}, {1, 16, 15}}, 1},  // lines missing below
      {{1, 16, 15}, {{0, 0, 0}, {1, 11, 15}}, 1},  // above; row 0 is its own opposite
      {{1, 15, 16}, {{0, 5, 0}, {1, 15, 16}}, 1},  // odd
      {{1, 14, 17}, {{0, 0, 0}, {1, 14, 12}}, 2},  // a partial echo
      {{1, 16, 18}, {{0, 5, 6}, {1, 16, 18}}, 1},  // both
      {{1, 16, 18}, {{0, 5, 3}, {1, 16, 15}}, 1},  // and one that is only low in resolution
      {{9, 8, 10}, {{3, 0, 0}, {9, 6, 10}}, 0},
  };
}

template <class B>
class PartialFourierTest : public testing::OnBackend<B> {
 protected:
  template <class Fill>
  std::vector<cfloat> filled(const std::vector<cfloat>& data, const Shape& n, const Fill& fill) {
    auto kspace = this->upload(data, {2, n[0], n[1], n[2]});
    fill(kspace.view());
    return this->download(kspace);
  }
};
TYPED_TEST_SUITE(PartialFourierTest, Backends, testing::BackendNames);

TYPED_TEST(PartialFourierTest, PocsIsItsFormula) {
  unsigned seed = 1;
  for (const auto& [n, box, axis] : box_cases())
    for (const auto& [iterations, transition] : {std::pair{1, 0}, {1, 3}, {3, 0}, {4, 20}}) {
      SCOPED_TRACE(n.text() + " " + std::to_string(iterations) + " " + std::to_string(transition));
      const auto data = boxed_data(box, n, seed++);
      const auto got = this->filled(data, n, [&, &b = box, i = iterations, t = transition](DeviceView<cfloat> k) {
        pocs(this->context(), k, b, i, t);
      });
      for (const std::int64_t coil : {0, 1}) {
        const Item truth = pocs_formula(coil_of(data, n, coil), box, n, iterations, transition);
        EXPECT_LT(testing::relative_error(coil_of(got, n, coil), truth, truth.size()), kTolerance);
      }
      if (transition > 0) continue;
      for (std::size_t i = 0; i < data.size(); ++i)
        if (data[i] != cfloat()) {
          ASSERT_EQ(got[i], data[i]) << "an acquired point";
        }
    }
}

TYPED_TEST(PartialFourierTest, HomodyneIsItsFormula) {
  unsigned seed = 50;
  for (const auto& [n, box, axis] : box_cases()) {
    SCOPED_TRACE(n.text());
    const auto data = boxed_data(box, n, seed++);
    const auto got = this->filled(data, n, [&, &b = box, a = axis](DeviceView<cfloat> k) {
      homodyne(this->context(), k, b, static_cast<int>(a));
    });
    for (const std::int64_t coil : {0, 1}) {
      const Item truth = homodyne_formula(coil_of(data, n, coil), box, n, axis);
      EXPECT_LT(testing::relative_error(coil_of(got, n, coil), truth, truth.size()), kTolerance);
    }
  }
}

// What both methods assume: an object that is real but for one phase. Homodyne detection gives it back at once.
TYPED_TEST(PartialFourierTest, RealObjectsComeBack) {
  for (const bool below : {true, false})
    for (const std::int64_t extent : {24, 25}) {
      const Shape n{1, extent, 20};
      Item object;
      Random random(7);
      for (std::int64_t i = 0; i < 2 * n.size(); ++i)
        object.push_back(std::polar(random.uniform(0.5, 1.5), i < n.size() ? 0.7 : -2.0));
      std::vector<cfloat> data;
      std::vector<cdouble> truth;
      const Box box = below ? Box{{0, 7, 0}, {1, extent, 20}} : Box{{0, 0, 0}, {1, 17, 20}};
      for (const std::int64_t coil : {0, 1}) {
        const auto begin = object.begin() + coil * n.size();
        const Item spectrum = transformed(Item(begin, begin + n.size()), n, -1);
        for (std::int64_t i = 0; i < n.size(); ++i) {
          const std::int64_t y = index_of(i, n)[1];
          const cdouble value = spectrum[static_cast<std::size_t>(i)];
          data.push_back(holds(box, 1, y) ? cfloat(value) : cfloat());
          truth.push_back(below && extent == 24 && y == 0 ? 0.0 : value);  // its own opposite, and not acquired
        }
      }
      const auto got = this->filled(data, n, [&](DeviceView<cfloat> k) { homodyne(this->context(), k, box, 1); });
      EXPECT_LT(testing::relative_error(got, truth, truth.size()), kTolerance) << extent;
      const auto some = this->filled(data, n, [&](DeviceView<cfloat> k) { pocs(this->context(), k, box, 1); }),
                 more = this->filled(data, n, [&](DeviceView<cfloat> k) { pocs(this->context(), k, box, 20); });
      const double zeros = testing::relative_error(data, truth, truth.size()),
                   one = testing::relative_error(some, truth, truth.size()),
                   twenty = testing::relative_error(more, truth, truth.size());
      EXPECT_LT(one, 0.75 * zeros);  // what is missing is halved at least where the magnitude is that of the object
      EXPECT_LT(twenty, 0.5 * one);
    }
}

TYPED_TEST(PartialFourierTest, NothingIsFilledWithoutAnOppositeSide) {
  struct Whole {
    Shape n;
    Box box;
  };
  for (const auto& [n, box] : {Whole{{1, 12, 11}, {{0, 0, 0}, {1, 12, 11}}},
                               Whole{{1, 12, 11}, {{0, 3, 2}, {1, 10, 9}}}, Whole{{4, 6, 5}, {{0, 0, 0}, {4, 6, 5}}}}) {
    const auto data = boxed_data(box, n, 90);
    for (int axis = 0; axis < 3; ++axis)
      EXPECT_EQ(this->filled(data, n, [&, &b = box](DeviceView<cfloat> k) { homodyne(this->context(), k, b, axis); }),
                data);
    EXPECT_EQ(this->filled(data, n, [&, &b = box](DeviceView<cfloat> k) { pocs(this->context(), k, b, 3, 2); }), data);
  }
}

TYPED_TEST(PartialFourierTest, RefusesWhatCannotBe) {
  Context& context = this->context();
  auto k = context.template zeros<cfloat>({1, 1, 16, 16}), flat = context.template zeros<cfloat>({16, 16});
  const Box good{{0, 5, 0}, {1, 16, 16}};
  EXPECT_NO_THROW(pocs(context, k.view(), good, 1));
  EXPECT_THROW(pocs(context, flat.view(), good, 1), std::invalid_argument);
  EXPECT_THROW(pocs(context, k.view(), good, 0), std::invalid_argument);
  EXPECT_THROW(pocs(context, k.view(), good, 101), std::invalid_argument);
  EXPECT_THROW(pocs(context, k.view(), good, 1, -1), std::invalid_argument);
  EXPECT_THROW(homodyne(context, k.view(), good, 3), std::invalid_argument);
  EXPECT_THROW(pocs(context, k.view(), {{0, 8, 0}, {1, 16, 16}}, 1), std::invalid_argument);  // the centre is the edge
  EXPECT_THROW(pocs(context, k.view(), {{0, 9, 0}, {1, 16, 16}}, 1), std::invalid_argument);
  EXPECT_THROW(pocs(context, k.view(), {{0, 5, 0}, {1, 17, 16}}, 1), std::invalid_argument);
  EXPECT_THROW(pocs(context, k.view(), {{0, 5, 0}, {0, 16, 16}}, 1), std::invalid_argument);
}

TEST(OneSidedTest, CountsWhatCanBeFilled) {
  const auto expect = [](std::int64_t n, std::int64_t first, std::int64_t last, bool sided, std::int64_t missing,
                         std::int64_t band) {
    const OneSided got = one_sided(n, first, last);
    EXPECT_EQ(got.one_sided, sided) << n << " " << first << " " << last;
    EXPECT_EQ(got.missing, missing) << n << " " << first << " " << last;
    EXPECT_EQ(got.band, band) << n << " " << first << " " << last;
  };
  expect(16, 0, 16, false, 0, 7);
  expect(16, 1, 16, false, 0, 7);
  expect(15, 0, 15, false, 0, 7);
  expect(16, 6, 16, true, 5, 2);   // -7 .. -3, opposite to 3 .. 7
  expect(16, 0, 11, true, 5, 2);   // 3 .. 7
  expect(15, 0, 10, true, 5, 2);   // 3 .. 7 of -7 .. 7
  expect(16, 4, 13, false, 0, 4);  // low resolution
}

}  // namespace
}  // namespace echotrain::numerics
