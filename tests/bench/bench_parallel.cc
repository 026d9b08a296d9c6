// The bench measures the way from the last reference line to what an accelerated Cartesian scan is reconstructed with,
// on random data: 32 coils, 24 lines of 256, kernels of 5 x 4, R=3, an image of 256 x 256.
//   kernels/...   the fit of the kernels; error: of the weights, against normal equations solved in float64 by Eigen
//   weights/...   all that `grappa` makes: kernels, sensitivities, unmixing weights and corrected rows; *_ms: its
//                 steps, one after another, each with a wait for the device after it; difference: of the unmixing
//                 weights from the CPU's
//   gfactor/...   the same with g-factors
// Times are medians of 20.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <Eigen/Dense>
#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "gadgets/encoding/calibration_maps.h"
#include "gadgets/encoding/parallel_weights.h"
#include "gadgets/numerics/mri/parallel/unmixing.h"
#include "gadgets/shared/sampled_lines.h"
#include "tests/bench/timing.h"
#include "tests/support/bench_resources.h"

namespace {

using namespace echotrain;
using namespace echotrain::numerics;
using bench::median_seconds;

constexpr int kRepetitions = 20;
constexpr std::int64_t kCoils = 32, kLines = 24, kSize = 256, kStep = 3;

/// Points in front of coils on a ring, and noise: [coil, y, x].
std::vector<cfloat> reference_lines() {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> position(-0.4, 0.4);
  std::normal_distribution<double> value;
  std::vector<cdouble> sum(static_cast<std::size_t>(kCoils * kLines * kSize));
  for (int source = 0; source < 40; ++source) {
    const double px = position(random), py = position(random);
    const cdouble strength(value(random), value(random));
    for (std::int64_t c = 0; c < kCoils; ++c) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(c) / kCoils;
      const double dx = px - 0.6 * std::cos(angle), dy = py - 0.6 * std::sin(angle);
      const cdouble seen = strength * std::polar(std::exp(-4 * (dx * dx + dy * dy)), 3 * (dx - dy) + angle);
      for (std::int64_t y = 0; y < kLines; ++y)
        for (std::int64_t x = 0; x < kSize; ++x)
          sum[static_cast<std::size_t>((c * kLines + y) * kSize + x)] +=
              seen *
              std::polar(1.0, 2 * std::numbers::pi *
                                  (px * static_cast<double>(x - kSize / 2) + py * static_cast<double>(y - kLines / 2)));
    }
  }
  for (cdouble& v : sum) v += 0.05 * cdouble(value(random), value(random));
  return {sum.begin(), sum.end()};
}

/// Every third line, and the middle ones.
SampledLines lines_of_frame() {
  std::vector<std::uint8_t> came(kSize);
  for (std::int64_t y = 0; y < kSize; ++y)
    came[static_cast<std::size_t>(y)] = y % kStep == 0 || std::abs(2 * (y - kSize / 2) + 1) < kLines ? 1 : 0;
  SampledLines lines = sampled_lines(std::move(came), kSize, 1, {kStep, 1});
  lines.last_x = kSize;
  return lines;
}

LineGeometry geometry() { return {{1, kSize, kSize}, {1, kSize, kSize}, {1, kSize, kSize}, Direction::inverse}; }

struct Problem {
  Context context;
  Calibration calibration;
  SampledLines lines = lines_of_frame();
  Lattice lattice{kStep, 1, 0, 0, 0};
  RowPlan rows = plan_rows(lattice, kSize, 1, lines.came);

  explicit Problem(Backend backend) : context(backend, bench_resources(), {.memory_budget = 8ull << 30}) {
    const std::vector<cfloat> values = reference_lines();
    calibration.id = 1;
    calibration.data = context.upload<cfloat>({values.data(), {kCoils, 1, kLines, kSize}});
    calibration.first = {0, kSize / 2 - kLines / 2, 0};
    calibration.matrix = {kSize, kSize, 1};
    context.synchronize();
  }
};

void give_median(benchmark::State& state, const std::function<void()>& work) {
  for (auto _ : state) state.SetIterationTime(median_seconds(kRepetitions, work));
}

std::vector<cfloat> on_host(Context& context, const Array<cfloat>& array) {
  const auto host = context.download<cfloat>(array.view());
  return {host.data(), host.data() + host.size()};
}

/// A kernel of all sources, [unknown, coil], by its equations.
Eigen::MatrixXcd solved(const GrappaKernel& kernel) {
  constexpr GrappaOptions options{};
  const std::vector<cfloat> lines = reference_lines();
  const std::int64_t width = options.kernel_x, half = width / 2;
  const auto sources = static_cast<std::int64_t>(kernel.sources.size());
  std::vector<cdouble> columns, targets;
  for (std::int64_t y = 0; y < kLines; ++y)
    for (std::int64_t x = half; x + width - 1 - half < kSize; ++x) {
      bool inside = true;
      for (const RowStep& s : kernel.sources) inside = inside && y - s[0] >= 0 && y - s[0] < kLines;
      if (!inside) continue;
      const auto at = [&](std::int64_t c, std::int64_t row, std::int64_t column) {
        return cdouble(lines[static_cast<std::size_t>((c * kLines + row) * kSize + column)]);
      };
      for (const RowStep& s : kernel.sources)
        for (std::int64_t dx = 0; dx < width; ++dx)
          for (std::int64_t c = 0; c < kCoils; ++c) columns.push_back(at(c, y - s[0], x + dx - half));
      for (std::int64_t c = 0; c < kCoils; ++c) targets.push_back(at(c, y, x));
    }
  const auto places = static_cast<Eigen::Index>(targets.size()) / kCoils;
  const Eigen::Map<const Eigen::MatrixXcd> a(columns.data(), sources * width * kCoils, places),
      t(targets.data(), kCoils, places);
  Eigen::MatrixXcd gram = a * a.adjoint();
  const double by = static_cast<double>(a.rows()) / static_cast<double>(a.cols());
  gram.diagonal().array() +=
      options.regularization * std::pow(std::min(1.0, by), 3) * gram.trace().real() / static_cast<double>(a.rows());
  return gram.llt().solve(a * t.adjoint()).conjugate();
}

void kernels(benchmark::State& state, Backend backend) {
  Problem p(backend);
  GrappaKernels made;
  give_median(state, [&] {
    made = fit_grappa(p.context, p.calibration.data.view(), p.lattice, {}, p.rows);
    p.context.synchronize();
  });
  const std::vector<cfloat> weights = on_host(p.context, made.weights);
  double error = 0, norm = 0;
  for (std::size_t k = 0; k + 1 < static_cast<std::size_t>(kStep); ++k) {
    const Eigen::MatrixXcd truth = solved(made.kernels[k]);
    for (Eigen::Index c = 0; c < kCoils; ++c)
      for (Eigen::Index j = 0; j < truth.rows(); ++j) {
        const auto at = static_cast<std::size_t>(made.kernels[k].first + c * truth.rows() + j);
        error += std::norm(cdouble(weights[at]) - truth(j, c));
        norm += std::norm(truth(j, c));
      }
  }
  state.counters["error"] = std::sqrt(error / norm);
  state.counters["residual"] = made.residual;
  state.counters["peak_mib"] = static_cast<double>(p.context.peak_bytes()) / (1 << 20);
}

std::vector<cfloat> unmixing_weights(Backend backend) {
  Problem p(backend);
  const GrappaKernels made = fit_grappa(p.context, p.calibration.data.view(), p.lattice, {}, p.rows);
  const HybridKernels hybrid = hybrid_kernels(p.context, made, geometry());
  const Array<cfloat> maps = adaptive_maps_of(p.context, p.calibration, geometry());
  return on_host(p.context, unmixing(p.context, made, hybrid, maps.view(), geometry()));
}

void weights(benchmark::State& state, Backend backend, bool noise) {
  Problem p(backend);
  Scan scan(p.context, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  WeightsOptions options;
  options.noise = noise;
  ParallelWeights all(options);
  all.start(scan);
  give_median(state, [&] {
    ++p.calibration.id;  // another block in the place of the one before
    const auto found = all.of(p.calibration, p.lines, geometry());
    if (!found.weights->problem.empty()) state.SkipWithError(found.weights->problem.c_str());
    p.context.synchronize();
  });
  state.counters["peak_mib"] = static_cast<double>(p.context.peak_bytes()) / (1 << 20);
  if (noise) return;

  const auto step = [&](const char* name, const std::function<void()>& work) {
    state.counters[name] = 1e3 * median_seconds(kRepetitions, [&] {
                             work();
                             p.context.synchronize();
                           });
  };
  GrappaKernels made;
  HybridKernels hybrid;
  Array<cfloat> maps, u;
  step("kernels_ms", [&] { made = fit_grappa(p.context, p.calibration.data.view(), p.lattice, {}, p.rows); });
  step("hybrid_ms", [&] { hybrid = hybrid_kernels(p.context, made, geometry()); });
  step("maps_ms", [&] { maps = adaptive_maps_of(p.context, p.calibration, geometry()); });
  step("unmixing_ms", [&] { u = unmixing(p.context, made, hybrid, maps.view(), geometry()); });
  step("rows_ms", [&] { plan_corrections(p.context, made, hybrid, p.rows, geometry()); });
  const std::vector<cfloat> got = on_host(p.context, u), other = unmixing_weights(Backend::cpu);
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::norm(cdouble(got[i]) - cdouble(other[i]));
    norm += std::norm(cdouble(other[i]));
  }
  state.counters["difference"] = std::sqrt(error / norm);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    if (!available(backend)) continue;
    const auto add = [&](const std::string& name, const auto& run) {
      benchmark::RegisterBenchmark(fmt::format("{}/{}", name, to_string(backend)).c_str(), run)
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    };
    add("kernels", [=](benchmark::State& state) { kernels(state, backend); });
    add("weights", [=](benchmark::State& state) { weights(state, backend, false); });
    add("gfactor", [=](benchmark::State& state) { weights(state, backend, true); });
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
