// Simulated EPI as a server reads it.
#include "clients/cpp/simulate/epi_scanner.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/simulate/simulate.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/header.h"
#include "tests/clients/cpp/support.h"

namespace echotrain::client::echo_trains {
namespace {

constexpr std::uint64_t flag_mask(int flag) { return 1ull << (flag - 1); }

SimulateOptions small_epi(const TemporaryFolder& folder) {
  SimulateOptions o;
  o.output = folder / "scan.h5";
  o.trajectory = "epi";
  o.matrix = 16;
  o.coils = 1;
  o.phantom = "blob";
  o.epi.ramp_us = 60;
  o.epi.flat_us = 40;
  return o;
}

void simulate_epi(const SimulateOptions& options) {
  std::ostringstream out;
  simulate(options, out);
}

std::vector<std::complex<float>> samples_of(const protocol::Acquisition& readout) {
  std::vector<std::complex<float>> values(readout.data.bytes.size() / sizeof(std::complex<float>));
  readout.data.copy_to(values.data());
  return values;
}

TEST(EpiScannerTest, TrainsAreNumberedAndFlagged) {
  const TemporaryFolder folder;
  SimulateOptions o = small_epi(folder);
  o.frames = o.slices = o.epi.shots = 2;
  o.noise = 1;
  o.noise_scan = true;
  simulate_epi(o);
  const protocol::DatasetReader reader(o.output);
  const auto header = protocol::parse_header(reader.header_xml(), {});
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->encodings.at(0).trajectory, protocol::Trajectory::epi);
  protocol::AcquisitionCheck check(*header);
  int navigators = 0, lines = 0, reversed = 0, ends = 0;
  std::uint32_t stamp = 0;
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const auto readout = reader.acquisition(i);
    EXPECT_FALSE(check.check(readout));
    const protocol::AcquisitionHeader head = readout.head;
    EXPECT_GE(+head.acquisition_time_stamp, stamp);
    stamp = head.acquisition_time_stamp;
    const auto kind = protocol::readout_kind(head, protocol::Trajectory::epi);
    navigators += kind == protocol::ReadoutKind::phase_correction ? 1 : 0;
    lines += kind == protocol::ReadoutKind::imaging ? 1 : 0;
    reversed += (head.flags & flag_mask(22)) != 0 ? 1 : 0;
    ends += (head.flags & flag_mask(8)) != 0 ? 1 : 0;
  }
  EXPECT_EQ(navigators, 2 * 2 * 2 * 3);
  EXPECT_EQ(lines, 2 * 2 * 16);
  EXPECT_EQ(reversed, 2 * 2 * 2 * (1 + 4));
  EXPECT_EQ(ends, 4);
}

TEST(EpiScannerTest, SamplesLieWhereALateGradientPutsThem) {
  const TemporaryFolder folder;
  SimulateOptions o = small_epi(folder);
  o.epi.gradient_delay_us = 2;
  o.epi.ghost = 0.25;
  simulate_epi(o);
  const protocol::DatasetReader reader(o.output);
  const auto described = protocol::parse_header(reader.header_xml(), {})->encodings.at(0).description;
  ASSERT_TRUE(described);
  const double ramp = *described->value("rampUpTime"), flat = *described->value("flatTopTime");
  const double delay = *described->value("acqDelayTime"), dwell = *described->value("dwellTime");
  const auto area = [&](double time) {  // by small steps
    double sum = 0;
    for (int i = 0; i < 4000; ++i) {
      const double t = time * (i + 0.5) / 4000, end = 2 * ramp + flat;
      sum += std::max(0.0, std::min({t / ramp, (end - t) / ramp, 1.0})) * time / 4000;
    }
    return sum;
  };
  const double whole = area(2 * ramp + flat), covered = area(2 * ramp + flat - delay) - area(delay);
  const Phantom blob = Phantom::blob(2, o.blob_sigma);
  for (std::size_t i = 3; i < reader.acquisitions(); i += 5) {
    const auto readout = reader.acquisition(i);
    const auto data = samples_of(readout);
    ASSERT_EQ(static_cast<double>(data.size()), *described->value("numSamples"));
    const bool reversed = (readout.head.flags & flag_mask(22)) != 0;
    const double ky = (readout.head.idx.kspace_encode_step_1 - 8) / 16.0;
    for (std::size_t s = 0; s < data.size(); s += 3) {
      const double time = delay + (static_cast<double>(s) + 0.5) * dwell - 2;
      const double kx = (area(time) - whole / 2) / covered * (reversed ? -1 : 1);
      const cdouble expected = blob.kspace({kx, ky, 0}) * std::polar(1.0, reversed ? 2 * std::atan(0.25) : 0.0);
      EXPECT_LT(std::abs(cdouble(data[s]) - expected), 1e-3) << i << " " << s;
    }
  }
}

TEST(EpiScannerTest, APhaseThatVariesOverTheImageIsThatOfReversedLinesAndDualReferencesComeBothWays) {
  const TemporaryFolder folder;
  SimulateOptions o = small_epi(folder);
  o.epi.ramp_us = 0;
  o.epi.ghost_wave = -1.3;
  o.epi.references = "dual";
  o.undersampling.acceleration = "2";
  o.undersampling.calibration = 8;
  o.undersampling.calibration_mode = "separate";
  simulate_epi(o);
  const protocol::DatasetReader reader(o.output);
  const double pi = std::acos(-1.0), sigma = o.blob_sigma;
  std::map<int, std::array<int, 2>> came;  // references, by line
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const auto readout = reader.acquisition(i);
    const auto data = samples_of(readout);
    const bool reversed = (readout.head.flags & flag_mask(22)) != 0;
    const bool navigator = (readout.head.flags & flag_mask(24)) != 0;
    const int line = readout.head.idx.kspace_encode_step_1;
    if ((readout.head.flags & flag_mask(20)) != 0) ++came[line][reversed ? 1 : 0];
    const double ky = navigator ? 0 : (line - 8) / 16.0;
    for (std::size_t s = 0; s < data.size(); s += 5) {
      const double kx = ((reversed ? 15 - static_cast<double>(s) : static_cast<double>(s)) - 7.5) / 16;
      cdouble expected = 0;  // the Gaussian is integrated over all space by steps of a quarter: exact to 1e-12
      for (double y = -14; y <= 14; y += 0.5)
        for (double x = -14; x <= 14; x += 0.5) {
          const double phase = reversed ? -1.3 * std::cos(pi * (x + 2 * y) / 16) : 0;
          expected +=
              0.25 * std::polar(std::exp(-(x * x + y * y) / (2 * sigma * sigma)), phase - 2 * pi * (kx * x + ky * y));
        }
      EXPECT_LT(std::abs(cdouble(data[s]) - expected), 1e-4) << i << " " << s;
    }
  }
  ASSERT_EQ(came.size(), 8u);
  for (const auto& [line, ways] : came) EXPECT_EQ(ways, (std::array<int, 2>{1, 1})) << line;
}

TEST(EpiScannerTest, SlicesAtOnceAreSumsWithTheBlipsPhase) {
  const TemporaryFolder folder;
  SimulateOptions o = small_epi(folder);
  o.slices = 4;
  o.epi.interleaved = true;
  o.undersampling.multiband = 2;
  o.undersampling.fov_shift = 3;
  o.undersampling.calibration = 16;
  o.undersampling.calibration_mode = "separate";
  simulate_epi(o);
  const protocol::DatasetReader reader(o.output);
  const auto multiband = protocol::parse_header(reader.header_xml(), {})->encodings.at(0).multiband;
  ASSERT_TRUE(multiband);
  EXPECT_EQ(multiband->factor, 2u);
  EXPECT_EQ(multiband->spacing_mm, (std::vector<double>{10}));
  EXPECT_NEAR(multiband->delta_kz, 1.0 / 30, 1e-9);
  std::vector<int> order;
  std::map<int, std::vector<std::complex<float>>> single;  // by line
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const auto readout = reader.acquisition(i);
    const int slice = readout.head.idx.slice, line = readout.head.idx.kspace_encode_step_1;
    if (order.empty() || order.back() != slice) order.push_back(slice);
    if ((readout.head.flags & flag_mask(24)) != 0) continue;
    const auto data = samples_of(readout);
    if ((readout.head.flags & flag_mask(20)) != 0) {
      single[line] = data;  // the same object in all slices, in trains of the same echoes
      continue;
    }
    // Slice 0 (or 1), and slice 2 (or 3) turned by a third of a turn for each line from the centre on.
    const std::complex<double> factor = 1.0 + std::polar(1.0, 2 * std::acos(-1.0) * (line - 8) / 3);
    for (std::size_t s = 0; s < data.size(); ++s)
      EXPECT_LT(std::abs(std::complex<double>(data[s]) - factor * std::complex<double>(single.at(line)[s])), 1e-4);
  }
  EXPECT_EQ(order, (std::vector<int>{0, 2, 1, 3, 0, 1}));
}

TEST(EpiScannerTest, PlainReferencesAreRegularLines) {
  const TemporaryFolder folder;
  SimulateOptions o = small_epi(folder);
  o.epi.references = "flash";
  o.epi.ghost = 0.3;
  o.epi.gradient_delay_us = 3;
  o.undersampling.acceleration = "2";
  o.undersampling.calibration = 6;
  o.undersampling.calibration_mode = "separate";
  o.epi.reverse_blips = true;
  simulate_epi(o);
  const protocol::DatasetReader reader(o.output);
  const Phantom blob = Phantom::blob(2, o.blob_sigma);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto readout = reader.acquisition(i);
    EXPECT_EQ(+readout.head.flags, flag_mask(20));
    const auto data = samples_of(readout);
    ASSERT_EQ(data.size(), 16u);
    for (std::size_t s = 0; s < 16; ++s) {
      const double kx = (static_cast<double>(s) - 8) / 16, ky = (readout.head.idx.kspace_encode_step_1 - 8) / 16.0;
      EXPECT_LT(std::abs(cdouble(data[s]) - blob.kspace({kx, ky, 0})), 1e-5);
    }
  }
  EXPECT_NE(reader.acquisition(6).head.flags & flag_mask(24), 0u);
  EXPECT_EQ(+reader.acquisition(9).head.idx.kspace_encode_step_1, 14);
  EXPECT_EQ(+reader.acquisition(10).head.idx.kspace_encode_step_1, 12);
}

TEST(EpiScannerTest, OptionsThatMeanNothingAreRefused) {
  const TemporaryFolder folder;
  for (const auto& change : std::initializer_list<void (*)(SimulateOptions&)>{
           [](SimulateOptions& o) { o.oversampling = 2; }, [](SimulateOptions& o) { o.contrasts = 2; },
           [](SimulateOptions& o) { o.depth = 4; }, [](SimulateOptions& o) { o.epi.shots = 17; },
           [](SimulateOptions& o) { o.undersampling.multiband = 2; },
           [](SimulateOptions& o) { o.epi.references = "?"; },
           [](SimulateOptions& o) { o.undersampling.fov_shift = 2; }}) {
    SimulateOptions o = small_epi(folder);
    change(o);
    EXPECT_THROW(simulate_epi(o), UsageError);
  }
}

}  // namespace
}  // namespace echotrain::client::echo_trains
