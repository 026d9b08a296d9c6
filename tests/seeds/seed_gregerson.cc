// The seed's own table, reproduced: 5,000 and 8,192 samples, uniform over a 512 x 512 grid, a Gaussian window of 8
// points with a table of 10 entries per grid cell. Each case is checked against a float64 loop on the CPU with the same
// window (`error`), and is compared with a single-thread CPU loop of this run (`speedup_cpu`; the case `cpu_loop`), the
// rung below it (`speedup_step`) and what the seed reports for its step on a GeForce 8800 GTX (`seed_speedup`, Table 1,
// where 40 % is written 1.4; `seed_speedup_cpu`, Table 2: 114). Differences from the seed:
// - Its timer includes the grid's copy to the host; here the grid stays on the device, in every case.
// - Its kernels race where windows overlap; here they add atomically. Its halos are added on the host; here by a
// kernel.
// - Table 1 has each step on top of the naive kernel; here each stands on the one before it.
// - `ours` is NufftPlan::grid() of the product with its own window, Kaiser-Bessel of 8 points; `ours_cpu` the same on
// the CPU, by all threads. Without a GPU there are the CPU's cases only.
#include "tests/seeds/seed_gregerson.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "gadgets/numerics/transforms/nufft/kaiser_bessel.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "tests/support/bench_resources.h"

namespace echotrain::seed {

std::vector<float> gaussian_table() {
  std::vector<float> values;
  for (int i = 0; i < kTableSize; ++i) {
    const double r = static_cast<double>(i) / kTablePerCell;
    values.push_back(static_cast<float>(std::exp(gaussian_exponent(r * r))));
  }
  return values;
}

namespace {

using numerics::Backend;
using numerics::cdouble;
using numerics::cfloat;
using numerics::Context;
using numerics::NufftPlan;
using Clock = std::chrono::steady_clock;

constexpr int kRepetitions = 20;
constexpr int kBatch = 50;  // griddings per timing, because a single one takes about as long as its launch

enum class Window { gaussian, table, kaiser_bessel };

std::vector<Sample> random_samples(int count) {
  std::mt19937 random(1338);
  std::uniform_real_distribution<float> position(kWindow / 2, kGrid - kWindow / 2 - 1), value(-1, 1);
  std::vector<Sample> samples(static_cast<std::size_t>(count));
  for (Sample& s : samples) s = {position(random), position(random), value(random), value(random)};
  return samples;
}

int first_point(float position) { return static_cast<int>(std::ceil(position - kWindow / 2)); }

/// The gridding of section 2.2, in fp32 by one thread: what the GPU is compared with.
void cpu_loop(const std::vector<Sample>& samples, const std::vector<float>& table, std::vector<cfloat>& grid) {
  std::fill(grid.begin(), grid.end(), cfloat());
  for (const Sample& s : samples) {
    const int x = first_point(s.x), y = first_point(s.y);
    for (int j = 0; j < kWindow; ++j) {
      const float dy = static_cast<float>(y + j) - s.y;
      cfloat* row = grid.data() + (y + j) * kGrid + x;
      for (int i = 0; i < kWindow; ++i) {
        const float dx = static_cast<float>(x + i) - s.x;
        const float w = table[static_cast<std::size_t>(std::sqrt(dx * dx + dy * dy) * kTablePerCell)];
        row[i] += cfloat(w * s.re, w * s.im);
      }
    }
  }
}

/// The truth. The distance for the table is computed in fp32, so that it finds the same entry.
std::vector<cdouble> float64_loop(const std::vector<Sample>& samples, Window window) {
  const std::vector<float> table = gaussian_table();
  const numerics::KaiserBessel kaiser_bessel(kWindow, 2.0);
  std::vector<cdouble> grid(static_cast<std::size_t>(kGrid) * kGrid);
  for (const Sample& s : samples)
    for (int y = first_point(s.y); y < first_point(s.y) + kWindow; ++y)
      for (int x = first_point(s.x); x < first_point(s.x) + kWindow; ++x) {
        const double dx = x - static_cast<double>(s.x), dy = y - static_cast<double>(s.y);
        const float fx = static_cast<float>(x) - s.x, fy = static_cast<float>(y) - s.y;
        double w = 0;
        if (window == Window::gaussian) w = std::exp(gaussian_exponent(dx * dx + dy * dy));
        if (window == Window::table)
          w = static_cast<double>(table[static_cast<std::size_t>(std::sqrt(fx * fx + fy * fy) * kTablePerCell)]);
        if (window == Window::kaiser_bessel) w = kaiser_bessel.value(dx) * kaiser_bessel.value(dy);
        grid[static_cast<std::size_t>(y * kGrid + x)] +=
            w * cdouble(static_cast<double>(s.re), static_cast<double>(s.im));
      }
  return grid;
}

double relative_error(const std::vector<cfloat>& grid, const std::vector<cdouble>& truth) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    difference += std::norm(cdouble(grid[i]) - truth[i]);
    size += std::norm(truth[i]);
  }
  return std::sqrt(difference / size);
}

/// Median seconds of one of `batch` calls; `wait` ends each batch.
double seconds_of(int batch, const std::function<void()>& work, const std::function<void()>& wait) {
  std::vector<double> times;
  for (int i = -3; i < kRepetitions; ++i) {
    const auto begin = Clock::now();
    for (int j = 0; j < batch; ++j) work();
    wait();
    if (i >= 0) times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / batch);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// The times of this run, for the ratios.
struct Times {
  double cpu = 0, step = 0;
};

void report(benchmark::State& state, double seconds, double error, const Times& times) {
  for (auto _ : state) state.SetIterationTime(seconds);
  state.counters["error"] = error;
  state.counters["speedup_cpu"] = times.cpu / seconds;
  if (times.step > 0) state.counters["speedup_step"] = times.step / seconds;
}

#ifdef ECHOTRAIN_HAS_CUDA
struct Step {
  const char* name;
  Rung rung;
  Rung below;  ///< the rung that it stands on; itself for the first
  Window window;
  double seed_speedup;  ///< Table 1; 0 where the seed has none
};

constexpr Step kSteps[] = {
    {"naive_input_driven", Rung::naive_input_driven, Rung::naive_input_driven, Window::gaussian, 0},
    {"cached_input", Rung::cached_input, Rung::naive_input_driven, Window::gaussian, 1.4},
    {"output_driven_cached_input", Rung::output_driven, Rung::naive_input_driven, Window::gaussian, 0},
    {"aligned_layout", Rung::aligned_layout, Rung::cached_input, Window::gaussian, 1.7},
    {"constant_table", Rung::constant_table, Rung::aligned_layout, Window::table, 1.2},
    {"sector_tiles", Rung::sector_tiles, Rung::constant_table, Window::table, 4.1},
    {"two_blocks_per_sm", Rung::two_blocks_per_sm, Rung::sector_tiles, Window::table, 1.35},
};
#endif
constexpr double kSeedOverCpu = 114;

/// A problem and what was measured for it so far; cases run in the order of the ladder.
struct Problem {
  explicit Problem(int count) : samples(random_samples(count)) {}
  std::vector<Sample> samples;
  double cpu_seconds = 0;
  std::vector<std::pair<Rung, double>> seconds;

  double cpu() {
    if (cpu_seconds == 0) {
      const std::vector<float> table = gaussian_table();
      std::vector<cfloat> grid(static_cast<std::size_t>(kGrid) * kGrid);
      cpu_seconds = seconds_of(
          1, [&] { cpu_loop(samples, table, grid); }, [] {});
    }
    return cpu_seconds;
  }
  double of(Rung rung) {
    const auto found =
        std::find_if(seconds.begin(), seconds.end(), [&](const auto& known) { return known.first == rung; });
    return found == seconds.end() ? 0 : found->second;
  }
};

void run_cpu(benchmark::State& state, Problem& problem) {
  std::vector<cfloat> grid(static_cast<std::size_t>(kGrid) * kGrid);
  cpu_loop(problem.samples, gaussian_table(), grid);
  report(state, problem.cpu(), relative_error(grid, float64_loop(problem.samples, Window::table)), {problem.cpu(), 0});
}

#ifdef ECHOTRAIN_HAS_CUDA
void run_step(benchmark::State& state, Problem& problem, const Step& step) {
  Context context(Backend::cuda, bench_resources());
  Ladder ladder(context, problem.samples);
  const double seconds = seconds_of(
      kBatch, [&] { ladder.run(step.rung); }, [&] { context.synchronize(); });
  problem.seconds.emplace_back(step.rung, seconds);
  const double error = relative_error(ladder.grid(step.rung), float64_loop(problem.samples, step.window));
  report(state, seconds, error, {problem.cpu(), step.below == step.rung ? 0 : problem.of(step.below)});
  if (step.seed_speedup > 0) state.counters["seed_speedup"] = step.seed_speedup;
  if (step.rung == Rung::two_blocks_per_sm) state.counters["seed_speedup_cpu"] = kSeedOverCpu;
}
#endif

void run_ours(benchmark::State& state, Problem& problem, Backend backend) {
  Context context(backend, bench_resources());
  const auto count = static_cast<std::int64_t>(problem.samples.size());
  std::vector<double> coordinates;
  std::vector<cfloat> values;
  for (const Sample& s : problem.samples) {
    coordinates.push_back(static_cast<double>(s.x) / kGrid);
    coordinates.push_back(static_cast<double>(s.y) / kGrid);
    values.emplace_back(s.re, s.im);
  }
  const auto plan = NufftPlan::make(context, {coordinates.data(), {count, 2}}, {kGrid / 2, kGrid / 2},
                                    {.kernel_width = kWindow, .oversampling = 2.0});
  const auto samples = context.upload<cfloat>({values.data(), {count, 1}});
  auto grid = context.allocate<cfloat>({1, kGrid, kGrid});
  const double seconds = seconds_of(
      kBatch, [&] { plan->grid(context, samples.cview(), {}, grid.view()); }, [&] { context.synchronize(); });
  const auto host = context.download<cfloat>(grid.cview());
  const std::vector<cfloat> result(host.data(), host.data() + host.size());
  report(state, seconds, relative_error(result, float64_loop(problem.samples, Window::kaiser_bessel)),
         {problem.cpu(), problem.of(Rung::two_blocks_per_sm)});
  state.counters["seed_speedup_cpu"] = kSeedOverCpu;
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
}

int run_all(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  fmt::print(stderr, "{}\n", numerics::describe(Backend::cpu, *bench_resources()));
  std::string reason;
  const bool gpu = numerics::available(Backend::cuda, &reason);
  if (gpu)
    fmt::print(stderr, "{}\n", numerics::describe(Backend::cuda, *bench_resources()));
  else
    fmt::print(stderr, "seed_gregerson: CPU cases only, there is no usable GPU: {}\n", reason);
  Problem problems[] = {Problem(5000), Problem(8192)};
  for (Problem& problem : problems) {
    const std::string prefix = fmt::format("seed_{}/", problem.samples.size());
    add(prefix + "cpu_loop", [&](benchmark::State& state) { run_cpu(state, problem); });
    add(prefix + "ours_cpu", [&](benchmark::State& state) { run_ours(state, problem, Backend::cpu); });
#ifdef ECHOTRAIN_HAS_CUDA
    if (!gpu) continue;
    for (const Step& step : kSteps)
      add(prefix + step.name, [&](benchmark::State& state) { run_step(state, problem, step); });
    add(prefix + "ours", [&](benchmark::State& state) { run_ours(state, problem, Backend::cuda); });
#endif
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace echotrain::seed

int main(int argc, char** argv) { return echotrain::seed::run_all(argc, argv); }
