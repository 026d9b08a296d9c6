// Coils that see one object with known weights, combined by pipelines.
#include "gadgets/images/coil_combine.h"

#include "tests/gadgets/blob.h"

namespace echotrain::testing {
namespace {

/// A blob whose phase turns by `turn` cycles per pixel along x, seen by coils that are constant: weights of power 1.
struct Seen {
  Blob blob;
  double turn = 0.02;
  std::vector<cdouble> weights{{0.3, 0.4}, {-0.5, 0.1}, {0.2, -0.5}, std::sqrt(1 - 0.25 - 0.26 - 0.29)};

  cdouble at(double x, double y, double z) const {
    return blob.at(x, y, z) * std::polar(1.0, 2 * std::numbers::pi * turn * x);
  }
  std::vector<cfloat> signal(std::array<double, 3> k) const {
    k[0] -= turn;
    std::vector<cfloat> out;
    for (const cdouble& w : weights) out.emplace_back(w * blob.kspace(k.data()));
    return out;
  }
};

std::vector<Acquisition> cartesian(const Seen& seen, const std::array<int, 3>& n, double sigma = 0) {
  std::mt19937 random(4);
  std::vector<Acquisition> scan;
  const std::size_t coils = seen.weights.size();
  for (int z = 0; z < n[2]; ++z)
    for (int y = 0; y < n[1]; ++y) {
      std::vector<cfloat> data = noise(coils * static_cast<std::size_t>(n[0]), random, sigma);
      for (int x = 0; x < n[0]; ++x) {
        const auto signal =
            seen.signal({(x - n[0] / 2) / static_cast<double>(n[0]), (y - n[1] / 2) / static_cast<double>(n[1]),
                         (z - n[2] / 2) / static_cast<double>(n[2])});
        for (std::size_t c = 0; c < coils; ++c)
          data[c * static_cast<std::size_t>(n[0]) + static_cast<std::size_t>(x)] += signal[c];
      }
      scan.push_back(readout(static_cast<int>(coils), std::move(data)));
      scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
      scan.back().head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(z);
    }
  return scan;
}

std::string cartesian_yaml(const std::string& combine) {
  return yaml("  - cartesian_kspace\n  - fft\n  - coil_combine: {" + combine + "}\n  - image: {component: complex}\n");
}

std::vector<cfloat> only_image(const Outcome& out) {
  EXPECT_EQ(out.images.size(), 1u);
  return pixels<cfloat>(out.images.at(0));
}

using CoilCombineTest = OnEachBackend;

TEST_P(CoilCombineTest, AdaptiveGivesTheObjectWithItsPhase) {
  for (const std::array<int, 3> n : {std::array{40, 37, 1}, {20, 21, 17}})
    for (const std::string parameters : {"method: adaptive", "method: adaptive, block: 2"}) {
      Seen seen;
      seen.blob.dims = n[2] > 1 ? 3 : 2;
      const auto image = only_image(run(cartesian_yaml(parameters), header({.encoded = n, .limits = step_limit(n[1])}),
                                        cartesian(seen, n), here()));
      ASSERT_EQ(image.size(), static_cast<std::size_t>(n[0] * n[1] * n[2]));
      // One phase of the whole image, the virtual coil's, is free.
      const auto centre = static_cast<std::size_t>((n[2] / 2 * n[1] + n[1] / 2) * n[0] + n[0] / 2);
      const cdouble phase = cdouble(image[centre]) / std::abs(cdouble(image[centre]));
      for (int z = 0, v = 0; z < n[2]; ++z)
        for (int y = 0; y < n[1]; ++y)
          for (int x = 0; x < n[0]; ++x, ++v) {
            const cdouble right = phase * seen.at(x - n[0] / 2, y - n[1] / 2, z - n[2] / 2);
            ASSERT_NEAR(std::abs(cdouble(image[static_cast<std::size_t>(v)]) - right), 0, 1e-4) << x << ' ' << y;
          }
    }
}

TEST_P(CoilCombineTest, AdaptiveHoldsLessNoiseThanTheRootSumOfSquares) {
  const std::array n{64, 64, 1};
  const auto h = header({.encoded = n, .limits = step_limit(64)});
  const auto scan = cartesian({}, n, 64 * 0.02);  // 0.02 in either part of an image
  const auto adaptive = only_image(run(cartesian_yaml("method: adaptive, block: 7"), h, scan, here())),
             rss = only_image(run(cartesian_yaml("method: rss"), h, scan, here()));
  double noise_adaptive = 0, noise_rss = 0;
  for (int y = 0; y < 64; ++y)
    for (int x = 0; x < 64; ++x) {
      const auto v = static_cast<std::size_t>(y * 64 + x);
      const double truth = std::abs(Seen().at(x - 32, y - 32, 0));
      ASSERT_EQ(rss[v].imag(), 0);
      if (truth > 0.5) {
        // Five deviations of the noise component that is in phase.
        EXPECT_NEAR(std::abs(adaptive[v]), truth, 0.1);
      }
      if (truth > 1e-6) continue;
      noise_adaptive += std::norm(cdouble(adaptive[v]));
      noise_rss += std::norm(cdouble(rss[v]));
    }
  // About one coil's share of four coils' noise is left, and a little more because the maps follow the noise.
  EXPECT_LT(noise_adaptive, 0.5 * noise_rss);
}

TEST_P(CoilCombineTest, OnlyTheRootSumOfSquaresIsFused) {
  const std::array n{48, 48, 1};
  const auto h = header({.encoded = n, .trajectory = "radial", .limits = step_limit(151)});
  std::vector<Acquisition> scan = sample(radial(151, 96), {Blob{}});
  // Gives the readouts the same coils, by their weights.
  const Seen seen;
  for (Acquisition& a : scan) {
    std::vector<cfloat> one(a.head.number_of_samples), data;
    a.data.copy_to(one.data());
    for (const cdouble& w : seen.weights)
      for (const cfloat v : one) data.emplace_back(w * cdouble(v));
    std::vector<float> trajectory(2 * one.size());
    a.trajectory.copy_to(trajectory.data());
    Acquisition made = readout(4, std::move(data), std::move(trajectory));
    const auto idx = a.head.idx;
    const auto flags = a.head.flags;
    made.head.idx = idx;
    made.head.flags = flags;
    a = std::move(made);
  }
  const auto text = [](const std::string& method) {
    return yaml("  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - coil_combine: {method: " +
                method + "}\n  - image: {component: magnitude}\n");
  };
  const auto plan = [&](const std::string& method) {
    return PipelinePlan::check(config::read_pipeline(text(method), "test.yaml"))->describe();
  };
  EXPECT_NE(plan("rss").find("as one: gridding, fft, deapodization, coil_combine\n"), std::string::npos);
  for (const std::string method : {"adaptive", "none"})
    EXPECT_NE(plan(method).find("as one: gridding, fft, deapodization\n"), std::string::npos) << plan(method);
  const auto magnitude = [&](const std::string& method) {
    const auto out = run(text(method), h, scan, here());
    EXPECT_EQ(out.images.size(), 1u);
    return pixels<float>(out.images.at(0));
  };
  EXPECT_LT(nrmse(magnitude("adaptive"), magnitude("rss")), 1e-4);
  EXPECT_EQ(magnitude("none").size(), 4u * 48 * 48);
}

TEST(CoilCombineParametersTest, AreChecked) {
  const auto check = [](const std::string& parameters) {
    try {
      PipelinePlan::check(config::read_pipeline(cartesian_yaml(parameters), "p.yaml"));
    } catch (const config::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(check("method: adaptive, block: 31"), "");
  EXPECT_NE(check("method: walsh").find("adaptive"), std::string::npos);
  EXPECT_NE(check("block: 0"), "");
  EXPECT_NE(check("block: 32"), "");
  EXPECT_NE(check("blocks: 5").find("block"), std::string::npos);
}

ECHOTRAIN_ON_BACKENDS(CoilCombineTest);

}  // namespace
}  // namespace echotrain::testing
