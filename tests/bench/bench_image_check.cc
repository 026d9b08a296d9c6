// The bench measures what the check of images that leave costs (pixels that are not finite or cut, images of zeros):
// the conversion to pixels with and without it, by turns, and beside both the whole time of a frame, from readouts to
// its image, check included. check_of_frame is the part of a frame's time that the check takes.
//   frame/BACKEND/...        Cartesian, and a sliding window of radial readouts, with the gadgets of the shipped
//                            cartesian_cine and radial_realtime
// Counters are the least of many runs, in microseconds; on a GPU runs are many conversions in a row.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "protocol/data/header.h"
#include "tests/support/bench_resources.h"

namespace {

using namespace echotrain;
using numerics::Backend;
using numerics::cfloat;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Case {
  std::string name;
  bool radial;
  std::int64_t n, coils;
};

std::vector<cfloat> random_values(std::int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<cfloat> out(static_cast<std::size_t>(n));
  for (auto& v : out) v = {normal(random), normal(random)};
  return out;
}

/// Least seconds of a conversion of [n, n] without a tally and with one.
struct Conversion {
  double plain = 1e9, checked = 1e9;
};
Conversion conversion(numerics::Context& compute, std::int64_t n) {
  const auto values = random_values(n * n);
  const auto from = compute.upload<cfloat>({values.data(), {n, n}});
  auto to = compute.allocate<float>({n, n});
  auto tally = compute.zeros<numerics::PixelTally>({1});
  const int in_a_row = compute.cuda() ? 200 : 20;
  Conversion least;
  for (int round = 0; round < 300; ++round)
    for (const bool check : {false, true}) {
      compute.synchronize();
      const auto begin = Clock::now();
      for (int i = 0; i < in_a_row; ++i)
        numerics::component(compute, from.cview(), numerics::Component::magnitude, 1.5f, to.view(),
                            check ? tally.view() : numerics::DeviceView<numerics::PixelTally>());
      compute.synchronize();
      double& best = check ? least.checked : least.plain;
      best = std::min(best, seconds_since(begin) / in_a_row);
    }
  return least;
}

protocol::Header header_of(const Case& what) {
  const std::string space = fmt::format(
      "<matrixSize><x>{0}</x><y>{0}</y><z>1</z></matrixSize><fieldOfView_mm><x>{0}</x><y>{0}</y><z>5</z></"
      "fieldOfView_mm>",
      what.n);
  const auto header = protocol::parse_header(
      fmt::format("<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><experimentalConditions>"
                  "<H1resonanceFrequency_Hz>1</H1resonanceFrequency_Hz></experimentalConditions><encoding>"
                  "<encodedSpace>{0}</encodedSpace><reconSpace>{0}</reconSpace><encodingLimits></encodingLimits>"
                  "<trajectory>{1}</trajectory></encoding></ismrmrdHeader>",
                  space, what.radial ? "goldenangle" : "cartesian"),
      {});
  if (!header) throw std::logic_error(header.error().message);
  return *header;
}

constexpr int kStride = 5;  // of the window, readouts for each image

/// The readouts of one image; for radial windows those of image number `frame`.
std::vector<protocol::Acquisition> readouts_of(const Case& what, const std::vector<cfloat>& line, int frame) {
  std::vector<protocol::Acquisition> out;
  const std::int64_t samples = what.radial ? 2 * what.n : what.n, count = what.radial ? kStride : what.n;
  for (std::int64_t i = 0; i < count; ++i) {
    protocol::Acquisition readout;
    readout.head.version = 1;
    readout.head.number_of_samples = static_cast<std::uint16_t>(samples);
    readout.head.active_channels = readout.head.available_channels = static_cast<std::uint16_t>(what.coils);
    readout.head.center_sample = static_cast<std::uint16_t>(samples / 2);
    if (!what.radial) {
      readout.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
      readout.head.idx.phase = static_cast<std::uint16_t>(frame % 16);
      if (i + 1 == count) readout.head.flags = 1ull << 7;  // LAST_IN_SLICE
    } else {
      const double angle = std::numbers::pi * 0.618033988749895 * static_cast<double>(frame * kStride + i);
      std::vector<float> trajectory;
      for (std::int64_t s = 0; s < samples; ++s) {
        const double k = static_cast<double>(s - samples / 2) / static_cast<double>(samples);
        trajectory.push_back(static_cast<float>(k * std::cos(angle)));
        trajectory.push_back(static_cast<float>(k * std::sin(angle)));
      }
      readout.head.trajectory_dimensions = 2;
      readout.trajectory = protocol::Payload::take(trajectory);
    }
    auto data = line;
    readout.data = protocol::Payload::take(data);
    out.push_back(std::move(readout));
  }
  return out;
}

const char* chain(const Case& what) {
  return what.radial ? "echotrain: 1\nname: bench\ndescription: As radial_realtime\n"
                       "frame: {readouts: 55, stride: 5}\ntrajectory_unit: cycles_per_pixel\npipeline:\n"
                       "  - noise_adjust\n  - density_compensation: {method: ramp, share: equal}\n"
                       "  - gridding: {kernel_width: 5, oversampling: 1.5, incremental: true, rebuild_every: 32}\n"
                       "  - fft: {direction: inverse}\n  - deapodization\n  - coil_combine: {method: rss}\n"
                       "  - image: {component: magnitude, type: float}\n"
                     : "echotrain: 1\nname: bench\ndescription: As cartesian_cine\npipeline:\n"
                       "  - noise_adjust\n  - cartesian_kspace: {calibration: none}\n  - fft: {direction: inverse}\n"
                       "  - coil_combine: {method: rss}\n  - image: {component: magnitude, type: float}\n";
}

/// Least seconds of a whole frame of the pipeline.
double frame_seconds(numerics::Context& compute, const Case& what) {
  int images = 0;
  Pipeline run(PipelinePlan::check(config::read_pipeline(chain(what), "bench.yaml")), compute,
               {[&](protocol::Image&&, const ImageTimes&) { ++images; }, [](protocol::Level, const std::string&) {}});
  run.start(header_of(what));
  const auto line = random_values(what.coils * (what.radial ? 2 * what.n : what.n));
  constexpr int kFrames = 200;
  double least = 1e9;
  for (int frame = 0; frame < kFrames; ++frame) {
    auto readouts = readouts_of(what, line, frame);
    const int before = images;
    const auto begin = Clock::now();
    run.push(std::move(readouts));
    run.wait();
    if (images > before) least = std::min(least, seconds_since(begin));
  }
  if (images < kFrames / 2) throw std::logic_error("the pipeline gave too few images");
  return least;
}

void frame(benchmark::State& state, const Case& what, Backend backend) {
  numerics::Context compute(backend, bench_resources());
  for (auto _ : state) {
    const double whole = frame_seconds(compute, what);
    const Conversion of = conversion(compute, what.n);
    state.SetIterationTime(whole);
    state.counters["frame_us"] = 1e6 * whole;
    state.counters["plain_us"] = 1e6 * of.plain;
    state.counters["checked_us"] = 1e6 * of.checked;
    state.counters["check_of_frame"] = (of.checked - of.plain) / whole;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Backend> backends{Backend::cpu};
  if (numerics::available(Backend::cuda)) backends.push_back(Backend::cuda);
  for (const Backend backend : backends)
    for (const Case& what :
         {Case{"cartesian_256_1coil", false, 256, 1}, Case{"cartesian_256_16coils", false, 256, 16},
          Case{"cartesian_384_16coils", false, 384, 16}, Case{"radial_realtime_256_16coils", true, 256, 16},
          Case{"radial_realtime_384_16coils", true, 384, 16}})
      benchmark::RegisterBenchmark(
          fmt::format("frame/{}/{}", backend == Backend::cuda ? "cuda" : "cpu", what.name).c_str(),
          [what, backend](benchmark::State& state) { frame(state, what, backend); })
          ->UseManualTime()
          ->Iterations(1);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
