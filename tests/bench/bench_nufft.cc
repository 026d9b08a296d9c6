// The NUFFT, adjoint and forward. Rows named by case (nufft/nufft_cases.cc) and backend have the time per transform of
// all coils with the plan known and data on the device, and the counters
//   plan_ms                    the making of the plan from host coordinates, median of several
//   cold_ms                    the same transform after 256 MiB were written, so that no cache holds anything of it
//                              (the row's own time is of one transform after the other, on the same data)
//   cpu_ms                     processor time of all threads per transform, which other programs on the machine change
//                              less than the row's own time
//   error, error_ellipsoids    with white noise and with realistic data (nufft/nufft_errors.h)
//   theory                     what expected_error() says of white noise
//   megabytes                  that must move: samples and their positions once; of the grid each axis' transform reads
//                              what is there and writes what the image keeps; the image once
// from_host/...: from readouts in pinned memory to an image in pinned memory (nufft/nufft_from_host.h); .../coils_4_4:
// four coils of all readouts after the other four.
// --errors=off leaves out both errors, which take longer than all else.
// device_copy/cuda: the rate at which a large array is copied, by which `megabytes` become a floor.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/numerics/mri/density/density_pipe_menon.h"
#include "tests/bench/machine.h"
#include "tests/bench/nufft/nufft_cases.h"
#include "tests/bench/nufft/nufft_errors.h"
#include "tests/bench/nufft/nufft_from_host.h"
#include "tests/bench/timing.h"
#include "tests/support/bench_resources.h"

namespace {

using namespace echotrain::numerics;
using namespace echotrain::bench;
using echotrain::bench_resources;

bool errors_wanted = true;
constexpr int kRepetitions = 20, kPlans = 9;
constexpr std::int64_t kCacheFloats = 64 << 20;  // 256 MiB: more than any cache holds

Shape with_coils(std::int64_t coils, const Shape& item) {
  Shape shape{coils};
  for (const auto extent : item) shape.push_back(extent);
  return shape;
}

double megabytes(const NufftPlan& plan, std::int64_t coils) {
  constexpr double kValue = sizeof(cfloat), kPlace = 32;  // bytes; a sample's position as a plan keeps it on CUDA
  const auto samples = static_cast<double>(plan.samples());
  double there = static_cast<double>(plan.grid_shape().size()), values = there;  // the convolution writes the grid
  for (std::size_t a = 0; a < plan.grid_shape().rank(); ++a) {
    const double kept = there * static_cast<double>(plan.image_shape()[a]) / static_cast<double>(plan.grid_shape()[a]);
    values += there + kept;
    there = kept;
  }
  return 1e-6 * (static_cast<double>(coils) * kValue * (samples + values) + kPlace * samples);
}

void run(benchmark::State& state, const NufftCase& c, Backend backend) {
  const std::vector<double> k = c.trajectory();
  const auto dims = static_cast<std::int64_t>(c.image.rank()), count = static_cast<std::int64_t>(k.size()) / dims;
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  std::shared_ptr<const NufftPlan> plan;
  const auto make_plan = [&] { plan = NufftPlan::make(context, {k.data(), {count, dims}}, c.image, c.options); };
  make_plan();
  state.counters["plan_ms"] = 1e3 * median_seconds(kPlans, make_plan);

  const Shape images = with_coils(c.coils, c.image), samples{count, c.coils};
  Array<cfloat> data = context.allocate<cfloat>(c.forward ? images : samples),
                result = context.allocate<cfloat>(c.forward ? samples : images);
  const auto transform = [&] {
    if (c.forward)
      plan->forward(context, data.view(), result.view());
    else
      plan->adjoint(context, data.view(), {}, result.view());
    context.synchronize();
  };
  const auto judge = [&](NufftData kind, const auto& between) {
    const std::vector<cfloat> values = nufft_data(c, k, kind, context.threads());
    context.copy<cfloat>(HostView<const cfloat>(values.data(), data.shape()), data.view());
    transform();
    between();
    if (!errors_wanted) return 0.0;
    return c.forward ? forward_error(context, c, k, values, result.view())
                     : adjoint_error(context, c, k, values, result.view());
  };
  if (errors_wanted) state.counters["error_ellipsoids"] = judge(NufftData::ellipsoids, [] {});
  const double error = judge(NufftData::white, [&] {
    int transforms = 0;
    const std::clock_t begin = std::clock();
    for (auto _ : state) state.SetIterationTime(median_seconds(kRepetitions, transform, [&] { ++transforms; }));
    if (backend == Backend::cpu)
      state.counters["cpu_ms"] = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / transforms;
    Array<float> other = context.allocate<float>({kCacheFloats});
    state.counters["cold_ms"] = 1e3 * median_seconds(kRepetitions, transform, [&] {
                                  context.clear(other.view());
                                  context.synchronize();
                                });
  });
  if (errors_wanted) state.counters["error"] = error;
  state.counters["theory"] = expected_error(c.options, c.image);
  state.counters["megabytes"] = megabytes(*plan, c.coils);
}

/// After the last readout of a scan whose readouts were gridded as they came: the last `readouts` are uploaded and
/// gridded, then the transform, deapodization and the coils' root sum of squares.
void run_after_last_readout(benchmark::State& state, Backend backend, int readouts) {
  const NufftCase& c = nufft_cases()[0];
  const std::vector<double> k = c.trajectory();
  const auto count = static_cast<std::int64_t>(k.size()) / 2, last = static_cast<std::int64_t>(readouts) * 768;
  Context context(backend, bench_resources(), {.memory_budget = 16ull << 30});
  const std::vector<cfloat> samples = nufft_data(c, k, NufftData::white, context.threads());
  const auto plan = NufftPlan::make(context, {k.data(), {count, 2}}, c.image, c.options);
  const Array<cfloat> all = context.upload<cfloat>({samples.data(), {count, c.coils}});
  const Shape grid_shape = with_coils(c.coils, plan->grid_shape());
  Array<cfloat> before = context.zeros<cfloat>(grid_shape), grid = context.allocate<cfloat>(grid_shape);
  plan->accumulate(context, 0, all.view().part(0, {count - last, c.coils}), {}, 1, before.view());
  HostArray<cfloat> rest = context.allocate_host<cfloat>({last, c.coils});
  std::copy_n(samples.data() + (count - last) * c.coils, last * c.coils, rest.data());
  Array<cfloat> images = context.allocate<cfloat>(with_coils(c.coils, c.image)),
                image = context.allocate<cfloat>(with_coils(1, c.image)),
                remainder = context.allocate<cfloat>({last, c.coils});
  const auto work = [&] {
    context.copy<cfloat>(rest.cview(), remainder.view());
    plan->accumulate(context, count - last, remainder.cview(), {}, 1, grid.view());
    plan->to_images(context, grid.view(), images.view());
    root_sum_of_squares(context, images.cview(), image.view());
    context.synchronize();
  };
  const auto restore = [&] {
    context.copy<cfloat>(before.cview(), grid.view());
    context.synchronize();
  };
  for (auto _ : state) state.SetIterationTime(median_seconds(kRepetitions, work, restore));
  state.counters["error"] = adjoint_error(context, c, k, samples, images.view());
}

/// Ten iterations of pipe_menon from no weights at all; `error`: the residual of the best iterate.
void run_pipe_menon(benchmark::State& state, Backend backend) {
  const NufftCase& c = nufft_cases()[0];
  const std::vector<double> k = c.trajectory();
  const auto count = static_cast<std::int64_t>(k.size()) / 2;
  Context context(backend, bench_resources(), {.memory_budget = 16ull << 30});
  const auto plan = NufftPlan::make(context, {k.data(), {count, 2}}, c.image, c.options);
  PipeMenonResult result;
  const auto work = [&] {
    result = pipe_menon_density(context, *plan, {}, 10);
    context.synchronize();
  };
  for (auto _ : state) state.SetIterationTime(median_seconds(kRepetitions, work));
  state.counters["error"] = result.residuals.at(static_cast<std::size_t>(result.best));
}

void run_device_copy(benchmark::State& state, Backend backend) {
  constexpr std::int64_t kFloats = 256 << 20;
  Context context(backend, bench_resources(), {.memory_budget = 16ull << 30});
  Array<float> from = context.zeros<float>({kFloats}), to = context.zeros<float>({kFloats});
  double seconds = 0;
  for (auto _ : state) {
    seconds = median_seconds(kRepetitions, [&] {
      context.copy<float>(from.cview(), to.view());
      context.synchronize();
    });
    state.SetIterationTime(seconds);
  }
  state.counters["gb_per_s"] = 1e-9 * 2 * kFloats * sizeof(float) / seconds;
}

template <class Row>
void add_row(const std::string& name, const Row& row) {
  benchmark::RegisterBenchmark(name.c_str(), row)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  char** const end = std::remove_if(argv, argv + argc, [](const char* a) { return std::string(a) == "--errors=off"; });
  errors_wanted = end == argv + argc;
  argc = static_cast<int>(end - argv);
  for (const NufftCase& c : nufft_cases())
    for (const Backend backend : {Backend::cpu, Backend::cuda}) {
      if (!(backend == Backend::cpu ? c.cpu : c.cuda) || !available(backend)) continue;
      add_row(c.name + "/" + to_string(backend), [&c, backend](benchmark::State& state) { run(state, c, backend); });
    }
  struct FromHost {
    std::string name, of;
    std::int64_t readouts;
  };
  const FromHost from_host[] = {
      {"2d_radial_600x768_c16_384", "adjoint_2d_radial_600x768_c16_384/e2e-3", 600},
      {"2d_golden_402x512_c8_256", "adjoint_2d_golden_402x512_c8_256/e1e-3", 402},
      {"3d_kooshball_10m_c8_256", "adjoint_3d_kooshball_10m_c8_256/e2e-3", 39062},
  };
  for (const FromHost& row : from_host) {
    const NufftCase& c = nufft_case(row.of);
    for (const Backend backend : {Backend::cpu, Backend::cuda})
      for (const bool as_they_come : {false, true})
        if ((backend == Backend::cpu ? c.cpu : c.cuda) && available(backend))
          add_row("from_host/" + row.name + (as_they_come ? "/as_they_come/" : "/whole/") + to_string(backend),
                  [&c, row, backend, as_they_come](benchmark::State& state) {
                    run_from_host(state, c, row.readouts, backend, as_they_come);
                  });
  }
#if ECHOTRAIN_HAS_CUDA
  if (available(Backend::cuda))
    for (const std::vector<std::int64_t>& parts : {std::vector<std::int64_t>{4, 4}, {4, 2, 2}, {2, 2, 2, 2}})
      add_row(fmt::format("from_host/3d_kooshball_10m_c8_256/coils_{}/cuda", fmt::join(parts, "_")),
              [parts](benchmark::State& state) {
                run_from_host_by_coils(state, nufft_case("adjoint_3d_kooshball_10m_c8_256/e2e-3"), 39062, parts);
              });
#endif
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    if (!available(backend)) continue;
    add_row(std::string("after_last_readout_2d_radial_600x768_c16_384/") + to_string(backend),
            [backend](benchmark::State& state) { run_after_last_readout(state, backend, 8); });
    add_row(std::string("pipe_menon_2d_radial_600x768_384/") + to_string(backend),
            [backend](benchmark::State& state) { run_pipe_menon(state, backend); });
    if (backend == Backend::cuda)
      add_row("device_copy/cuda", [](benchmark::State& state) { run_device_copy(state, Backend::cuda); });
  }
  benchmark::Initialize(&argc, argv);
  add_machine();
  fmt::print("{}\n", describe(available(Backend::cuda) ? Backend::cuda : Backend::cpu, *bench_resources()));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
