// Virtual coils against scans that are made of a few known sources.
#include "gadgets/readouts/coil_compression.h"

#include <cmath>
#include <map>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

constexpr std::size_t kReceivers = 12;
constexpr std::size_t kMatrix = 32;

std::string chain(const std::string& options) {
  return yaml("  - coil_compression: " + options + "\n  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n");
}

/// A scan whose receivers are mixtures of `sources` images, which lie in different places; with `turning`, mixtures
/// turn along x. `noise_level`: of a sample.
struct MixedScan {
  std::size_t sources = 3;
  double noise_level = 0;
  unsigned seed = 1;

  /// Receiver c's share of source j.
  cdouble share(std::size_t c, std::size_t j) const {
    return std::polar(1.0 / (1.0 + static_cast<double>((c + 5 * j) % 7)),
                      static_cast<double>(c * (j + 1) + c * c * j + seed));
  }

  /// Lines of one frame, [receiver, sample] each.
  std::vector<Acquisition> lines(std::uint16_t slice, std::uint16_t repetition) const {
    std::mt19937 random(seed + 100u * repetition + slice);
    std::vector<Acquisition> out;
    for (std::size_t ky = 0; ky < kMatrix; ++ky) {
      // A source is a box of 6 x 6 voxels: its transform along y, by the definition.
      std::vector<cdouble> at_x(kReceivers * kMatrix);
      for (std::size_t j = 0; j < sources; ++j) {
        cdouble line = 0;
        for (std::size_t y = 5 + 6 * (j % 3); y < 11 + 6 * (j % 3); ++y) line += turn_by(ky, y);
        for (std::size_t x = 7 + 3 * j; x < 13 + 3 * j; ++x)
          for (std::size_t c = 0; c < kReceivers; ++c) at_x[c * kMatrix + x] += share(c, j) * line;
      }
      std::vector<cfloat> data(kReceivers * kMatrix);
      for (std::size_t c = 0; c < kReceivers; ++c)
        for (std::size_t kx = 0; kx < kMatrix; ++kx) {
          cdouble sum = 0;
          for (std::size_t x = 0; x < kMatrix; ++x) sum += at_x[c * kMatrix + x] * turn_by(kx, x);
          data[c * kMatrix + kx] = cfloat(sum);
        }
      const auto disturbance = noise(data.size(), random, noise_level);
      for (std::size_t i = 0; i < data.size(); ++i) data[i] += disturbance[i];
      Acquisition line = readout(static_cast<int>(kReceivers), std::move(data));
      line.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(ky);
      line.head.idx.slice = slice;
      line.head.idx.repetition = repetition;
      if (ky + 1 == kMatrix) set_flag(line, kLastInSlice);
      out.push_back(std::move(line));
    }
    return out;
  }

  static cdouble turn_by(std::size_t k, std::size_t r) {
    const double centre = kMatrix / 2;
    return std::polar(
        1.0, -2 * std::numbers::pi * (static_cast<double>(k) - centre) * (static_cast<double>(r) - centre) / kMatrix);
  }
};

protocol::Header square(const std::string& more_limits = "") {
  return header({.encoded = {kMatrix, kMatrix, 1}, .limits = step_limit(kMatrix) + more_limits});
}

std::vector<Acquisition> joined(std::vector<std::vector<Acquisition>> parts) {
  std::vector<Acquisition> all;
  for (auto& part : parts)
    all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  return all;
}

std::vector<Acquisition> taking_turns(std::vector<Acquisition> a, std::vector<Acquisition> b) {
  std::vector<Acquisition> mixed;
  for (std::size_t i = 0; i < a.size(); ++i) {
    mixed.push_back(std::move(a[i]));
    mixed.push_back(std::move(b[i]));
  }
  return mixed;
}

std::string note(const protocol::Image& image, const std::string& name) {
  const std::size_t at = image.attributes.find("<name>" + name + "</name>");
  if (at == std::string::npos) return "";
  const std::size_t begin = image.attributes.find("<value>", at) + 7;
  return image.attributes.substr(begin, image.attributes.find('<', begin) - begin);
}

using CoilCompressionTest = OnEachBackend;

TEST_P(CoilCompressionTest, AsManyVirtualCoilsAsSourcesLoseNothing) {
  const MixedScan scan{.sources = 3};
  const auto all =
      run(yaml("  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n"), square(), scan.lines(0, 0), here());
  for (const std::string options : {"{channels: 3}", "{energy: 0.999999}", "{channels: 3, from: center, lines: 8}",
                                    "{channels: 3, per: scan}", "{method: geometric, channels: 3}"}) {
    SCOPED_TRACE(options);
    const auto out = run(chain(options), square(), scan.lines(0, 0), here());
    ASSERT_EQ(out.images.size(), 1u);
    EXPECT_EQ(note(out.images[0], "coils_received"), "12");
    EXPECT_EQ(note(out.images[0], "coils_used"), "3");
    EXPECT_EQ(note(out.images[0], "compression_energy"), "1.00000");
    // The root sum of squares does not change when the coils' space is turned.
    EXPECT_LT(nrmse(pixels<float>(out.images[0]), pixels<float>(all.images[0])), 5e-6);
    EXPECT_EQ(out.said(protocol::Level::info, "12 coils become 3"), 1);
  }
  const auto fewer = run(chain("{channels: 2}"), square(), scan.lines(0, 0), here());
  EXPECT_GT(nrmse(pixels<float>(fewer.images[0]), pixels<float>(all.images[0])), 0.01);
}

TEST_P(CoilCompressionTest, GeometricNeedsOnlyWhatIsAtOnePlace) {
  // Six sources side by side along x: at most four of them within five neighbouring positions.
  const MixedScan scan{.sources = 6};
  const auto all =
      run(yaml("  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n"), square(), scan.lines(0, 0), here());
  const auto error = [&](const std::string& options) {
    const auto out = run(chain(options), square(), scan.lines(0, 0), here());
    return nrmse(pixels<float>(out.images.at(0)), pixels<float>(all.images[0]));
  };
  EXPECT_LT(error("{method: geometric, channels: 4, lines: 32}"), 5e-6);
  EXPECT_GT(error("{method: pca, channels: 4, lines: 32}"), 1e-3);
  EXPECT_LT(error("{method: pca, channels: 6, lines: 32}"), 5e-6);
}

TEST_P(CoilCompressionTest, AnyBatchesGiveTheSameBits) {
  const MixedScan scan{.sources = 5, .noise_level = 0.5};
  for (const std::string options : {"{channels: 4}", "{channels: 4, per: scan}", "{method: geometric, energy: 0.9}"}) {
    const auto lines = [&] { return joined({taking_turns(scan.lines(0, 0), scan.lines(1, 0)), scan.lines(0, 1)}); };
    const auto h = square(limit("slice", 0, 1, 0) + limit("repetition", 0, 1, 0));
    const auto once = run(chain(options), h, lines(), here());
    ASSERT_EQ(once.images.size(), 3u);
    std::mt19937 random(9);
    for (const Split& split : {Split([](std::size_t) { return std::size_t{1}; }),
                               Split([&](std::size_t) { return std::size_t{1 + random() % 40}; })}) {
      RunOptions o = here();
      o.split = split;
      const auto parts = run(chain(options), h, lines(), o);
      ASSERT_EQ(parts.images.size(), 3u);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(pixels<float>(parts.images[i]), pixels<float>(once.images[i]));
    }
  }
}

TEST_P(CoilCompressionTest, OnlyTheFirstFrameOfASliceWaits) {
  const MixedScan scan{.sources = 3};
  const auto batches = [&](const std::string& options) {
    RunOptions o = here();
    o.split = [](std::size_t) { return std::size_t{1}; };
    o.tap = "coil_compression";
    std::vector<std::string> seen;
    o.on_item = [&](const Item& item, numerics::Context&) {
      const auto& r = std::get<Readouts>(item);
      if (r.heads.empty()) return;
      EXPECT_EQ(r.data.shape()[1], 3);
      EXPECT_EQ(r.heads.front().active_channels, 3);
      seen.push_back(fmt::format("{}/{}", +r.frame->key.slice, +r.frame->key.repetition));
    };
    run(chain(options), square(limit("slice", 0, 1, 0)), taking_turns(scan.lines(0, 0), scan.lines(1, 0)), o);
    return seen;
  };
  // Per slice, each is given when its own last line has come; per scan, both when the first of them is whole.
  const auto per_slice = batches("{channels: 3}"), per_scan = batches("{channels: 3, per: scan}");
  ASSERT_EQ(per_slice.size(), 64u);
  ASSERT_EQ(per_scan.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(per_slice[i], i < 32 ? "0/0" : "1/0") << i;
    EXPECT_EQ(per_scan[i], i % 2 == 0 ? "0/0" : "1/0") << i;
  }
}

TEST_P(CoilCompressionTest, SlicesHaveVirtualCoilsOfTheirOwnAndAsMany) {
  const MixedScan one{.sources = 2, .seed = 1}, two{.sources = 3, .seed = 40};
  const auto h = square(limit("slice", 0, 1, 0));
  const auto lines = [&] { return joined({one.lines(0, 0), two.lines(1, 0)}); };
  const auto all = run(yaml("  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n"), h, lines(), here());
  const auto out = run(chain("{energy: 0.999999}"), h, lines(), here());
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_EQ(note(out.images[0], "coils_used"), "2");
  EXPECT_EQ(note(out.images[1], "coils_used"), "2");
  EXPECT_LT(std::stod(note(out.images[1], "compression_energy")), 0.999);
  EXPECT_LT(nrmse(pixels<float>(out.images[0]), pixels<float>(all.images[0])), 5e-6);
}

TEST_P(CoilCompressionTest, OtherReadoutsPassBy) {
  const MixedScan scan{.sources = 3};
  std::mt19937 random(3);
  auto navigator = readout(2, noise(10, random));
  set_flag(navigator, kNavigator);
  auto noisy = readout(12, noise(120, random));
  set_flag(noisy, kNoise);
  int others = 0;
  RunOptions o = here();
  o.tap = "coil_compression";
  o.on_item = [&](const Item& item, numerics::Context&) {
    const auto& r = std::get<Readouts>(item);
    if (r.kind == protocol::ReadoutKind::imaging) return;
    EXPECT_EQ(r.host_data.shape()[1], r.kind == protocol::ReadoutKind::noise ? 12 : 2);
    ++others;
  };
  run(chain("{channels: 3}"), square(), joined({{noisy, navigator}, scan.lines(0, 0)}), o);
  EXPECT_EQ(others, 2);
}

TEST_P(CoilCompressionTest, FewerCoilsThanWantedPassUnchanged) {
  const MixedScan scan{.sources = 3};
  const auto all =
      run(yaml("  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n"), square(), scan.lines(0, 0), here());
  const auto out = run(chain("{channels: 12}"), square(), scan.lines(0, 0), here());
  EXPECT_EQ(pixels<float>(out.images.at(0)), pixels<float>(all.images.at(0)));
  EXPECT_EQ(out.said(protocol::Level::info, "they stay as they are"), 1);
}

/// The gadget by itself, given readouts of any kind where it computes.
struct Alone {
  numerics::Context compute;
  Scan scan;
  CoilCompression gadget;
  std::vector<Readouts> given;
  std::shared_ptr<Frame> frame = std::make_shared<Frame>();
  Alone(Backend backend, CoilCompression::Options options)
      : compute(backend, test_resources()),
        scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {}),
        gadget(std::move(options)) {
    gadget.start(square(limit("slice", 0, 1, 0)), scan);
  }
  void push(const std::vector<Acquisition>& lines, protocol::ReadoutKind kind, bool last = false) {
    Readouts r;
    r.kind = kind;
    const std::size_t channels = lines.front().head.active_channels;
    HostArray<cfloat> data = compute.allocate_host<cfloat>(
        {static_cast<std::int64_t>(lines.size()), static_cast<std::int64_t>(channels), kMatrix});
    for (std::size_t i = 0; i < lines.size(); ++i) {
      r.heads.push_back(lines[i].head);
      lines[i].data.copy_to(data.data() + i * channels * kMatrix);
    }
    r.data = compute.place(data);
    if (kind == protocol::ReadoutKind::imaging) r.frame = frame;
    r.last = last;
    gadget.process(std::move(r), [&](Readouts&& out) { given.push_back(std::move(out)); });
  }
  std::vector<cfloat> values() {
    std::vector<cfloat> all;
    for (const Readouts& r : given) {
      const auto part = elements(compute, r.data);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
};

TEST_P(CoilCompressionTest, CalibrationThatComesFirstLetsNothingWait) {
  using protocol::ReadoutKind;
  const MixedScan scan{.sources = 3, .noise_level = 0.1};
  const auto lines = scan.lines(0, 0);
  const auto middle = std::vector<Acquisition>(lines.begin() + 10, lines.begin() + 22);
  Alone alone(GetParam(), {.channels = 3});
  alone.push(middle, ReadoutKind::calibration);
  EXPECT_TRUE(alone.given.empty());
  alone.push({lines[0]}, ReadoutKind::imaging);
  ASSERT_EQ(alone.given.size(), 2u);
  EXPECT_EQ(alone.given[0].kind, ReadoutKind::calibration);
  EXPECT_EQ(alone.given[0].data.shape()[0], 12);
  EXPECT_EQ(alone.given[1].data.shape()[1], 3);
  alone.push({lines[1]}, ReadoutKind::imaging);
  ASSERT_EQ(alone.given.size(), 3u);

  // The same lines, as the middle of the frame alone, give the same virtual coils.
  Alone center(GetParam(), {.channels = 3, .from = "center", .lines = 12});
  Alone calibration(GetParam(), {.channels = 3, .from = "calibration", .lines = 12});
  for (Alone* each : {&center, &calibration}) {
    each->push(middle, ReadoutKind::calibration);
    each->push(lines, ReadoutKind::imaging, true);
    ASSERT_EQ(each->given.size(), 2u);
  }
  EXPECT_EQ(center.values(), calibration.values());
}

TEST_P(CoilCompressionTest, ABandAmongTheLinesOfAFrameCountsWhole) {
  using protocol::ReadoutKind;
  const MixedScan scan{.sources = 6, .noise_level = 0.5};
  const auto lines = scan.lines(0, 0);
  constexpr std::size_t kFirst = 4, kLast = 27;  // 16 of its lines are not on the lattice of every third one
  const auto is_band = [](std::size_t ky) { return ky >= kFirst && ky <= kLast; };
  // The images' virtual coils, each line of them by its number: as the band comes within the frame, in either order.
  const auto embedded = [&](bool upwards, const std::string& from) {
    Alone alone(GetParam(), {.channels = 3, .from = from});
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < kMatrix; ++i) order.push_back(upwards ? i : kMatrix - 1 - i);
    for (std::size_t ky : order) {
      if (ky % 3 != 0 && !is_band(ky)) continue;
      Acquisition line = lines[ky];
      if (ky % 3 == 0 && is_band(ky)) set_flag(line, kCalibrationAndImaging);
      EXPECT_TRUE(alone.given.empty()) << ky;
      alone.push({line}, ky % 3 == 0 ? ReadoutKind::imaging : ReadoutKind::calibration, ky == (upwards ? 30 : 0));
    }
    std::map<std::size_t, std::vector<cfloat>> by_line;
    for (const Readouts& each : alone.given)
      if (each.kind == ReadoutKind::imaging)
        by_line[each.heads.at(0).idx.kspace_encode_step_1] = elements(alone.compute, each.data);
    return by_line;
  };
  // The truth: the same band, sent before the lattice.
  Alone first(GetParam(), {.channels = 3, .from = "calibration"});
  first.push({lines.begin() + kFirst, lines.begin() + kLast + 1}, ReadoutKind::calibration);
  std::vector<Acquisition> lattice;
  for (std::size_t ky = 0; ky < kMatrix; ky += 3) lattice.push_back(lines[ky]);
  first.push(lattice, ReadoutKind::imaging, true);
  const auto truth = elements(first.compute, first.given.at(1).data);
  for (const std::string from : {"auto", "calibration"})
    for (const bool upwards : {true, false}) {
      std::vector<cfloat> all;
      for (const auto& [ky, values] : embedded(upwards, from)) all.insert(all.end(), values.begin(), values.end());
      ASSERT_EQ(all.size(), truth.size());
      EXPECT_LT(nrmse(all, truth), 1e-5) << from << (upwards ? " upwards" : " downwards");
    }
}

TEST_P(CoilCompressionTest, ABatchOfSeveralSlicesIsTakenApart) {
  using protocol::ReadoutKind;
  const MixedScan one{.sources = 3, .seed = 1}, two{.sources = 3, .seed = 40};
  Alone alone(GetParam(), {.channels = 3});
  alone.push(joined({one.lines(0, 0), two.lines(1, 0)}), ReadoutKind::calibration);
  for (const std::uint16_t slice : {1, 0}) {
    alone.frame = std::make_shared<Frame>();
    alone.frame->key.slice = slice;
    const MixedScan& scan = slice == 0 ? one : two;
    alone.push(scan.lines(slice, 0), ReadoutKind::imaging, true);
    ASSERT_EQ(alone.given.size(), 2u);
    // Calibration and imaging lines were equal, and each slice's three virtual coils keep all of its energy.
    EXPECT_EQ(elements(alone.compute, alone.given[0].data), elements(alone.compute, alone.given[1].data));
    double kept = 0, came = 0;
    for (const cfloat v : elements(alone.compute, alone.given[1].data)) kept += std::norm(cdouble(v));
    for (const Acquisition& line : scan.lines(slice, 0))
      for (const cfloat v : pixels<cfloat>({.pixels = line.data})) came += std::norm(cdouble(v));
    EXPECT_NEAR(kept / came, 1, 1e-5);
    alone.given.clear();
  }
}

TEST_P(CoilCompressionTest, WhatCannotBeCompressedIsSaid) {
  const MixedScan scan{.sources = 3};
  const auto error = [&](const std::string& options, std::vector<Acquisition> lines, const protocol::Header& h) {
    return client_error([&] { run(chain(options), h, std::move(lines), here()); });
  };
  Alone alone(GetParam(), {.channels = 3});
  alone.push(scan.lines(0, 0), protocol::ReadoutKind::calibration);
  EXPECT_EQ(
      client_error([&] { alone.push({readout(5, std::vector<cfloat>(5 * kMatrix))}, protocol::ReadoutKind::imaging); }),
      "coil_compression: readouts have 5 coils, but those before had 12");
  EXPECT_NE(error("{from: calibration}", scan.lines(0, 0), square()).find("no calibration readouts"),
            std::string::npos);
  std::vector<Acquisition> silent;
  for (auto& line : scan.lines(0, 0)) {
    auto zero = readout(12, std::vector<cfloat>(12 * kMatrix));
    zero.head = line.head;
    silent.push_back(std::move(zero));
  }
  EXPECT_NE(error("{channels: 3}", silent, square()).find("the data are zero in the middle of k-space"),
            std::string::npos);
  std::vector<Acquisition> partial;
  for (auto& line : scan.lines(0, 0)) {
    line.head.discard_pre = 4;
    partial.push_back(std::move(line));
  }
  EXPECT_NE(error("{method: geometric}", partial, square()).find("use method: pca"), std::string::npos);
  const auto radial = header({.encoded = {kMatrix, kMatrix, 1}, .trajectory = "radial", .limits = step_limit(kMatrix)});
  EXPECT_NE(error("{method: geometric}", {}, radial).find("takes Cartesian readouts"), std::string::npos);
}

ECHOTRAIN_ON_BACKENDS(CoilCompressionTest);

}  // namespace
}  // namespace echotrain::testing
