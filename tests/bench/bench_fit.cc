// The bench measures the fit of curves to voxels, with maps of standard deviations: 256 x 256 voxels of 11 images, one
// slice and 30 slices in a call, on each backend.
//   CURVE/SIGNAL/SLICES/cpu|cuda
// On a GPU a time is that of one call in a row of many.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gadgets/numerics/inverse/fit/voxel_fit.h"
#include "tests/bench/machine.h"
#include "tests/support/bench_resources.h"

namespace echotrain::bench {
namespace {

using namespace numerics;

constexpr std::int64_t kVoxels = 256 * 256;

struct Case {
  std::string name;
  VoxelFit fit;
  double inversion = 0;  // the signal is 1 - inversion exp(-at / T); 0: exp(-at / T)
};

std::vector<Case> cases() {
  VoxelFit fit;
  fit.at = {50, 120, 250, 400, 600, 900, 1300, 1800, 2500, 3500, 5000};
  fit.curve.least = 20;
  fit.curve.most = 6000;
  fit.noise = 0.02;
  fit.unbiased = true;
  std::vector<Case> out;
  fit.curve.offset = true;
  out.push_back({"inversion_3/complex", fit, 1.9});
  fit.magnitude = fit.polarity = true;
  out.push_back({"inversion_3/polarity", fit, 1.9});
  fit.magnitude = fit.polarity = fit.curve.offset = false;
  fit.curve.shape = VoxelCurve::Shape::recovery;
  out.push_back({"inversion_2/complex", fit, 2});
  fit.curve.shape = VoxelCurve::Shape::decay;
  fit.magnitude = true;
  out.push_back({"decay/magnitude", fit, 0});
  fit.rician = true;
  out.push_back({"decay/rician", fit, 0});
  fit.rician = fit.magnitude = false;
  fit.curve.turning = true;
  fit.at = {2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22};
  fit.curve.least = 1;
  fit.curve.most = 500;
  out.push_back({"turning/complex", fit, 0});
  return out;
}

Array<cfloat> images(Context& context, const Case& c, std::int64_t voxels) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, static_cast<float>(c.fit.noise));
  std::vector<cfloat> values;
  for (const double at : c.fit.at)
    for (std::int64_t v = 0; v < voxels; ++v) {
      const double t = c.fit.curve.least * 5 * std::pow(20, static_cast<double>(v % kVoxels) / kVoxels);
      const double signal = c.inversion > 0 ? 1 - c.inversion * std::exp(-at / t) : std::exp(-at / t);
      const float noise = normal(random);
      values.emplace_back(static_cast<float>(signal) + noise, normal(random));
    }
  return context.upload<cfloat>({values.data(), {static_cast<std::int64_t>(c.fit.at.size()), voxels}});
}

void measure(benchmark::State& state, const Case& c, std::int64_t slices, Backend backend) {
  Context context(backend, bench_resources());
  const std::int64_t voxels = slices * kVoxels;
  const auto from = images(context, c, voxels);
  auto maps = context.allocate<float>({c.fit.curve.turning ? 4 : 2, voxels});
  const int in_a_row = context.cuda() ? 20 : 1;
  fit_voxels(context, c.fit, from.cview(), maps.view());
  context.synchronize();
  while (state.KeepRunningBatch(in_a_row)) {
    for (int i = 0; i < in_a_row; ++i) fit_voxels(context, c.fit, from.cview(), maps.view());
    context.synchronize();
  }
  const HostArray<float> host = context.download<float>(maps.cview());
  std::int64_t fitted = 0;
  for (std::int64_t v = 0; v < voxels; ++v) fitted += host.data()[v] > 0 ? 1 : 0;
  state.counters["fitted"] = static_cast<double>(fitted) / static_cast<double>(voxels);
}

}  // namespace
}  // namespace echotrain::bench

int main(int argc, char** argv) {
  using namespace echotrain::bench;
  std::vector<Backend> backends{Backend::cpu};
  if (echotrain::numerics::available(Backend::cuda)) backends.push_back(Backend::cuda);
  for (const Case& c : cases())
    for (const std::int64_t slices : {1, 30})
      for (const Backend backend : backends)
        benchmark::RegisterBenchmark(
            fmt::format("{}/{}/{}", c.name, slices, to_string(backend)).c_str(),
            [c, slices, backend](benchmark::State& state) { measure(state, c, slices, backend); })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  add_machine();
  benchmark::RunSpecifiedBenchmarks();
}
