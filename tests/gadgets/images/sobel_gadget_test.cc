// The edges of images: against ramps, whose gradient is known exactly, and Sobel's kernels written out in float64.
#include "gadgets/images/sobel_gadget.h"

#include <cmath>
#include <limits>

#include "tests/gadgets/scan.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

using numerics::Shape;

// Along x, to be turned for other axes: [dz][dy][dx] of dx = -1, 0, 1.
constexpr double kFlat[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};  // / 8
constexpr double kSolid[3][3][3] = {{{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}},
                                    {{-2, 0, 2}, {-4, 0, 4}, {-2, 0, 2}},
                                    {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}}};  // / 32

/// Images [coil, z, y, x] on the host.
struct Voxels {
  Shape n;
  std::vector<cfloat> values;

  std::int64_t index(std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return ((c * n[1] + z) * n[2] + y) * n[3] + x;
  }
  cfloat at(std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return values.at(static_cast<std::size_t>(index(c, z, y, x)));
  }
  double size(std::int64_t c, std::int64_t z, std::int64_t y,
              std::int64_t x) const {  // border voxels are repeated outside
    return std::abs(cdouble(at(c, std::clamp<std::int64_t>(z, 0, n[1] - 1), std::clamp<std::int64_t>(y, 0, n[2] - 1),
                               std::clamp<std::int64_t>(x, 0, n[3] - 1))));
  }
  /// Components x, y, z per voxel; of 2 axes z is 0.
  std::array<double, 3> gradient(int axes, std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t x) const {
    std::array<double, 3> g{};
    for (int a = -1; a <= 1; ++a)
      for (int b = -1; b <= 1; ++b)
        for (int d = -1; d <= 1; ++d) {
          if (axes == 2) {
            if (a != 0) continue;
            const double k = kFlat[b + 1][d + 1] / 8;
            g[0] += k * size(c, z, y + b, x + d);
            g[1] += k * size(c, z, y + d, x + b);
          } else {
            const double k = kSolid[a + 1][b + 1][d + 1] / 32;
            g[0] += k * size(c, z + a, y + b, x + d);
            g[1] += k * size(c, z + a, y + d, x + b);
            g[2] += k * size(c, z + d, y + a, x + b);
          }
        }
    return g;
  }
  template <class F>
  void each(const F& f) const {
    for (std::int64_t c = 0; c < n[0]; ++c)
      for (std::int64_t z = 0; z < n[1]; ++z)
        for (std::int64_t y = 0; y < n[2]; ++y)
          for (std::int64_t x = 0; x < n[3]; ++x) f(c, z, y, x);
  }
};

Voxels ramp(const Shape& n, double gx, double gy, double gz) {
  Voxels out{n, {}};
  out.each([&](auto, auto z, auto y, auto x) {
    out.values.emplace_back(static_cast<float>(64 + gx * static_cast<double>(x) + gy * static_cast<double>(y) +
                                               gz * static_cast<double>(z)));
  });
  return out;
}

Voxels random_voxels(const Shape& n, unsigned seed) {
  std::mt19937 random(seed);
  return {n, noise(static_cast<std::size_t>(n.size()), random, 5)};
}

class SobelTest : public OnEachBackend {
 protected:
  /// The gadget's output for images whose field of view is `fov`.
  Voxels edges(const Voxels& voxels, const Sobel::Options& options, std::array<double, 3> fov = {1, 1, 1}) {
    numerics::Context compute(GetParam(), test_resources());
    Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
    Sobel gadget(options);
    gadget.start(header({.encoded_fov = fov}), scan);
    HostArray<cfloat> host = compute.allocate_host<cfloat>(voxels.n);
    std::copy(voxels.values.begin(), voxels.values.end(), host.data());
    const auto frame = std::make_shared<Frame>();
    frame->notes = {{"WindowCenter", "500"}, {"WindowWidth", "1000"}, {"slices", "3"}};
    Voxels out;
    int given = 0;
    gadget.process({frame, compute.place(host)}, [&](CoilImages&& images) {
      ++given;
      out = {images.data.shape(), elements(compute, images.data)};
      notes_ = images.frame->notes;
    });
    EXPECT_EQ(given, 1);
    return out;
  }
  /// The allowed error of a gradient of ramps: whole numbers are exact, but CUDA's magnitudes are off by up to 3 units
  /// in the last place, of values up to 128.
  double off() const { return GetParam() == Backend::cpu ? 0 : 5e-5; }
  std::map<std::string, std::string> notes_;  // of the image made last
};

TEST_P(SobelTest, ARampHasItsSlopeAndDirection) {
  for (const auto& [gx, gy] : {std::pair{3, 4}, {-3, 4}, {-3, -4}, {3, -4}, {1, 0}, {-1, 0}, {0, 1}, {0, -1}}) {
    SCOPED_TRACE(fmt::format("slope {}, {}", gx, gy));
    const Voxels plane = ramp({1, 1, 9, 11}, gx, gy, 0);
    const Voxels size = edges(plane, {.output = "magnitude"}), direction = edges(plane, {.output = "direction"}),
                 both = edges(plane, {.output = "both"});
    for (const Voxels* image : {&size, &direction, &both}) ASSERT_EQ(image->n, plane.n);
    const double slope = std::hypot(gx, gy);
    const cfloat vector(static_cast<float>(gx), static_cast<float>(gy));
    for (std::int64_t y = 1; y < 8; ++y)
      for (std::int64_t x = 1; x < 10; ++x) {
        const cfloat unit(static_cast<float>(gx / slope), static_cast<float>(gy / slope));
        ASSERT_LE(std::abs(size.at(0, 0, y, x) - cfloat(static_cast<float>(slope))), off());
        ASSERT_LE(std::abs(both.at(0, 0, y, x) - vector), off());
        ASSERT_LE(std::abs(direction.at(0, 0, y, x) - unit), off());
        // The phase as `image` computes it: pi, not -pi, along -x.
        ASSERT_NEAR(std::arg(direction.at(0, 0, y, x)), std::atan2(gy, gx), 1e-6 + off());
      }
    // Across a border the gradient is half the difference, along it the slope.
    ASSERT_LE(std::abs(both.at(0, 0, 4, 0) - cfloat(vector.real() / 2, vector.imag())), off());
    ASSERT_LE(std::abs(both.at(0, 0, 8, 5) - cfloat(vector.real(), vector.imag() / 2)), off());
  }
  const Voxels volume = ramp({1, 7, 8, 9}, 2, -3, 6), both = edges(volume, {.output = "both"}),
               direction = edges(volume, {.output = "direction"});
  ASSERT_EQ(both.n, (Shape{4, 7, 8, 9}));
  ASSERT_EQ(direction.n, (Shape{3, 7, 8, 9}));
  const std::array<float, 4> want{7, 2.0f / 7, -3.0f / 7, 6.0f / 7};
  for (std::int64_t c = 0; c < 4; ++c) {
    const cfloat right(want[static_cast<std::size_t>(c)]);
    EXPECT_LE(std::abs(both.at(c, 3, 4, 5) - right), off());
    if (c > 0) {
      EXPECT_LE(std::abs(direction.at(c - 1, 3, 4, 5) - right), off());
    }
  }
}

TEST_P(SobelTest, PerMillimetreIsTheSlopeInThePatient) {
  // 2 per voxel of 0.5 mm along x, 3 per 0.25 mm along y, 6 per 4 mm along z: 4, 12 and 1.5 per mm.
  const Voxels volume = ramp({1, 8, 8, 8}, 2, 3, 6), both = edges(volume, {.output = "both", .per = "mm"}, {4, 2, 32});
  const double size = std::sqrt(16 + 144 + 2.25);
  const std::array<double, 4> want{size, 4 / size, 12 / size, 1.5 / size};
  for (std::int64_t c = 0; c < 4; ++c)
    EXPECT_NEAR(both.at(c, 4, 4, 4).real(), want[static_cast<std::size_t>(c)], 1e-6 * size + 4 * off());
  const Voxels planes = edges(volume, {.output = "both", .dimensions = "2", .per = "mm"}, {4, 2, 32});
  EXPECT_LE(std::abs(planes.at(0, 4, 4, 4) - cfloat(4, 12)), 4 * off());
  EXPECT_EQ(notes_.at("gradient"), "both, 2D, per mm");
}

TEST_P(SobelTest, GradientByTheWrittenOutKernels) {
  struct Case {
    Shape n;
    std::string dimensions;
    int axes;
  };
  for (const Case& c : {Case{{3, 1, 13, 17}, "auto", 2},
                        {{1, 1, 1, 5}, "2", 2},
                        {{1, 1, 6, 1}, "auto", 2},
                        {{2, 5, 7, 9}, "auto", 3},
                        {{2, 5, 7, 9}, "2", 2},
                        {{1, 2, 3, 70}, "3", 3},
                        {{2, 9, 11, 1}, "auto", 3}})
    for (const std::string per : {"voxel", "mm"}) {
      SCOPED_TRACE(fmt::format("{}, dimensions {}, per {}", c.n.text(), c.dimensions, per));
      const Voxels image = random_voxels(c.n, 71);
      const std::array<double, 3> fov{20, 30, 12};
      const auto of = [&](const char* output) { return edges(image, {output, c.dimensions, per}, fov); };
      const Voxels size = of("magnitude"), direction = of("direction"), both = of("both");
      const std::int64_t parts = c.axes == 2 ? 1 : 3, all = c.axes == 2 ? 1 : 4;
      ASSERT_EQ(size.n, c.n);
      ASSERT_EQ(direction.n, (Shape{c.n[0] * parts, c.n[1], c.n[2], c.n[3]}));
      ASSERT_EQ(both.n, (Shape{c.n[0] * all, c.n[1], c.n[2], c.n[3]}));
      image.each([&](auto coil, auto z, auto y, auto x) {
        auto g = image.gradient(c.axes, coil, z, y, x);
        if (per == "mm")
          for (std::size_t a = 0; a < 3; ++a) g[a] *= static_cast<double>(c.n[3 - a]) / fov[a];
        const double right = std::sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]);
        // Magnitudes up to 25 and their sums are rounded to some 1e-6 each; that turns small gradients most.
        const double off = 5e-5, turned = std::min(2.0, 2 * off / right);
        ASSERT_NEAR(size.at(coil, z, y, x).real(), right, off);
        ASSERT_EQ(size.at(coil, z, y, x).imag(), 0);
        if (c.axes == 2) {
          const cdouble vector(g[0], g[1]);
          ASSERT_LT(std::abs(cdouble(both.at(coil, z, y, x)) - vector), off);
          if (right > 0) {
            ASSERT_LT(std::abs(cdouble(direction.at(coil, z, y, x)) - vector / right), turned);
          }
          return;
        }
        ASSERT_EQ(both.at(4 * coil, z, y, x), size.at(coil, z, y, x));
        for (std::int64_t a = 0; a < 3; ++a) {
          const cfloat unit = direction.at(3 * coil + a, z, y, x);
          ASSERT_LT(std::abs(cdouble(unit) - g[static_cast<std::size_t>(a)] / right), turned);
          ASSERT_EQ(both.at(4 * coil + 1 + a, z, y, x), unit);
        }
      });
    }
}

TEST_P(SobelTest, WhereThereIsNoGradientThereIsNoDirection) {
  for (const Shape& n : {Shape{1, 1, 5, 6}, Shape{2, 4, 5, 6}}) {
    const Voxels flat{n, std::vector<cfloat>(static_cast<std::size_t>(n.size()), cfloat(-3, 4))};
    for (const char* output : {"magnitude", "direction", "both"})
      for (const cfloat v : edges(flat, {.output = output}).values) ASSERT_EQ(v, cfloat(0));
  }
  // Sizes whose squares are no floats.
  for (const float unit : {1e-24f, 1e24f}) {
    Voxels image = ramp({1, 1, 5, 6}, 3, 4, 0);
    for (cfloat& v : image.values) v = (v - 64.0f) * unit;
    EXPECT_NEAR(edges(image, {.output = "magnitude"}).at(0, 0, 2, 2).real() / unit, 5, 3e-5);
    EXPECT_LT(std::abs(edges(image, {.output = "direction"}).at(0, 0, 2, 2) - cfloat(0.6f, 0.8f)), 3e-5);
  }
}

TEST_P(SobelTest, WhatIsNotFiniteIsSeenWhereItCounts) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const char* output : {"magnitude", "direction", "both"}) {
      Voxels image = random_voxels({1, 1, 9, 9}, 72);
      const Voxels good = edges(image, {.output = output});
      image.values[4 * 9 + 4] = {bad, 0};
      const Voxels got = edges(image, {.output = output});
      image.each([&](auto, auto, auto y, auto x) {
        const cfloat v = got.at(0, 0, y, x);
        if (std::abs(y - 4) > 1 || std::abs(x - 4) > 1) {
          ASSERT_EQ(v, good.at(0, 0, y, x));
        } else if (y == 4 && std::abs(x - 4) == 1) {
          ASSERT_FALSE(std::isfinite(v.real()) && std::isfinite(v.imag()));
        }
      });
    }
}

TEST_P(SobelTest, AnImageIsWhatItWasButForItsPixels) {
  std::mt19937 random(73);
  const auto measurement = header({.encoded = {9, 6, 1}});
  std::vector<Acquisition> scan;
  for (int y = 0; y < 6; ++y) {
    scan.push_back(readout(1, noise(9, random)));
    scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
  }
  const auto images = [&](const std::string& between, const std::string& component) {
    return run(yaml("  - cartesian_kspace\n  - fft\n" + between + "  - image: {component: " + component + "}\n"),
               measurement, scan, here())
        .images;
  };
  const auto plain = images("", "complex");
  const auto given = images("  - sobel: {output: both, dimensions: 2}\n", "magnitude_and_phase");
  ASSERT_EQ(given.size(), 2u);
  const Voxels image{{1, 1, 6, 9}, pixels<cfloat>(plain.at(0))};
  const auto size = pixels<float>(given[0]), angle = pixels<float>(given[1]);
  image.each([&](auto c, auto z, auto y, auto x) {
    const auto g = image.gradient(2, c, z, y, x);
    const auto v = static_cast<std::size_t>(image.index(c, z, y, x));
    EXPECT_NEAR(size.at(v), std::hypot(g[0], g[1]), 1e-6);
    EXPECT_NEAR(angle.at(v), std::atan2(g[1], g[0]), 1e-4);
  });
  EXPECT_EQ(+given[0].head.image_series_index, 1);
  EXPECT_EQ(+given[1].head.image_series_index, 2);
  EXPECT_EQ(+given[1].head.image_type, 2);  // phase
  for (const auto& edge : given) {
    EXPECT_EQ(+edge.head.matrix_size[0], 9);
    EXPECT_NE(edge.attributes.find("both, 2D, per voxel"), std::string::npos);
  }
  edges(image, {});
  EXPECT_EQ(notes_, (std::map<std::string, std::string>{{"gradient", "magnitude, 2D, per voxel"}, {"slices", "3"}}));
}

TEST_P(SobelTest, WhatItCannotTakeIsRefused) {
  const Voxels slice = random_voxels({1, 1, 4, 4}, 74);
  EXPECT_NE(client_error([&] { edges(slice, {.dimensions = "3"}); }).find("put stack_slices before it"),
            std::string::npos);
  const Voxels many{{20000, 2, 1, 1}, std::vector<cfloat>(40000)};
  EXPECT_NE(client_error([&] { edges(many, {.output = "both"}); }).find("4 channels of each of 20000"),
            std::string::npos);
  const auto refusal = [](const std::string& gadgets) -> std::string {
    try {
      PipelinePlan::check(config::read_pipeline(yaml(gadgets), "p.yaml"));
    } catch (const config::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  for (const std::string wrong : {"output: edges", "dimensions: 4", "per: cm", "strength: 1", "output: [both]"}) {
    const std::string text = refusal("  - cartesian_kspace\n  - fft\n  - sobel: {" + wrong + "}\n  - image\n");
    EXPECT_EQ(text.rfind("p.yaml:7:", 0), 0u) << wrong << ": " << text;
  }
  const std::string early = refusal("  - cartesian_kspace\n  - sobel\n  - fft\n  - image\n");
  EXPECT_NE(early.find("'sobel' takes CoilImages, but 'cartesian_kspace' before it gives KSpace"), std::string::npos)
      << early;
  EXPECT_EQ(refusal("  - cartesian_kspace\n  - fft\n  - sobel: {dimensions: 3}\n  - image\n"), "");
}

ECHOTRAIN_ON_BACKENDS(SobelTest);

}  // namespace
}  // namespace echotrain::testing
