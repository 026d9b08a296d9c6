// Simulated files as other programs read them: through the dataset reader, the header checks and the readout checks.
#include "clients/cpp/simulate/simulate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <sstream>

#include "clients/cpp/base/image_pixels.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/simulate/subject/phantom.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/header.h"
#include "protocol/files/dataset.h"
#include "tests/clients/cpp/support.h"

namespace echotrain::client {
namespace {

constexpr std::uint64_t mask(int flag) { return 1ull << (flag - 1); }
constexpr std::uint64_t kFirstInSlice = mask(7), kLastInSlice = mask(8), kLastInRepetition = mask(14),
                        kNoise = mask(19), kLastInMeasurement = mask(25);

std::vector<std::complex<float>> data_of(const protocol::Acquisition& readout) {
  std::vector<std::complex<float>> values(readout.data.bytes.size() / sizeof(std::complex<float>));
  readout.data.copy_to(values.data());
  return values;
}

std::vector<float> trajectory_of(const protocol::Acquisition& readout) {
  std::vector<float> values(readout.trajectory.bytes.size() / sizeof(float));
  readout.trajectory.copy_to(values.data());
  return values;
}

SimulateOptions small(const TemporaryFolder& folder, const std::string& trajectory) {
  SimulateOptions o;
  o.output = folder / "scan.h5";
  o.trajectory = trajectory;
  o.matrix = 16;
  o.coils = 2;
  if (trajectory == "kooshball") o.readouts = 40;
  if (trajectory == "stack_of_stars") o.readouts = 10;
  return o;
}

void run_simulation(const SimulateOptions& options) {
  std::ostringstream out;
  simulate(options, out);
  EXPECT_NE(out.str().find("matrix 16"), std::string::npos);
}

class EveryTrajectory : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryTrajectory, PassesTheChecksOfAServer) {
  const TemporaryFolder folder;
  SimulateOptions o = small(folder, GetParam());
  o.frames = 2;
  const std::string trajectory = GetParam();
  const unsigned depth = trajectory == "kooshball" ? 16 : trajectory.starts_with("stack") ? 4 : 1;
  o.slices = depth > 1 ? 1 : 3;
  o.noise = 1;
  o.noise_scan = true;
  run_simulation(o);

  const protocol::DatasetReader reader(o.output);
  const auto header = protocol::parse_header(reader.header_xml(), {});
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->receiver_channels, 2u);
  const auto& encoding = header->encodings.at(0);
  EXPECT_EQ(encoding.recon.matrix[0], 16u);
  EXPECT_EQ(encoding.recon.matrix[2], depth);
  ASSERT_TRUE(encoding.repetition);
  EXPECT_EQ(encoding.repetition->maximum, 1);

  protocol::AcquisitionCheck check(*header);
  int noise = 0, ends_of_slices = 0, starts_of_slices = 0, ends_of_repetitions = 0, ends_of_scan = 0;
  std::uint32_t last_stamp = 0;
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const auto readout = reader.acquisition(i);
    const auto reason = check.check(readout);
    ASSERT_FALSE(reason) << reason->message;
    const protocol::AcquisitionHeader head = readout.head;
    EXPECT_EQ(+head.scan_counter, i);
    EXPECT_GE(+head.acquisition_time_stamp, last_stamp);
    last_stamp = head.acquisition_time_stamp;
    noise += (head.flags & kNoise) != 0 ? 1 : 0;
    starts_of_slices += (head.flags & kFirstInSlice) != 0 ? 1 : 0;
    ends_of_slices += (head.flags & kLastInSlice) != 0 ? 1 : 0;
    ends_of_repetitions += (head.flags & kLastInRepetition) != 0 ? 1 : 0;
    ends_of_scan += (head.flags & kLastInMeasurement) != 0 ? 1 : 0;
    for (const float k : trajectory_of(readout)) EXPECT_LE(std::abs(k), 0.5f);
  }
  EXPECT_EQ(noise, 32);
  EXPECT_EQ(starts_of_slices, 2 * o.slices);
  EXPECT_EQ(ends_of_slices, 2 * o.slices);
  EXPECT_EQ(ends_of_repetitions, 2);
  EXPECT_EQ(ends_of_scan, 1);
  EXPECT_EQ(last_stamp, static_cast<std::uint32_t>(std::floor((reader.acquisitions() - 1) * 5.0 / 2.5)));
  const std::vector<std::size_t> flat = {16, 16}, solid = {depth, 16, 16};
  EXPECT_EQ(read_array(o.output, "dataset", "truth").shape, depth > 1 ? solid : flat);
}

INSTANTIATE_TEST_SUITE_P(All, EveryTrajectory,
                         ::testing::Values("cartesian", "radial", "golden_radial", "spiral", "kooshball",
                                           "stack_of_stars", "stack_of_spirals"));

// Reconstructs one voxel of one coil from the file alone, by the conventions that the whole project states.
std::complex<double> adjoint(const protocol::DatasetReader& reader, int coil, double x, double y) {
  std::complex<double> sum = 0;
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const auto readout = reader.acquisition(i);
    const auto data = data_of(readout);
    const auto k = trajectory_of(readout);
    const std::size_t samples = readout.head.number_of_samples;
    for (std::size_t s = 0; s < samples; ++s) {
      sum += static_cast<double>(k[3 * s + 2]) * std::complex<double>(data[coil * samples + s]) *
             std::polar(1.0, 2 * std::numbers::pi * (k[3 * s] * x + k[3 * s + 1] * y));
    }
  }
  return sum;
}

TEST(Simulate, WeightedSpiralSumGivesTheTruth) {
  const TemporaryFolder folder;
  SimulateOptions o = small(folder, "spiral");
  o.phantom = "blob";
  // With R interleaves the error starts with the Bessel function J_R(2 pi k r): below 1e-5 for R = 16 where the blob
  // is.
  o.readouts = 16;
  run_simulation(o);
  const protocol::DatasetReader reader(o.output);
  const auto truth = read_array(o.output, "dataset", "truth");
  for (const auto& [x, y] : {std::pair{8, 8}, {9, 8}, {8, 6}, {5, 10}}) {
    const double sum =
        std::sqrt(std::norm(adjoint(reader, 0, x - 8, y - 8)) + std::norm(adjoint(reader, 1, x - 8, y - 8)));
    EXPECT_NEAR(sum, truth.values[y * 16 + x], 2e-4) << x << ' ' << y;
  }
  EXPECT_NEAR(truth.values[8 * 16 + 8], 1, 0.02);  // profiles vary a little within the blob
}

TEST(Simulate, CartesianMeanGivesTheTruth) {
  const TemporaryFolder folder;
  SimulateOptions o = small(folder, "cartesian");
  o.oversampling = 2;
  o.coils = 1;
  run_simulation(o);
  const protocol::DatasetReader reader(o.output);
  const auto truth = read_array(o.output, "dataset", "truth");
  const int x = 4, y = 11;
  std::complex<double> sum = 0;
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const auto readout = reader.acquisition(i);
    const auto data = data_of(readout);
    const protocol::AcquisitionHeader head = readout.head;
    for (int s = 0; s < head.number_of_samples; ++s) {
      const double phase =
          (s - head.center_sample) / 32.0 * (x - 8) + (head.idx.kspace_encode_step_1 - 8) / 16.0 * (y - 8);
      sum += std::complex<double>(data[s]) * std::polar(1.0, 2 * std::numbers::pi * phase);
    }
  }
  EXPECT_NEAR(std::abs(sum) / (32 * 16), truth.values[y * 16 + x], 1e-6);
}

TEST(Simulate, AStackIsItsPlanesKspaceAtEveryPartition) {
  const TemporaryFolder folder;
  SimulateOptions o = small(folder, "stack_of_stars");
  o.phantom = "blob";
  o.blob_sigma = 1.5;
  o.coils = 1;
  o.partitions = 5;
  for (const bool outermost : {false, true}) {
    o.partitions_outermost = outermost;
    run_simulation(o);
    const protocol::DatasetReader reader(o.output);
    const auto header = protocol::parse_header(reader.header_xml(), {});
    ASSERT_TRUE(header && header->encodings[0].kspace_encoding_step_1 && header->encodings[0].kspace_encoding_step_2);
    EXPECT_EQ(header->encodings[0].encoded.matrix[2], 5u);
    EXPECT_EQ(header->encodings[0].encoded.fov_mm[2], 256);
    EXPECT_EQ(header->encodings[0].kspace_encoding_step_1->maximum, 9);
    EXPECT_EQ(header->encodings[0].kspace_encoding_step_2->maximum, 4);
    EXPECT_EQ(header->encodings[0].kspace_encoding_step_2->center, 2);
    ASSERT_EQ(reader.acquisitions(), 50u);
    for (std::size_t i = 0; i < 50; ++i) {
      const auto readout = reader.acquisition(i);
      const protocol::AcquisitionHeader head = readout.head;
      EXPECT_EQ(+head.idx.kspace_encode_step_1, outermost ? i % 10 : i / 5);
      EXPECT_EQ(+head.idx.kspace_encode_step_2, outermost ? i / 10 : i % 5);
      EXPECT_EQ((head.flags & kLastInSlice) != 0, i == 49);
      ASSERT_EQ(+head.trajectory_dimensions, 3);
      const auto k = trajectory_of(readout);
      const auto data = data_of(readout);
      const double kz = (head.idx.kspace_encode_step_2 - 2) / 5.0, pi = std::numbers::pi;
      for (std::size_t s = 0; s < data.size(); ++s) {
        const double radius = (static_cast<double>(s) - 16) / 32;
        EXPECT_NEAR(std::hypot(k[3 * s], k[3 * s + 1]), std::abs(radius), 1e-6);
        EXPECT_NEAR(k[3 * s + 2], kz, 1e-7);
        // (2 pi sigma^2)^(3/2) exp(-2 pi^2 sigma^2 k^2)
        const double truth = std::pow(2 * pi * 2.25, 1.5) * std::exp(-2 * pi * pi * 2.25 * (radius * radius + kz * kz));
        EXPECT_NEAR(std::abs(std::complex<double>(data[s]) - truth), 0, 1e-5);
      }
    }
  }
}

TEST(Simulate, ContrastsAreEchoesOfEachReadout) {
  const TemporaryFolder folder;
  SimulateOptions o = small(folder, "kooshball");
  o.phantom = "ellipsoids_3d";
  o.contrasts = 3;
  o.frames = 2;
  o.coils = 1;
  o.coil_truth = true;
  run_simulation(o);
  const protocol::DatasetReader reader(o.output);
  const auto header = protocol::parse_header(reader.header_xml(), {});
  ASSERT_TRUE(header && header->encodings[0].contrast);
  EXPECT_EQ(header->encodings[0].contrast->maximum, 2);
  ASSERT_EQ(reader.acquisitions(), 2u * 40 * 3);
  protocol::AcquisitionCheck check(*header);
  const Phantom phantom = Phantom::shepp_logan(3, 16);
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const auto readout = reader.acquisition(i);
    ASSERT_FALSE(check.check(readout));
    const protocol::AcquisitionHeader head = readout.head;
    const std::size_t contrast = i % 3, spoke = i / 3 % 40;
    EXPECT_EQ(+head.idx.contrast, contrast);
    EXPECT_EQ(+head.idx.kspace_encode_step_1, spoke);
    EXPECT_EQ((head.flags & kLastInSlice) != 0, spoke == 39);
    EXPECT_EQ((head.flags & mask(10)) != 0, spoke == 39);  // the last of its contrast
    EXPECT_EQ((head.flags & kLastInRepetition) != 0, spoke == 39 && contrast == 2);
    EXPECT_EQ((head.flags & kLastInMeasurement) != 0, i == 239);
    // 5 ms a spoke, in ticks of 2.5 ms; echoes share it.
    EXPECT_EQ(head.acquisition_time_stamp, static_cast<std::uint32_t>(std::floor(static_cast<double>(i) / 3 * 2)));
    const auto k = trajectory_of(readout);
    const auto data = data_of(readout);
    const Vec3 at = {k[3 * 7], k[3 * 7 + 1], k[3 * 7 + 2]};
    // Positions of the file are rounded to float: 3e-8 cycles/pixel times 2 pi 8 pixels.
    EXPECT_NEAR(std::abs(std::complex<double>(data[7]) - phantom.echo(static_cast<int>(contrast)).kspace(at)), 0, 1e-3);
  }
  const auto truths = read_truths(o.output, "dataset");
  ASSERT_EQ(truths.size(), 3u);
  // A large part of the brain, behind the ventricles, fades by exp(-0.4) from echo to echo. Ringing from the edges
  // mixes tissues, so the tolerance is a tenth.
  const std::size_t voxel = (8 * 16 + 12) * 16 + 8;
  EXPECT_NEAR(truths[1].values[voxel] / truths[0].values[voxel], std::exp(-0.4), 0.1);
  EXPECT_NEAR(truths[2].values[voxel] / truths[0].values[voxel], std::exp(-0.8), 0.1);
  EXPECT_NO_THROW(read_array(o.output, "dataset", "truth_2"));
}

TEST(Simulate, EllipsoidsAreAVolume) {
  const TemporaryFolder folder;
  SimulateOptions o = small(folder, "stack_of_stars");
  o.phantom = "ellipsoids_3d";
  run_simulation(o);
  const auto ellipsoids = data_of(protocol::DatasetReader(o.output).acquisition(11));
  o.phantom = "shepp_logan";
  run_simulation(o);
  EXPECT_EQ(data_of(protocol::DatasetReader(o.output).acquisition(11)), ellipsoids);
}

TEST(Simulate, SlicesOfTheEllipsoidsAreItsCutsWhereTheSlicesLie) {
  const TemporaryFolder folder;
  SimulateOptions o = small(folder, "cartesian");
  o.phantom = "ellipsoids_3d";
  o.coils = 1;
  o.slices = 3;
  o.contrasts = 2;
  o.fov_mm = 32;  // 2 mm pixels: slices lie 2.5 pixels apart
  run_simulation(o);
  const protocol::DatasetReader reader(o.output);
  const Phantom head = Phantom::shepp_logan(3, 16);
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const auto readout = reader.acquisition(i);
    const protocol::AcquisitionHeader at = readout.head;
    EXPECT_FLOAT_EQ(at.position[2], 5.0f * (static_cast<float>(at.idx.slice) - 1));
    if (at.idx.kspace_encode_step_1 != 8) continue;
    // The middle of the middle line is k = 0: the integral of the cut, a sum over pixels of a quarter each way.
    double sum = 0;
    for (int y = -64; y < 64; ++y)
      for (int x = -64; x < 64; ++x)
        sum += head.echo(at.idx.contrast).value({(x + 0.5) / 8, (y + 0.5) / 8, 2.5 * (at.idx.slice - 1.0)}) / 64;
    EXPECT_NEAR(data_of(readout)[8].real(), sum, 0.005 * sum) << at.idx.slice;
  }
  const auto truths = read_truths(o.output, "dataset");
  ASSERT_EQ(truths.size(), 2u);
  EXPECT_EQ(truths[1].shape, (std::vector<std::size_t>{3, 16, 16}));
}

TEST(Simulate, FramesDifferOnlyInNoiseAndTheSeedDecidesIt) {
  const TemporaryFolder folder;
  SimulateOptions o = small(folder, "radial");
  o.frames = 2;
  o.noise = 0.5;
  o.readouts = 4;
  run_simulation(o);
  std::vector<std::complex<float>> first, second;
  double power = 0;
  {
    const protocol::DatasetReader reader(o.output);
    first = data_of(reader.acquisition(0));
    second = data_of(reader.acquisition(4));
    EXPECT_EQ(+reader.acquisition(4).head.idx.repetition, 1);
  }
  for (std::size_t i = 0; i < first.size(); ++i) power += std::norm(first[i] - second[i]);
  // The difference of two samples has variance 4 sigma^2 = 1; 64 of them: within five standard errors of 1.
  EXPECT_NEAR(power / first.size(), 1, 5 / std::sqrt(64.0));
  run_simulation(o);
  EXPECT_EQ(data_of(protocol::DatasetReader(o.output).acquisition(0)), first);
  o.seed = 2;
  run_simulation(o);
  EXPECT_NE(data_of(protocol::DatasetReader(o.output).acquisition(0)), first);
}

}  // namespace
}  // namespace echotrain::client
