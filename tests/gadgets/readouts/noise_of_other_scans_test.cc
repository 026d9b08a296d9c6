// Whitening by the noise of a scan that came before, against the noise of the scan itself.
#include <chrono>

#include "gadgets/shared/store/noise_store.h"
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

constexpr int kCount = 3;  // coils

std::vector<Acquisition> noise_lines(int coils, float dwell_us, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Acquisition> out;
  for (int i = 0; i < 4; ++i) {
    auto data = noise(static_cast<std::size_t>(coils) * 128, random);
    for (std::size_t s = 0; s < 128; ++s)
      for (std::size_t c = 1; c < static_cast<std::size_t>(coils); ++c)
        data[c * 128 + s] = data[c * 128 + s] * (1.0f + static_cast<float>(c)) + 0.4f * data[s];
    out.push_back(readout(coils, std::move(data)));
    set_flag(out.back(), kNoise);
    out.back().head.sample_time_us = dwell_us;
  }
  return out;
}

std::vector<Acquisition> image_lines(int coils, float dwell_us) {
  std::mt19937 random(77);
  std::vector<Acquisition> out;
  for (std::uint16_t step = 0; step < 8; ++step) {
    out.push_back(readout(coils, noise(static_cast<std::size_t>(coils) * 8, random)));
    out.back().head.idx.kspace_encode_step_1 = step;
    out.back().head.sample_time_us = dwell_us;
  }
  return out;
}

/// The ID of a scan, and the ID of the noise that it names.
struct Names {
  std::string id, noise_of;
  std::vector<std::string> labels;
  std::string bandwidth;
};

protocol::Header header_of(const Names& names) {
  protocol::Header h = header({.encoded = {8, 8, 1}, .limits = step_limit(8), .bandwidth = names.bandwidth});
  h.measurement_id = names.id;
  h.noise_dependency = names.noise_of;
  h.coil_labels = names.labels;
  return h;
}

class NoiseOfOtherScansTest : public OnEachBackend {
 protected:
  /// Scans of one program, whose store lasts as long as this.
  Outcome scan(const Names& names, std::vector<Acquisition> lines, const std::string& options = "{}",
               End end = End::complete) {
    RunOptions o = here();
    o.resources = resources_;
    o.end = end;
    return run(
        yaml("  - noise_adjust: " + options + "\n  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n"),
        header_of(names), std::move(lines), o);
  }
  static std::vector<cfloat> image(const Outcome& outcome) {
    EXPECT_EQ(outcome.images.size(), 1u);
    return outcome.images.empty() ? std::vector<cfloat>{} : pixels<cfloat>(outcome.images[0]);
  }
  static std::string noted(const Outcome& outcome, const std::string& name) {
    const std::string& meta = outcome.images.at(0).attributes;
    const std::size_t at = meta.find("<name>" + name + "</name>");
    if (at == std::string::npos) return "";
    const std::size_t begin = meta.find("<value>", at) + 7;
    return meta.substr(begin, meta.find('<', begin) - begin);
  }
  static std::vector<Acquisition> both(std::vector<Acquisition> a, std::vector<Acquisition> b) {
    a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end()));
    return a;
  }

  std::shared_ptr<numerics::Resources> resources_ = test_resources();
};

TEST_P(NoiseOfOtherScansTest, TwoConnectionsGiveTheBitsOfOne) {
  const Names image_names{.id = "scan", .noise_of = "noise", .bandwidth = "0.79"};
  const auto together = scan({.bandwidth = "0.79"}, both(noise_lines(kCount, 5, 1), image_lines(kCount, 30)));
  const auto first = scan({.id = "noise"}, noise_lines(kCount, 5, 1));
  EXPECT_TRUE(first.images.empty());
  EXPECT_EQ(first.said(protocol::Level::info, "noise of 3 coils (512 samples) is kept"), 1);
  const auto apart = scan(image_names, image_lines(kCount, 30));
  EXPECT_EQ(image(apart), image(together));
  EXPECT_EQ(apart.warned(""), 0);
  EXPECT_EQ(apart.said(protocol::Level::info, "whitened by the noise of another scan, noise (512 samples, "), 1);
  EXPECT_EQ(together.said(protocol::Level::info, "another scan"), 0);
  EXPECT_EQ(noted(apart, "noise"), "store");
  EXPECT_EQ(noted(together, "noise"), "scan");
  EXPECT_EQ(noted(apart, "noise_samples"), "512");
  EXPECT_LE(std::stoi(noted(apart, "noise_age_s")), 60);
  EXPECT_EQ(noted(together, "noise_age_s"), "");

  // The scan's own noise comes before that of another scan, unless the options say otherwise.
  const auto own = [&] { return both(noise_lines(kCount, 5, 2), image_lines(kCount, 30)); };
  const auto plain = image(scan({}, image_lines(kCount, 30)));
  EXPECT_EQ(image(scan(image_names, own())), image(scan({.bandwidth = "0.79"}, own())));
  EXPECT_EQ(image(scan(image_names, own(), "{noise: scan}")), image(scan({.bandwidth = "0.79"}, own())));
  EXPECT_EQ(image(scan(image_names, own(), "{noise: store}")), image(together));
  EXPECT_EQ(image(scan(image_names, own(), "{noise: none}")), plain);
  EXPECT_EQ(image(scan(image_names, image_lines(kCount, 30), "{noise: scan}")), plain);
  EXPECT_NE(image(together), plain);
}

TEST_P(NoiseOfOtherScansTest, CoilsAreMatchedByTheirLabels) {
  scan({.id = "noise", .labels = {"A", "B", "C"}}, noise_lines(3, 5, 1));
  // The same noise with its coils in another order, as one scan measures it itself.
  const auto permuted = [](const std::vector<std::size_t>& order) {
    std::vector<Acquisition> out;
    for (const Acquisition& line : noise_lines(3, 5, 1)) {
      const auto all = pixels<cfloat>({.pixels = line.data});
      std::vector<cfloat> data;
      for (const std::size_t c : order)
        data.insert(data.end(), all.begin() + static_cast<std::ptrdiff_t>(128 * c),
                    all.begin() + static_cast<std::ptrdiff_t>(128 * c + 128));
      out.push_back(readout(static_cast<int>(order.size()), std::move(data)));
      out.back().head.flags = line.head.flags;
      out.back().head.sample_time_us = 5;
    }
    return out;
  };
  const auto stored = scan({.noise_of = "noise", .labels = {"C", "A", "B"}}, image_lines(3, 5));
  // Sums in another order differ in float64's last bits.
  EXPECT_LT(nrmse(image(stored), image(scan({}, both(permuted({2, 0, 1}), image_lines(3, 5))))), 1e-6);
  EXPECT_GT(nrmse(image(stored), image(scan({}, both(permuted({0, 1, 2}), image_lines(3, 5))))), 1e-2);
  const auto fewer = scan({.noise_of = "noise", .labels = {"C", "A"}}, image_lines(2, 5));
  EXPECT_LT(nrmse(image(fewer), image(scan({}, both(permuted({2, 0}), image_lines(2, 5))))), 1e-6);
  EXPECT_EQ(noted(fewer, "noise"), "store");

  const auto unknown = scan({.noise_of = "noise", .labels = {"A", "B", "D"}}, image_lines(3, 5));
  EXPECT_EQ(unknown.warned("has no coil 'D': images are NOT whitened"), 1);
  EXPECT_EQ(noted(unknown, "noise"), "none");
  // Labels that tell no coils apart, none, and those of more coils than are left do not say whose noise is whose.
  for (const std::vector<std::string>& labels : {std::vector<std::string>{"A", "A", "B"}, {}, {"A", "B", "C", "D"}}) {
    const auto unclear = scan({.noise_of = "noise", .labels = labels}, image_lines(3, 5));
    EXPECT_EQ(unclear.warned("labels of this scan do not name its 3 coils one by one: images are NOT whitened"), 1);
    EXPECT_EQ(image(unclear), image(scan({}, image_lines(3, 5))));
  }
}

TEST_P(NoiseOfOtherScansTest, NumbersOfCoilsMustAgreeWhereNobodyHasLabels) {
  scan({.id = "noise"}, noise_lines(3, 5, 1));
  EXPECT_EQ(noted(scan({.noise_of = "noise"}, image_lines(3, 5)), "noise"), "store");
  const auto two = scan({.noise_of = "noise"}, image_lines(2, 5));
  EXPECT_EQ(two.warned("has 3 coils, but this scan has 2: images are NOT whitened"), 1);
  EXPECT_EQ(image(two), image(scan({}, image_lines(2, 5))));
  const auto labelled = scan({.noise_of = "noise", .labels = {"A", "B", "C"}}, image_lines(3, 5));
  EXPECT_EQ(labelled.warned("its 0 labels do not name its 3 coils one by one: images are NOT whitened"), 1);
  const auto unclear = scan({.id = "unclear", .labels = {"A", "B", "C", "D"}}, noise_lines(3, 5, 1));
  EXPECT_EQ(unclear.said(protocol::Level::info, "noise is not kept for later scans: 4 labels"), 1);
  EXPECT_EQ(scan({.noise_of = "unclear"}, image_lines(3, 5)).warned("is not known here"), 1);
}

TEST_P(NoiseOfOtherScansTest, WhatIsNotKnownIsSaid) {
  const Names names{.noise_of = "66056_107201_107210_424"};
  const auto out = scan(names, image_lines(kCount, 5));
  EXPECT_EQ(out.warned("the noise scan ...7210_424 that the header names is not known here (noise is kept for 24 h): "
                       "images are NOT whitened"),
            1);
  EXPECT_EQ(out.warned("66056"), 0);
  EXPECT_EQ(image(out), image(scan({}, image_lines(kCount, 5))));
  EXPECT_EQ(scan({}, image_lines(kCount, 5)).warned(""), 0);
  for (const Names& each : {names, Names{}})
    EXPECT_NE(client_error([&] { scan(each, image_lines(kCount, 5), "{require_noise: true}"); }).find("require_noise"),
              std::string::npos);
  EXPECT_NE(client_error([&] { scan(names, {}, "{require_noise: true, noise: none}"); }).find("contradict"),
            std::string::npos);
  const auto own = both(noise_lines(kCount, 5, 1), image_lines(kCount, 5));
  EXPECT_EQ(scan(names, own, "{require_noise: true}").images.size(), 1u);
}

TEST_P(NoiseOfOtherScansTest, CalibrationOfOtherCoilsSaysNothing) {
  scan({.id = "noise"}, noise_lines(kCount, 5, 1));
  auto calibration = image_lines(2, 5);
  for (Acquisition& line : calibration) set_flag(line, kCalibration);
  const auto out = scan({.noise_of = "noise"}, both(calibration, image_lines(kCount, 5)));
  EXPECT_EQ(out.warned(""), 0);
  EXPECT_EQ(image(out), image(scan({.noise_of = "noise"}, image_lines(kCount, 5))));
  EXPECT_EQ(noted(out, "noise"), "store");
}

TEST_P(NoiseOfOtherScansTest, NoiseThatFitsOnlyCalibrationIsSaid) {
  scan({.id = "noise"}, noise_lines(2, 5, 1));
  auto calibration = image_lines(2, 5);
  for (Acquisition& line : calibration) set_flag(line, kCalibration);
  const auto lines = both(calibration, image_lines(kCount, 5));
  const auto out = scan({.noise_of = "noise"}, lines);
  EXPECT_EQ(out.warned("has 2 coils, but this scan has 3: images are NOT whitened"), 1);
  EXPECT_EQ(noted(out, "noise"), "none");
  EXPECT_EQ(image(out), image(scan({}, image_lines(kCount, 5))));
  EXPECT_NE(client_error([&] {
              scan({.noise_of = "noise"}, lines, "{require_noise: true}");
            }).find("has 2 coils, but this scan has 3"),
            std::string::npos);
}

TEST_P(NoiseOfOtherScansTest, OnlyWholeAndUsableNoiseIsKept) {
  const auto knows = [&](const std::string& id) {
    return noted(scan({.noise_of = id}, image_lines(kCount, 5)), "noise") == "store";
  };
  scan({.id = "cut"}, noise_lines(kCount, 5, 1), "{}", End::truncated);
  EXPECT_FALSE(knows("cut"));
  scan({.id = ""}, noise_lines(kCount, 5, 1));
  EXPECT_FALSE(knows(""));
  std::vector<Acquisition> dead = noise_lines(kCount, 5, 1);
  for (Acquisition& line : dead) {
    auto data = pixels<cfloat>({.pixels = line.data});
    std::fill(data.begin(), data.begin() + 128, cfloat{});
    line.data = protocol::Payload::take(std::move(data));
  }
  EXPECT_EQ(scan({.id = "dead"}, dead).warned("no usable covariance and is not kept"), 1);
  EXPECT_FALSE(knows("dead"));
  scan({.id = "whole"}, noise_lines(kCount, 5, 1));
  EXPECT_TRUE(knows("whole"));
}

ECHOTRAIN_ON_BACKENDS(NoiseOfOtherScansTest);

}  // namespace
}  // namespace echotrain::testing
