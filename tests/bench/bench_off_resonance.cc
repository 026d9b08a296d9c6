// Transforms of samples that were taken while the field was off, beside the same transform without a field. Rows named
// by case, direction and backend have the time per transform of all coils, with plan and field known and data on the
// device, and the counters
//   segments    L
//   plain_ms    the transform of the same plan without a field, in the same run
//   ratio       the row's time over plain_ms; asked: at most L + 0.5
//   per_segment ratio / L
//   expected    the segments' error by their histogram
//   error       of some values, against the sum over samples (or voxels) in float64, with white noise
// normal/...: F^H W F with the field (OffResonanceNormal) beside one Toeplitz operator; its `segments` are its own.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "gadgets/numerics/transforms/off_resonance/off_resonance_normal.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"
#include "tests/bench/timing.h"
#include "tests/support/bench_resources.h"

namespace {

using namespace echotrain::numerics;
using echotrain::bench_resources;
using echotrain::bench::median_seconds;

constexpr int kRepetitions = 20;
constexpr double kAccuracy = 1e-3;

struct Case {
  const char* name;
  std::int64_t n, coils, arms, per_arm;
  double range_hz, duration_s;
};
constexpr Case kCases[] = {
    {"spiral_54x310_c20_192_203hz_3.1ms", 192, 20, 54, 310, 203, 3.1e-3},
    {"spiral_16x2000_c8_256_200hz_20ms", 256, 8, 16, 2000, 200, 20e-3},
};

struct Problem {
  std::vector<double> coordinates, times_s;
  std::vector<float> hz;
  std::vector<cfloat> samples, image;
  std::int64_t count() const { return static_cast<std::int64_t>(coordinates.size()) / 2; }
};

Problem problem(const Case& c) {
  Problem p;
  const double turns = static_cast<double>(c.n) / 2 / static_cast<double>(c.arms);
  for (std::int64_t a = 0; a < c.arms; ++a)
    for (std::int64_t i = 0; i < c.per_arm; ++i) {
      const double part = static_cast<double>(i) / static_cast<double>(c.per_arm),
                   angle = 2 * std::numbers::pi * (turns * part + static_cast<double>(a) / static_cast<double>(c.arms));
      p.coordinates.push_back(0.5 * part * std::cos(angle));
      p.coordinates.push_back(0.5 * part * std::sin(angle));
    }
  for (std::int64_t i = 0; i < c.per_arm; ++i)
    p.times_s.push_back(c.duration_s * static_cast<double>(i) / static_cast<double>(c.per_arm));
  for (std::int64_t y = 0; y < c.n; ++y)
    for (std::int64_t x = 0; x < c.n; ++x) {
      const double u = 2 * static_cast<double>(x) / static_cast<double>(c.n) - 1,
                   v = 2 * static_cast<double>(y) / static_cast<double>(c.n) - 1;
      p.hz.push_back(static_cast<float>(c.range_hz * std::sin(1.5 * u + v * v - 0.5)));
    }
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto white = [&](std::int64_t n, std::vector<cfloat>& to) {
    for (std::int64_t i = 0; i < n; ++i) to.emplace_back(normal(random), normal(random));
  };
  white(p.count() * c.coils, p.samples);
  white(c.n * c.n * c.coils, p.image);
  return p;
}

/// Medians of both, one after the other by turns, so that what else the machine does slows down both.
struct Pair {
  double plain, with_field;
};
Pair seconds_of_both(Context& context, const std::function<void()>& plain, const std::function<void()>& with_field) {
  std::vector<double> times;
  const double second = median_seconds(
      kRepetitions,
      [&] {
        with_field();
        context.synchronize();
      },
      [&] {
        times.push_back(echotrain::bench::seconds_of([&] {
          plain();
          context.synchronize();
        }));
      });
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], second};
}

/// exp(-2 pi i k.r + 2 pi i f t) of a sample and a voxel.
cdouble kernel(const Case& c, const Problem& p, std::int64_t s, std::int64_t v) {
  const auto at = static_cast<std::size_t>(s);
  const double x = static_cast<double>(v % c.n - c.n / 2), y = static_cast<double>(v / c.n - c.n / 2);
  const double cycles = -p.coordinates[2 * at] * x - p.coordinates[2 * at + 1] * y +
                        static_cast<double>(p.hz[static_cast<std::size_t>(v)]) * p.times_s[at % p.times_s.size()];
  return std::polar(1.0, 2 * std::numbers::pi * (cycles - std::nearbyint(cycles)));
}

/// Relative L2 over every so many values of the first coil.
double error_of(Context& context, const Case& c, const Problem& p, bool forward, DeviceView<const cfloat> result) {
  const HostArray<cfloat> values = context.download<cfloat>(result);
  const std::int64_t voxels = c.n * c.n, all = forward ? p.count() : voxels;
  double wrong = 0, size = 0;
  for (std::int64_t i = 7; i < all; i += all / 60) {
    cdouble sum = 0;
    if (forward)
      for (std::int64_t v = 0; v < voxels; ++v)
        sum += cdouble(p.image[static_cast<std::size_t>(v)]) * kernel(c, p, i, v);
    else
      for (std::int64_t s = 0; s < p.count(); ++s)
        sum += cdouble(p.samples[static_cast<std::size_t>(s * c.coils)]) * std::conj(kernel(c, p, s, i));
    wrong += std::norm(cdouble(values.data()[forward ? i * c.coils : i]) - sum);
    size += std::norm(sum);
  }
  return std::sqrt(wrong / size);
}

void run(benchmark::State& state, const Case& c, bool forward, Backend backend) {
  const Problem p = problem(c);
  Context context(backend, bench_resources(), {.memory_budget = 32ull << 30});
  const Shape plane{c.n, c.n}, images{c.coils, c.n, c.n}, samples{p.count(), c.coils};
  const auto field = OffResonance::make(context, {p.hz.data(), plane}, p.times_s, kAccuracy);
  const NufftOptions options;
  const HostView<const double> k(p.coordinates.data(), {p.count(), 2});
  const auto plan = NufftPlan::make(context, k, plane, options), wide = NufftPlan::make(context, k, plane, options);
  const Array<cfloat> from =
      forward ? context.upload<cfloat>({p.image.data(), images}) : context.upload<cfloat>({p.samples.data(), samples});
  Array<cfloat> to = context.allocate<cfloat>(forward ? samples : images);
  Pair seconds{};
  for (auto _ : state) {
    seconds = seconds_of_both(
        context,
        [&] {
          if (forward)
            plan->forward(context, from.cview(), to.view());
          else
            plan->adjoint(context, from.cview(), {}, to.view());
        },
        [&] {
          if (forward)
            field->forward(context, *wide, from.cview(), to.view());
          else
            field->adjoint(context, *wide, from.cview(), {}, to.view());
        });
    state.SetIterationTime(seconds.with_field);
  }
  const auto segments = static_cast<double>(field->segments());
  state.counters["segments"] = segments;
  state.counters["plain_ms"] = 1e3 * seconds.plain;
  state.counters["ratio"] = seconds.with_field / seconds.plain;
  state.counters["per_segment"] = seconds.with_field / seconds.plain / segments;
  state.counters["expected"] = field->error();
  state.counters["error"] = error_of(context, c, p, forward, to.cview());
}

void run_normal(benchmark::State& state, const Case& c, Backend backend) {
  const Problem p = problem(c);
  Context context(backend, bench_resources(), {.memory_budget = 32ull << 30});
  const Shape plane{c.n, c.n}, doubled{2 * c.n, 2 * c.n};
  const HostView<const double> k(p.coordinates.data(), {p.count(), 2});
  const std::vector<float> weights(static_cast<std::size_t>(p.count()), 1.0f);
  const HostView<const float> w(weights.data(), {p.count()});
  OffResonanceNormal::Options options;
  options.nufft = options_for_accuracy(1e-4, doubled);
  const auto field = OffResonance::make(context, {p.hz.data(), plane}, p.times_s, kAccuracy);
  const OffResonanceNormal normal(context, k, w, field, options);
  Array<cfloat> q = context.allocate<cfloat>(doubled);
  point_spread_nufft(context, k, w, plane, VoxelBasis::delta, options.nufft, q.view());
  const ToeplitzOperator one(context, q.cview());
  const Array<cfloat> maps = context.upload<cfloat>({p.image.data(), {c.coils, c.n, c.n}}),
                      x = context.upload<cfloat>({p.image.data(), plane});
  Array<cfloat> y = context.allocate<cfloat>(plane);
  Pair seconds{};
  for (auto _ : state) {
    seconds = seconds_of_both(
        context, [&] { one.apply_sense(context, maps.cview(), x.cview(), y.view()); },
        [&] { normal.apply_sense(context, maps.cview(), x.cview(), y.view()); });
    state.SetIterationTime(seconds.with_field);
  }
  const auto segments = static_cast<double>(normal.segments());
  state.counters["segments"] = segments;
  state.counters["plain_ms"] = 1e3 * seconds.plain;
  state.counters["ratio"] = seconds.with_field / seconds.plain;
  state.counters["per_segment"] = seconds.with_field / seconds.plain / segments;
}

template <class Row>
void add_row(const std::string& name, const Row& row) {
  benchmark::RegisterBenchmark(name.c_str(), row)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Case& c : kCases)
    for (const Backend backend : {Backend::cpu, Backend::cuda}) {
      if (!available(backend)) continue;
      const std::string name = fmt::format("{}/{}", c.name, to_string(backend));
      add_row("adjoint/" + name, [&c, backend](benchmark::State& state) { run(state, c, false, backend); });
      add_row("forward/" + name, [&c, backend](benchmark::State& state) { run(state, c, true, backend); });
      add_row("normal/" + name, [&c, backend](benchmark::State& state) { run_normal(state, c, backend); });
    }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
