// EPI whose noise is whitened before its samples become regular lines: what noise is then, and what navigators tell.
#include "gadgets/numerics/mri/epi/ramp.h"
#include "tests/gadgets/epi/epi_scan.h"

namespace echotrain::testing {
namespace {

const std::string kPhase = "  - epi_phase_correction\n";
const std::string kRest = "  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n";

class EpiNoiseTest : public OnEachBackend {
 protected:
  std::mt19937 random_{5};

  /// Noise of two coils that share some of it, times `size`: one with 100 times the noise of the other.
  std::vector<cfloat> coloured(std::int64_t samples, double size) {
    const auto white = noise(static_cast<std::size_t>(2 * samples), random_);
    std::vector<cfloat> out(white.size());
    for (std::size_t s = 0; s < white.size() / 2; ++s) {
      const cdouble a(white[s]), b(white[white.size() / 2 + s]);
      out[s] = cfloat(size * a);
      out[white.size() / 2 + s] = cfloat(size * (cdouble(40, 30) * a + 100.0 * b));
    }
    return out;
  }
  Acquisition noise_readout(double size) {
    Acquisition out = readout(2, coloured(2000, size));
    set_flag(out, kNoise);
    out.head.sample_time_us = 12;
    return out;
  }
  /// Adds noise as that of the noise readouts is in samples of the scan's dwell time.
  void add_noise(std::vector<Acquisition>& scan, double size) {
    for (Acquisition& line : scan) {
      auto data = pixels<cfloat>({.pixels = line.data});
      const auto more = coloured(line.head.number_of_samples, size * std::sqrt(12 / line.head.sample_time_us));
      for (std::size_t i = 0; i < data.size(); ++i) data[i] += more[i];
      const auto head = line.head;
      line = readout(2, std::move(data));
      line.head = head;
    }
  }
};

/// Each sample of a line has noise of a standard deviation of 1 after noise_adjust, so that a point of the regular line
/// has the variance that the sum of its weights' squares says, and coils are apart.
TEST_P(EpiNoiseTest, RegularLinesHaveTheNoiseThatTheirWeightsMakeOfWhiteNoise) {
  const EpiScan made({.n = 32, .constant = {0, 0}, .slope = {0, 0}, .navigators = 0});
  constexpr int kFrames = 10;
  std::vector<Acquisition> scan = {noise_readout(0.01), noise_readout(0.01)};
  std::vector<Acquisition> lines;
  for (int r = 0; r < kFrames; ++r)
    for (Acquisition& line : made.scan()) {
      const auto head = line.head;
      line = readout(2, std::vector<cfloat>(static_cast<std::size_t>(2 * head.number_of_samples)));
      line.head = head;
      line.head.idx.repetition = static_cast<std::uint16_t>(r);
      lines.push_back(std::move(line));
    }
  add_noise(lines, 0.01);
  scan.insert(scan.end(), lines.begin(), lines.end());
  std::vector<double> forward(32);  // of lines that run forward: they are all that is looked at
  const numerics::Trapezoid gradient{
      .ramp_up = 100, .flat = 60, .ramp_down = 100, .delay = 20, .dwell = 3, .samples = 73};
  const auto weights = numerics::regular_line_weights(numerics::trapezoid_positions(gradient, 32), 32, false);
  for (std::size_t i = 0; i < weights.size(); ++i) forward[i % 32] += std::norm(weights[i]);
  std::vector<double> power(2 * 32);
  cdouble cross = 0;
  double count = 0;
  RunOptions options = here();
  options.tap = "ramp_regrid";
  options.on_item = [&](const Item& item, numerics::Context& compute) {
    const auto& readouts = std::get<Readouts>(item);
    if (readouts.heads.empty()) return;
    const auto all = elements(compute, readouts.data);
    for (std::size_t i = 0; i < readouts.heads.size(); ++i) {
      if ((readouts.heads[i].flags >> (kReverse - 1) & 1) != 0) continue;
      ++count;
      for (std::size_t x = 0; x < 32; ++x) {
        const cdouble a(all[(2 * i) * 32 + x]), b(all[(2 * i + 1) * 32 + x]);
        power[x] += std::norm(a);
        power[32 + x] += std::norm(b);
        cross += a * std::conj(b);
      }
    }
  };
  run(yaml("  - noise_adjust\n  - ramp_regrid\n" + kPhase + kRest), made.header(), std::move(scan), options);
  ASSERT_EQ(count, 16 * kFrames);
  // A variance from 160 lines is good to 1/sqrt(160) = 0.079, that of 4,000 samples of noise to 0.016, and the mean
  // over all points, neighbours of which share some noise, to 0.02: five of these.
  double all = 0;
  for (std::size_t i = 0; i < power.size(); ++i) {
    EXPECT_NEAR(power[i] / count / (2 * forward[i % 32]), 1, 5 * 0.081) << i;
    all += power[i] / count / (2 * forward[i % 32]) / 64;
  }
  EXPECT_NEAR(all, 1, 5 * 0.02);
  EXPECT_LT(std::abs(cross) / count / 64, 5 * 0.02);
}

/// A coil that sees nothing but a hundred times the other's noise hides the phase, unless navigators are whitened, too.
TEST_P(EpiNoiseTest, NavigatorsCountByTheirNoise) {
  const EpiScan made({.constant = {0.4, 0.4}, .slope = {-0.09, -0.09}});
  const auto phase_with = [&](const std::string& chain) {
    std::vector<Acquisition> lines = made.scan();
    for (Acquisition& line : lines) {
      auto data = pixels<cfloat>({.pixels = line.data});
      std::fill(data.begin() + static_cast<std::ptrdiff_t>(data.size() / 2), data.end(), cfloat{});
      const auto head = line.head;
      line = readout(2, std::move(data));
      line.head = head;
    }
    random_.seed(5);
    std::vector<Acquisition> scan = {noise_readout(0.5), noise_readout(0.5)};
    add_noise(lines, 0.5);
    scan.insert(scan.end(), lines.begin(), lines.end());
    const Outcome out = run(yaml(chain + kRest), made.header(), std::move(scan), here());
    EXPECT_EQ(out.images.size(), 1u);
    const std::string& text = out.images.at(0).attributes;
    return std::stod(text.substr(text.find("<value>", text.find("epi_constant")) + 7));
  };
  const std::string regrid = "  - ramp_regrid: {delay: given}\n";
  const double first = phase_with("  - noise_adjust\n" + regrid + kPhase),
               last = phase_with(regrid + kPhase + "  - noise_adjust\n");
  EXPECT_NEAR(first, 0.4, 0.02);
  EXPECT_GT(std::abs(last - 0.4), 5 * std::abs(first - 0.4));
}

ECHOTRAIN_ON_BACKENDS(EpiNoiseTest);

}  // namespace
}  // namespace echotrain::testing
