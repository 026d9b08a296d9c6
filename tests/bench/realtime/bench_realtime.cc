// Solvers of real-time frames, 256 x 256 with golden-angle spokes, each frame's others: milliseconds from samples that
// lie where the context computes to an image there, on the host's clock (p50, p99), and microseconds that the GPU alone
// takes for parts of it.
//   nlinv/BACKEND/...        21 spokes, 10 coils; add: the samples' gridding, which is not in the time
//   nlinv_2_slices/...       two slices excited at once, 21 spokes of each number, 10 coils; with gridding
//   cg_sense/BACKEND/...     21 spokes, 16 coils, 10 steps
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "gadgets/numerics/inverse/nlinv/gridded_frame.h"
#include "gadgets/numerics/inverse/nlinv/nlinv_ops.h"
#include "gadgets/numerics/inverse/nlinv/phased_frame.h"
#include "gadgets/numerics/inverse/solver/fixed_cg.h"
#include "gadgets/numerics/transforms/scatter/scatter.h"
#include "gadgets/numerics/transforms/toeplitz/frame_toeplitz.h"
#include "tests/support/bench_resources.h"
#ifdef ECHOTRAIN_HAS_CUDA
#include "tests/bench/device_graph.h"
#endif

namespace {

using namespace echotrain::numerics;
using echotrain::bench_resources;
using Clock = std::chrono::steady_clock;

constexpr int kFrames = 6, kSpokes = 21;  // kFrames are made beforehand and come by turns

/// A frame where the context computes, of smooth random data.
struct Spokes {
  std::vector<double> coordinates;
  std::vector<float> weights;
  Array<double> where;
  Array<cfloat> data;
  Array<float> weights_there;
  std::int64_t samples;

  Spokes(Context& context, std::int64_t n, std::int64_t coils, int frame) : samples(kSpokes * 2 * n) {
    std::mt19937 random(1);  // of every frame: they are of one object
    std::normal_distribution<float> value;
    std::vector<double> shifts;
    for (std::int64_t c = 0; c < 2 * coils; ++c) shifts.push_back(0.2 * static_cast<double>(n) * value(random) / 3);
    std::vector<cfloat> d;
    for (int spoke = 0; spoke < kSpokes; ++spoke) {
      const double angle = std::numbers::pi * 0.618033988749895 * (frame * kSpokes + spoke);
      for (std::int64_t s = 0; s < 2 * n; ++s) {
        const double k = (static_cast<double>(s) - static_cast<double>(n)) / static_cast<double>(2 * n);
        coordinates.push_back(k * std::cos(angle));
        coordinates.push_back(k * std::sin(angle));
        weights.push_back(static_cast<float>(std::abs(k) + 1e-3));
        for (std::int64_t c = 0; c < coils; ++c) {  // a disc that each coil sees elsewhere
          const double radius = 0.3 * static_cast<double>(n), arg = 2 * std::numbers::pi * std::abs(k) * radius;
          const double disc = arg < 1e-6 ? 0.5 : std::cyl_bessel_j(1.0, arg) / arg;
          const double phase = 2 * std::numbers::pi * k *
                               (std::cos(angle) * shifts[static_cast<std::size_t>(2 * c)] +
                                std::sin(angle) * shifts[static_cast<std::size_t>(2 * c + 1)]);
          d.push_back(cfloat(std::polar(disc, phase)) + 1e-3f * cfloat(value(random), value(random)));
        }
      }
    }
    where = context.upload<double>({coordinates.data(), {samples, 2}});
    data = context.upload<cfloat>({d.data(), {samples, coils}});
    weights_there = context.upload<float>({weights.data(), {samples}});
  }
};

void put_times(benchmark::State& state, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  state.counters["p50_ms"] = 1e3 * seconds[seconds.size() / 2];
  state.counters["p99_ms"] = 1e3 * seconds[seconds.size() * 99 / 100];
}

/// Microseconds of the GPU alone.
void put_part([[maybe_unused]] benchmark::State& state, [[maybe_unused]] Context& context,
              [[maybe_unused]] const std::string& name, [[maybe_unused]] const std::function<void()>& work) {
#ifdef ECHOTRAIN_HAS_CUDA
  if (context.cuda()) state.counters[name + "_us"] = 1e6 * echotrain::bench::device_seconds_of({&context}, work);
#endif
}

void nlinv(benchmark::State& state, Backend backend, std::int64_t n, std::int64_t wide, int coils, NlinvOptions options,
           int frames) {
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  std::vector<std::unique_ptr<Spokes>> spokes;
  for (int f = 0; f < kFrames; ++f) spokes.push_back(std::make_unique<Spokes>(context, n, coils, f));
  GriddedFrame gridded(context, coils, {wide, wide}, 1e-3);
  Nlinv solver(context, coils, {wide, wide}, {2 * wide, 2 * wide}, options);
  auto image = context.allocate<cfloat>({n, n});
  const auto add = [&](int f) {
    const Spokes& s = *spokes[static_cast<std::size_t>(f % kFrames)];
    gridded.clear();
    gridded.add({s.coordinates.data(), {s.samples, 2}}, s.data.cview(), s.weights_there.cview(),
                {s.weights.data(), {s.samples}});
    context.synchronize();
  };
  for (auto _ : state) {
    std::vector<double> seconds;
    double residual = 0;
    for (int f = 0; f < frames + 5; ++f) {
      add(f);
      const auto begin = Clock::now();
      residual = solver.solve(gridded.finish(), image.view()).residual;
      context.synchronize();
      if (f >= 5) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    put_times(state, seconds);
    state.counters["residual"] = residual;
  }
  if (!context.cuda()) return;
  const NlinvProblem problem = make_nlinv_problem(context, coils, {wide, wide}, {2 * wide, 2 * wide}, options);
  const Shape images{coils, wide, wide};
  auto c = context.zeros<cfloat>(images), y = context.zeros<cfloat>(images), z = context.zeros<cfloat>(images);
  auto x = context.zeros<cfloat>({problem.unknowns()}), h = context.zeros<cfloat>({problem.unknowns()});
  auto sums = context.zeros<double>({on_backend::nlinv_back_sums(context, problem)});
  NlinvFrame frame;
  put_part(state, context, "finish", [&] { frame = gridded.finish(); });
  put_part(state, context, "convolve", [&] { frame.matrix(z.cview(), y.view()); });
  put_part(state, context, "product",
           [&] { on_backend::nlinv_product(context, problem, x.data(), c.data(), x.data(), z.data()); });
  put_part(state, context, "coils",
           [&] { on_backend::nlinv_product(context, problem, nullptr, nullptr, x.data(), z.data()); });
  put_part(state, context, "back", [&] {
    on_backend::nlinv_back(context, problem, 1, 1, x.data(), c.data(), y.data(), x.data(), h.data(), sums.data());
  });
}

/// Two slices excited at once, whose sum and difference have other spokes.
void nlinv_slices(benchmark::State& state, Backend backend, std::int64_t n, std::int64_t wide, int coils, int frames) {
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  std::vector<std::unique_ptr<Spokes>> spokes;
  for (int f = 0; f < kFrames; ++f) spokes.push_back(std::make_unique<Spokes>(context, n, coils, f));
  const std::vector<cfloat> phases{1, 1, 1, -1};
  PhasedFrame phased(context, {phases.data(), {2, 2}}, coils, {wide, wide}, 1e-3);
  Nlinv solver(context, coils, {wide, wide}, {2 * wide, 2 * wide}, {}, 2);
  auto images = context.allocate<cfloat>({2, n, n});
  for (auto _ : state) {
    std::vector<double> seconds;
    double residual = 0;
    for (int f = 0; f < frames + 5; ++f) {
      context.synchronize();
      const auto begin = Clock::now();
      phased.clear();
      double weight = 0;
      for (int number = 0; number < 2; ++number) {
        const Spokes& s = *spokes[static_cast<std::size_t>((2 * f + number) % kFrames)];
        phased.set(number, s.where.cview(), s.data.cview(), s.weights_there.cview());
        for (const float w : s.weights) weight += static_cast<double>(w);
      }
      residual = solver.solve(phased.finish(weight), images.view()).residual;
      context.synchronize();
      if (f >= 5) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    put_times(state, seconds);
    state.counters["residual"] = residual;
  }
}

void cg_sense(benchmark::State& state, Backend backend, std::int64_t n, int coils, int frames) {
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  std::vector<std::unique_ptr<Spokes>> spokes;
  for (int f = 0; f < kFrames; ++f) spokes.push_back(std::make_unique<Spokes>(context, n, coils, f));
  const Shape image{n, n}, of_coils{coils, n, n};
  ScatterNufft data(context, image, options_for_accuracy(1e-3, image), coils),
      lags(context, {2 * n, 2 * n}, options_for_accuracy(1e-3, {2 * n, 2 * n}), 1);
  FrameToeplitz matrix(context, image, coils);
  FixedCg solver(context, {1, 1, n, n}, {.iterations = 10, .previous = 0.01, .size = 0});
  auto right = context.allocate<cfloat>(of_coils), maps = context.allocate<cfloat>(of_coils);
  const std::vector<cfloat> even(static_cast<std::size_t>(of_coils.size()),
                                 1.0f / std::sqrt(static_cast<float>(coils)));
  context.copy<cfloat>(HostView<const cfloat>(even.data(), of_coils), maps.view());
  const auto adjoint = [&](const Spokes& s) {
    data.adjoint(context, s.where.cview(), s.data.cview(), s.weights_there.cview(), right.view());
  };
  const auto make_matrix = [&](const Spokes& s) {
    lags.lags(context, s.where.cview(), s.weights_there.cview(), matrix.lags());
    matrix.take(context);
  };
  const auto solve = [&](bool may_record) {
    solver.solve(
        context,
        [&](DeviceView<const cfloat> x, DeviceView<cfloat> y) {
          matrix.apply_sense(context, maps.cview(), x.reshaped(image), y.reshaped(image));
        },
        matrix.largest(), may_record && matrix.can_be_recorded());
  };
  for (auto _ : state) {
    std::vector<double> seconds;
    for (int f = 0; f < frames + 5; ++f) {
      const Spokes& s = *spokes[static_cast<std::size_t>(f % kFrames)];
      context.synchronize();
      const auto begin = Clock::now();
      adjoint(s);
      make_matrix(s);
      solve(true);
      context.synchronize();
      if (f >= 5) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    put_times(state, seconds);
  }
  put_part(state, context, "adjoint", [&] { adjoint(*spokes[0]); });
  put_part(state, context, "matrix", [&] { make_matrix(*spokes[0]); });
  put_part(state, context, "apply", [&] {
    matrix.apply_sense(context, maps.cview(), solver.image().reshaped(image), solver.right().reshaped(image));
  });
  put_part(state, context, "solve", [&] { solve(false); });
}

void add_cases() {
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    if (!available(backend)) continue;
    const bool small = backend == Backend::cpu;
    const std::int64_t n = small ? 128 : 256;
    const int coils = small ? 6 : 10, frames = small ? 10 : 200;
    const auto add = [&](const std::string& name, const std::function<void(benchmark::State&)>& run) {
      benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);
    };
    NlinvOptions shipped, seven;
    seven.newton_steps = 7;
    seven.inner = 10;
    add(fmt::format("nlinv/{}/{}/7x10", to_string(backend), n),
        [=](benchmark::State& state) { nlinv(state, backend, n, n, coils, seven, frames); });
    add(fmt::format("nlinv/{}/{}/shipped", to_string(backend), n),
        [=](benchmark::State& state) { nlinv(state, backend, n, n * 5 / 4, coils, shipped, frames); });
    add(fmt::format("nlinv_2_slices/{}/{}/shipped", to_string(backend), n),
        [=](benchmark::State& state) { nlinv_slices(state, backend, n, n * 5 / 4, coils, frames); });
    add(fmt::format("cg_sense/{}/{}", to_string(backend), n),
        [=](benchmark::State& state) { cg_sense(state, backend, n, small ? 8 : 16, frames); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  add_cases();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
