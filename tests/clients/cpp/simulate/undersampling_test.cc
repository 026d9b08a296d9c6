// Accelerated scans, as other programs read them: which lines there are, what they are flagged, and what they hold.
#include "clients/cpp/simulate/undersampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <set>
#include <sstream>

#include "clients/cpp/base/image_pixels.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/simulate/simulate.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/header.h"
#include "protocol/files/dataset.h"
#include "tests/clients/cpp/support.h"

namespace echotrain::client {
namespace {

constexpr std::uint64_t flag_mask(int flag) { return 1ull << (flag - 1); }
constexpr std::uint64_t kLastOfSlice = flag_mask(8), kReferenceOnly = flag_mask(20), kReferenceToo = flag_mask(21);

/// A readout of a file, by its place in k-space.
struct Line {
  int y, z, repetition;
  std::uint64_t flags;
  int center_sample;
  std::vector<std::complex<float>> data;
};

struct Simulated {
  protocol::Header header;
  std::vector<Line> lines;
  std::vector<float> truth;
};

SimulateOptions cartesian(int matrix, int depth = 1) {
  SimulateOptions o;
  o.trajectory = "cartesian";
  o.matrix = matrix;
  o.depth = depth;
  o.coils = 2;
  return o;
}

/// Writes the scan, reads it back, and puts it through the checks of a server.
Simulated simulated(SimulateOptions o) {
  const TemporaryFolder folder;
  o.output = folder / "scan.h5";
  std::ostringstream out;
  simulate(o, out);
  const protocol::DatasetReader reader(o.output);
  const auto header = protocol::parse_header(reader.header_xml(), {});
  EXPECT_TRUE(header) << header.error().message;
  Simulated scan{*header, {}, {}};
  protocol::AcquisitionCheck check(scan.header);
  const auto& encoding = scan.header.encodings.at(0);
  const int dy = o.matrix / 2 - encoding.kspace_encoding_step_1->center,
            dz = o.depth / 2 - encoding.kspace_encoding_step_2->center;
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const auto readout = reader.acquisition(i);
    const auto reason = check.check(readout);
    EXPECT_FALSE(reason) << reason->message;
    const protocol::AcquisitionHeader head = readout.head;
    Line line{head.idx.kspace_encode_step_1 + dy,
              head.idx.kspace_encode_step_2 + dz,
              head.idx.repetition,
              head.flags,
              head.center_sample,
              {}};
    line.data.resize(readout.data.bytes.size() / sizeof(std::complex<float>));
    readout.data.copy_to(line.data.data());
    scan.lines.push_back(std::move(line));
  }
  if (o.truth && !o.noise_only) scan.truth = read_array(o.output, "dataset", "truth").values;
  return scan;
}

using Places = std::set<std::array<int, 2>>;  // y, z

Places places(const Simulated& scan, std::uint64_t without = 0, int repetition = 0) {
  Places out;
  for (const Line& line : scan.lines)
    if (line.repetition == repetition && (line.flags & without) == 0) {
      EXPECT_TRUE(out.insert({line.y, line.z}).second) << "line " << line.y << ", " << line.z << " comes twice";
    }
  return out;
}

/// Lines of an accelerated scan are those of the full one, bit by bit, and so is what a reconstruction should give.
void expect_part_of(const Simulated& part, const Simulated& full) {
  std::map<std::array<int, 2>, const Line*> all;
  for (const Line& line : full.lines) all[{line.y, line.z}] = &line;
  for (const Line& line : part.lines) {
    ASSERT_TRUE(all.contains({line.y, line.z}));
    const Line& whole = *all[{line.y, line.z}];
    const std::size_t samples = line.data.size() / 2, of = whole.data.size() / 2, missing = of - samples;
    for (std::size_t coil = 0; coil < 2; ++coil)
      for (std::size_t s = 0; s < samples; ++s)
        ASSERT_EQ(line.data[coil * samples + s], whole.data[coil * of + s + missing]) << line.y << ' ' << s;
    EXPECT_EQ(line.center_sample, whole.center_sample - static_cast<int>(missing));
  }
  EXPECT_EQ(part.truth, full.truth);
}

TEST(Undersampling, EveryThirdLineAndTheMiddleOnes) {
  SimulateOptions o = cartesian(32);
  const Simulated full = simulated(o);
  o.undersampling.acceleration = "3";
  o.undersampling.calibration = 7;
  o.frames = 2;
  const Simulated scan = simulated(o);
  expect_part_of(scan, full);
  const auto& encoding = scan.header.encodings[0];
  EXPECT_EQ(encoding.acceleration, (std::array<std::uint16_t, 2>{3, 1}));
  EXPECT_EQ(encoding.calibration_mode, "embedded");
  EXPECT_EQ(encoding.interleaving, "");
  ASSERT_EQ(scan.lines.size() % 2, 0u);
  const std::size_t each = scan.lines.size() / 2;
  Places want;
  for (int y = 0; y < 32; ++y)
    if (y % 3 == 16 % 3 || (y >= 13 && y <= 19)) want.insert({y, 0});
  EXPECT_EQ(places(scan), want);
  EXPECT_EQ(places(scan, 0, 1), want);
  for (std::size_t i = 0; i < scan.lines.size(); ++i) {
    const Line& line = scan.lines[i];
    const bool lattice = line.y % 3 == 1, reference = line.y >= 13 && line.y <= 19;
    EXPECT_EQ((line.flags & kReferenceToo) != 0, lattice && reference) << line.y;
    EXPECT_EQ((line.flags & kReferenceOnly) != 0, !lattice) << line.y;
    EXPECT_EQ((line.flags & kLastOfSlice) != 0, i % each == each - 1);
    if (i % each > 0) {
      EXPECT_GT(line.y, scan.lines[i - 1].y);
    }
  }
}

TEST(Undersampling, BothAxesWithShiftedPlanes) {
  SimulateOptions o = cartesian(12, 10);
  const Simulated full = simulated(o);
  o.undersampling = {.acceleration = "3x2", .caipi = 2, .calibration = 4};
  const Simulated scan = simulated(o);
  expect_part_of(scan, full);
  EXPECT_EQ(scan.header.encodings[0].acceleration, (std::array<std::uint16_t, 2>{3, 2}));
  Places lattice;
  for (int j = -2; j <= 2; ++j)
    for (int i = -12; i <= 12; ++i)
      if (const int y = 6 + 3 * i + 2 * j, z = 5 + 2 * j; y >= 0 && y < 12 && z >= 0 && z < 10) lattice.insert({y, z});
  EXPECT_EQ(places(scan, kReferenceOnly), lattice);
  Places all = lattice;
  for (int z = 3; z < 7; ++z)
    for (int y = 4; y < 8; ++y) all.insert({y, z});
  EXPECT_EQ(places(scan), all);
}

TEST(Undersampling, ReferenceLinesOfTheirOwnComeFirst) {
  SimulateOptions o = cartesian(16);
  const Simulated full = simulated(o);
  o.undersampling = {.acceleration = "2", .calibration = 6, .calibration_mode = "separate"};
  o.frames = 2;
  const Simulated scan = simulated(o);
  expect_part_of(scan, full);
  EXPECT_EQ(scan.header.encodings[0].calibration_mode, "separate");
  ASSERT_EQ(scan.lines.size(), 6u + 2 * 8);
  for (std::size_t i = 0; i < scan.lines.size(); ++i) {
    EXPECT_EQ((scan.lines[i].flags & kReferenceOnly) != 0, i < 6);
    EXPECT_EQ(scan.lines[i].flags & kReferenceToo, 0u);
    if (i < 6) {
      EXPECT_EQ(scan.lines[i].y, 5 + static_cast<int>(i));
    }
  }
}

TEST(Undersampling, InterleavedFramesTogetherHaveAllLines) {
  SimulateOptions o = cartesian(8, 4);
  const Simulated full = simulated(o);
  o.undersampling = {.acceleration = "2x2", .calibration_mode = "interleaved"};
  o.frames = 5;
  const Simulated scan = simulated(o);
  expect_part_of(scan, full);
  EXPECT_EQ(scan.header.encodings[0].calibration_mode, "interleaved");
  EXPECT_EQ(scan.header.encodings[0].interleaving, "repetition");
  Places together;
  for (int f = 0; f < 4; ++f) {
    const Places one = places(scan, 0, f);
    EXPECT_EQ(one.size(), 8u);
    together.insert(one.begin(), one.end());
  }
  EXPECT_EQ(together.size(), 32u);
  EXPECT_EQ(places(scan, 0, 4), places(scan, 0, 0));
}

TEST(Undersampling, PartialFourierAndPartialEchoKeepTheCentre) {
  SimulateOptions o = cartesian(16);
  o.oversampling = 2;
  const Simulated full = simulated(o);
  o.undersampling = {.partial_fourier = 0.75, .partial_echo = 0.625};
  const Simulated scan = simulated(o);
  expect_part_of(scan, full);
  ASSERT_EQ(scan.lines.size(), 12u);
  EXPECT_EQ(scan.lines[0].y, 4);
  EXPECT_EQ(scan.lines[11].y, 15);
  EXPECT_EQ(scan.lines[0].data.size(), 2u * 20);
  EXPECT_EQ(scan.lines[0].center_sample, 4);
  const auto& limit = *scan.header.encodings[0].kspace_encoding_step_1;
  EXPECT_EQ(limit.minimum, 0);
  EXPECT_EQ(limit.center, 4);
  EXPECT_EQ(limit.maximum, 11);
  o.undersampling = {.partial_fourier = 0.5, .partial_echo = 0.51};  // the least: the middle line and sample, and on
  const Simulated half = simulated(o);
  expect_part_of(half, full);
  EXPECT_EQ(half.lines[0].y, 8);
  EXPECT_EQ(half.lines[0].center_sample, 1);
}

TEST(Undersampling, AnEllipticalScanHasNoCornersAndNorHasItsTruth) {
  SimulateOptions o = cartesian(16, 12);
  const Simulated full = simulated(o);
  o.undersampling.sampling = "elliptical";
  const Simulated scan = simulated(o);
  Places want;
  for (int z = 0; z < 12; ++z)
    for (int y = 0; y < 16; ++y)
      if (std::pow((y - 8) / 8.0, 2) + std::pow((z - 6) / 6.0, 2) <= 1) want.insert({y, z});
  EXPECT_EQ(places(scan), want);
  // What the corners lack of the image's energy, by Parseval, they lack of k-space's.
  double image = 0, lines = 0;
  const auto square = [](double sum, float v) { return sum + static_cast<double>(v) * v; };
  image = std::accumulate(full.truth.begin(), full.truth.end(), 0.0, square) -
          std::accumulate(scan.truth.begin(), scan.truth.end(), 0.0, square);
  for (const Line& line : full.lines)
    for (const auto& v : line.data)
      if (!want.contains({line.y, line.z})) lines += std::norm(std::complex<double>(v));
  EXPECT_NEAR(image, lines / (16 * 16 * 12), 1e-5 * lines / (16 * 16 * 12));
  EXPECT_GT(lines, 0);
}

TEST(Undersampling, RandomLinesKeepTheirDistance) {
  SimulateOptions o = cartesian(64, 48);
  o.coils = 1;
  o.phantom = "blob";
  o.truth = false;
  o.undersampling = {.acceleration = "2x3", .calibration = 8, .sampling = "poisson"};
  const ScanPath path(TrajectoryKind::cartesian, {.matrix = 64, .depth = 48});
  const Undersampling lines(o.undersampling, path, 1), again(o.undersampling, path, 1), other(o.undersampling, path, 2);
  std::set<std::array<int, 2>> all;
  int reference = 0;
  for (const AcquiredReadout& r : lines.frame(0)) {
    const auto [y, z] = path.steps(r.readout);
    all.insert({y, z});
    EXPECT_TRUE(r.image);
    const bool middle = y >= 28 && y < 36 && z >= 20 && z < 28;
    EXPECT_EQ(r.calibration, middle);
    reference += middle ? 1 : 0;
  }
  EXPECT_EQ(reference, 64);
  EXPECT_NEAR(static_cast<double>(all.size()), 64 * 48 / 6.0, 64);  // the reference comes on top of what is asked
  // Neighbours: among the outer lines none is within one step of another, diagonals included; the mean gap grows.
  const auto empty_around = [&](int y, int z, int reach) {
    for (int dz = -reach; dz <= reach; ++dz)
      for (int dy = -reach; dy <= reach; ++dy)
        if ((dy != 0 || dz != 0) && all.contains({y + dy, z + dz})) return false;
    return true;
  };
  for (const auto& [y, z] : all)
    if (std::hypot((y - 32) / 32.0, (z - 24) / 24.0) > 0.8) {
      EXPECT_TRUE(empty_around(y, z, 1)) << y << ' ' << z;
    }
  const auto same = [](const std::vector<AcquiredReadout>& a, const std::vector<AcquiredReadout>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return x.readout == y.readout && x.image == y.image && x.calibration == y.calibration;
    });
  };
  EXPECT_TRUE(same(lines.frame(0), again.frame(0)));
  EXPECT_FALSE(same(lines.frame(0), other.frame(0)));
}

TEST(Undersampling, AVolumeIsItsTransform) {
  SimulateOptions o = cartesian(8, 6);
  o.phantom = "ellipsoids_3d";
  o.coils = 1;
  const Simulated scan = simulated(o);
  EXPECT_EQ(scan.header.encodings[0].encoded.matrix, (std::array<std::uint32_t, 3>{8, 8, 6}));
  EXPECT_EQ(scan.header.encodings[0].recon.fov_mm, (std::array<double, 3>{256, 256, 256}));
  ASSERT_EQ(scan.lines.size(), 48u);
  const Phantom head = Phantom::shepp_logan(3, 8, 6);
  for (const auto& [x, y, z] : {std::array{4, 4, 3}, {1, 6, 2}, {5, 3, 5}}) {
    std::complex<double> sum = 0;
    for (const Line& line : scan.lines)
      for (int s = 0; s < 8; ++s) {
        const Vec3 k = {(s - 4) / 8.0, (line.y - 4) / 8.0, (line.z - 3) / 6.0};
        EXPECT_LT(std::abs(std::complex<double>(line.data[static_cast<std::size_t>(s)]) - head.kspace(k)), 1e-5);
        sum +=
            head.kspace(k) * std::polar(1.0, 2 * std::numbers::pi * (k[0] * (x - 4) + k[1] * (y - 4) + k[2] * (z - 3)));
      }
    EXPECT_NEAR(std::abs(sum) / 384, scan.truth[static_cast<std::size_t>((z * 8 + y) * 8 + x)], 1e-6);
  }
}

TEST(Undersampling, HeadersNameTheScanItsNoiseAndItsCoils) {
  SimulateOptions o = cartesian(8);
  o.noise = 2;
  o.measurement_id = "a<b&c";
  o.noise_only = true;
  const Simulated noise = simulated(o);
  EXPECT_EQ(noise.header.measurement_id, "a<b&c");
  EXPECT_EQ(noise.header.coil_labels, (std::vector<std::string>{"S1", "S2"}));
  EXPECT_EQ(noise.lines.size(), 32u);
  for (const Line& line : noise.lines) EXPECT_EQ(line.flags, flag_mask(19));

  o.noise_only = false;
  o.noise_scan = true;
  const Simulated both = simulated(o);
  o.noise_scan = false;
  o.measurement_id = "image";
  o.noise_dependency = "a<b&c";
  const Simulated image = simulated(o);
  EXPECT_EQ(image.header.measurement_id, "image");
  EXPECT_EQ(image.header.noise_dependency, "a<b&c");
  ASSERT_EQ(image.lines.size(), 8u);
  // The same coils: their noise has the covariance that the noise scan has. Here, of one coil's share.
  const auto correlation = [](const Simulated& scan, std::size_t from) {
    std::complex<double> cross = 0;
    double power = 0;
    for (std::size_t i = from; i < scan.lines.size(); ++i) {
      const auto& data = scan.lines[i].data;
      for (std::size_t s = 0; s < data.size() / 2; ++s) {
        cross += std::complex<double>(data[s]) * std::conj(std::complex<double>(data[data.size() / 2 + s]));
        power += std::norm(std::complex<double>(data[s]));
      }
    }
    return std::abs(cross) / power;
  };
  o.phantom = "blob";
  o.blob_sigma = 0.1;
  o.noise = 1000;
  o.frames = 40;
  const Simulated loud = simulated(o);
  EXPECT_GT(correlation(noise, 0), 0.15);
  // 2560 samples: five standard errors are 0.1.
  EXPECT_NEAR(correlation(loud, 0), correlation(noise, 0), 0.3);
  EXPECT_EQ(both.lines.size(), 40u);
}

TEST(Undersampling, OptionsThatDoNotGoTogetherAreRefused) {
  const auto refused = [](const std::string& part, SimulateOptions o) {
    const TemporaryFolder folder;
    o.output = folder / "scan.h5";
    std::ostringstream out;
    try {
      simulate(o, out);
      ADD_FAILURE() << "not refused: " << part;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const auto flat = [](const UndersamplingOptions& u) {
    SimulateOptions o = cartesian(16);
    o.undersampling = u;
    return o;
  };
  const auto solid = [](const UndersamplingOptions& u) {
    SimulateOptions o = cartesian(16, 8);
    o.undersampling = u;
    return o;
  };
  for (const char* text : {"0", "17", "x2", "2x", "2x2x2", "1.5", "", "-2", "2x0", "two"})
    refused("neither R nor RxR", solid({.acceleration = text}));
  refused("give --depth", flat({.acceleration = "2x2"}));
  refused("give --depth", flat({.sampling = "elliptical"}));
  refused("more than the scan has", solid({.acceleration = "2x9"}));
  refused("--caipi", flat({.acceleration = "2", .caipi = 1}));
  refused("--caipi", solid({.acceleration = "2x2", .caipi = 2}));
  refused("--caipi", solid({.acceleration = "1x2", .caipi = 1}));
  refused("--calibration needs", flat({.calibration = 4}));
  refused("--calibration 17 is more", flat({.acceleration = "2", .calibration = 17}));
  refused("unknown --calibration-mode", flat({.acceleration = "2", .calibration_mode = "odd"}));
  refused("separate needs lines", flat({.acceleration = "2", .calibration_mode = "separate"}));
  refused("interleaved needs", flat({.calibration_mode = "interleaved"}));
  refused("interleaved needs", flat({.acceleration = "2", .calibration = 4, .calibration_mode = "interleaved"}));
  refused("unknown --sampling", flat({.acceleration = "2", .sampling = "odd"}));
  refused("poisson needs", flat({.sampling = "poisson"}));
  refused("leaves out some of the middle", flat({.acceleration = "2", .calibration = 8, .partial_fourier = 0.6}));

  SimulateOptions radial = flat({.acceleration = "2"});
  radial.trajectory = "radial";
  refused("for cartesian scans", radial);
  radial.undersampling = {};
  radial.depth = 4;
  refused("--depth is for cartesian", radial);
  radial.depth = 1;
  radial.undersampling.partial_echo = 0.7;
  refused("--partial-echo", radial);
  SimulateOptions heart = flat({.acceleration = "2", .calibration = 4, .calibration_mode = "separate"});
  heart.motion = "cardiac";
  refused("--motion cardiac has no readouts before", heart);
  SimulateOptions quiet = cartesian(16);
  quiet.noise_only = true;
  refused("need noise to measure", quiet);
  SimulateOptions slices = cartesian(16, 4);
  slices.slices = 2;
  refused("leave out --slices", slices);
}

}  // namespace
}  // namespace echotrain::client
