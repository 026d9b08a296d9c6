// The NUFFT with its plan known, adjoint and forward: time per transform (all coils), and the error against a float64
// direct sum at random voxels (samples) of the first coil. Random data. `plan/...` is the making of the plan from host
// coordinates.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "gadgets/numerics/coils/coil.h"
#include "gadgets/numerics/density/density_pipe_menon.h"
#include "gadgets/numerics/nufft/nufft.h"
#include "tests/support/bench_resources.h"

namespace {

using namespace echotrain::numerics;
using echotrain::bench_resources;
using Clock = std::chrono::steady_clock;

constexpr int kRepetitions = 20;
constexpr int kCheckedVoxels = 24;
constexpr double kGoldenAngle = 1.9416110387254666;  // radians; pi / golden ratio

struct Case {
  std::string name;
  Shape image;
  std::int64_t coils;
  NufftOptions options;
  bool cpu, cuda;
  std::vector<double> (*trajectory)();
  bool forward = false;
};

std::vector<double> spokes(int readouts, int samples, double angle) {
  std::vector<double> k;
  k.reserve(static_cast<std::size_t>(readouts) * static_cast<std::size_t>(samples) * 2);
  for (int r = 0; r < readouts; ++r)
    for (int s = 0; s < samples; ++s) {
      const double radius = static_cast<double>(s) / samples - 0.5;
      k.push_back(radius * std::cos(r * angle));
      k.push_back(radius * std::sin(r * angle));
    }
  return k;
}

std::vector<double> kooshball(int readouts, int samples) {
  std::vector<double> k;
  k.reserve(static_cast<std::size_t>(readouts) * static_cast<std::size_t>(samples) * 3);
  for (int r = 0; r < readouts; ++r) {
    const double z = 1 - (2.0 * r + 1) / readouts, ring = std::sqrt(1 - z * z), angle = r * kGoldenAngle;
    for (int s = 0; s < samples; ++s) {
      const double radius = 0.5 * s / (samples - 0.5);
      k.insert(k.end(), {radius * ring * std::cos(angle), radius * ring * std::sin(angle), radius * z});
    }
  }
  return k;
}

std::vector<double> radial_600x768() { return spokes(600, 768, std::numbers::pi / 600); }
std::vector<double> golden_402x512() { return spokes(402, 512, kGoldenAngle); }
std::vector<double> kooshball_10m() { return kooshball(39062, 256); }
std::vector<double> kooshball_284592() { return kooshball(1078, 264); }

const std::vector<Case> kCases = {
    {"adjoint_2d_radial_600x768_c16_384/e2e-3", {384, 384}, 16, {4, 1.5}, false, true, radial_600x768},
    {"adjoint_2d_radial_600x768_c16_384/e3e-5", {384, 384}, 16, {6, 1.5}, false, true, radial_600x768},
    {"adjoint_3d_kooshball_10m_c8_256/e2e-3", {256, 256, 256}, 8, {5, 1.25}, false, true, kooshball_10m},
    {"adjoint_3d_kooshball_10m_c8_256/e2e-5", {256, 256, 256}, 8, {7, 1.5}, false, true, kooshball_10m},
    {"adjoint_3d_kooshball_284592_c1_128/e1e-5", {128, 128, 128}, 1, {7, 1.5}, false, true, kooshball_284592},
    {"adjoint_2d_golden_402x512_c8_256/e1e-3", {256, 256}, 8, {5, 1.5}, true, true, golden_402x512},
    {"adjoint_3d_kooshball_284592_c1_128/e1e-3", {128, 128, 128}, 1, {5, 1.5}, true, true, kooshball_284592},
    {"adjoint_3d_kooshball_284592_c8_128/e1e-3", {128, 128, 128}, 8, {5, 1.5}, true, true, kooshball_284592},
    {"forward_2d_radial_600x768_c16_384/e2e-3", {384, 384}, 16, {4, 1.5}, false, true, radial_600x768, true},
    {"forward_2d_radial_600x768_c16_384/w5", {384, 384}, 16, {5, 1.25}, false, true, radial_600x768, true},
    {"forward_3d_kooshball_10m_c8_256/w4", {256, 256, 256}, 8, {4, 1.5}, false, true, kooshball_10m, true},
    {"adjoint_2d_radial_600x768_c16_384/w5", {384, 384}, 16, {5, 1.25}, false, true, radial_600x768},
    {"adjoint_3d_kooshball_284592_c1_128/w6", {128, 128, 128}, 1, {6, 1.75}, false, true, kooshball_284592},
    {"forward_3d_kooshball_10m_c8_256/e2e-3", {256, 256, 256}, 8, {5, 1.25}, false, true, kooshball_10m, true},
    {"forward_2d_golden_402x512_c8_256/e1e-3", {256, 256}, 8, {5, 1.5}, true, true, golden_402x512, true},
    {"forward_3d_kooshball_284592_c8_128/e1e-3", {128, 128, 128}, 8, {5, 1.5}, true, true, kooshball_284592, true},
};

std::vector<cfloat> random_samples(std::int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<cfloat> out(static_cast<std::size_t>(count));
  for (auto& v : out) v = {value(random), value(random)};
  return out;
}

/// Relative error of the first coil's image at random voxels.
double error_of(const Case& c, const std::vector<double>& k, const std::vector<cfloat>& samples, const cfloat* image) {
  const auto dims = static_cast<std::int64_t>(c.image.rank());
  const auto count = static_cast<std::int64_t>(k.size()) / dims;
  std::mt19937_64 random(2);
  double difference = 0, size = 0;
  for (int i = 0; i < kCheckedVoxels; ++i) {
    std::int64_t position[3], voxel = 0;
    for (std::int64_t a = 0; a < dims; ++a) {
      position[a] =
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(c.image[static_cast<std::size_t>(a)]));
      voxel = voxel * c.image[static_cast<std::size_t>(a)] + position[a];
    }
    std::complex<double> sum = 0;
    std::mutex mutex;
    bench_resources()->threads().parallel_for(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      std::complex<double> part = 0;
      for (std::int64_t s = begin; s < end; ++s) {
        double phase = 0;
        for (std::int64_t a = 0; a < dims; ++a)  // component 0 is the fastest axis
          phase += k[static_cast<std::size_t>(s * dims + dims - 1 - a)] *
                   static_cast<double>(position[a] - c.image[static_cast<std::size_t>(a)] / 2);
        part += std::complex<double>(samples[static_cast<std::size_t>(s * c.coils)]) *
                std::polar(1.0, 2 * std::numbers::pi * phase);
      }
      const std::lock_guard lock(mutex);
      sum += part;
    });
    difference += std::norm(std::complex<double>(image[voxel]) - sum);
    size += std::norm(sum);
  }
  return std::sqrt(difference / size);
}

/// Relative error of the first coil's samples at random places of the trajectory.
double forward_error_of(const Case& c, const std::vector<double>& k, const std::vector<cfloat>& image,
                        const cfloat* samples) {
  const auto dims = static_cast<std::int64_t>(c.image.rank());
  const auto count = static_cast<std::int64_t>(k.size()) / dims;
  std::mt19937_64 random(2);
  double difference = 0, size = 0;
  for (int i = 0; i < kCheckedVoxels; ++i) {
    const auto s = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
    std::complex<double> sum = 0;
    std::mutex mutex;
    bench_resources()->threads().parallel_for(c.image.size(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      std::complex<double> part = 0;
      for (std::int64_t v = begin; v < end; ++v) {
        double phase = 0;
        std::int64_t rest = v;
        for (std::int64_t a = dims - 1; a >= 0; --a) {  // component 0 is the fastest axis
          const std::int64_t extent = c.image[static_cast<std::size_t>(a)];
          phase +=
              k[static_cast<std::size_t>(s * dims + dims - 1 - a)] * static_cast<double>(rest % extent - extent / 2);
          rest /= extent;
        }
        part +=
            std::complex<double>(image[static_cast<std::size_t>(v)]) * std::polar(1.0, -2 * std::numbers::pi * phase);
      }
      const std::lock_guard lock(mutex);
      sum += part;
    });
    difference += std::norm(std::complex<double>(samples[s * c.coils]) - sum);
    size += std::norm(sum);
  }
  return std::sqrt(difference / size);
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(benchmark::State& state, const Case& c, Backend backend) {
  const std::vector<double> k = c.trajectory();
  const auto dims = static_cast<std::int64_t>(c.image.rank());
  const auto count = static_cast<std::int64_t>(k.size()) / dims;
  const std::vector<cfloat> samples = random_samples((c.forward ? c.image.size() : count) * c.coils);
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  std::shared_ptr<const NufftPlan> plan;
  const auto make_plan = [&] {
    plan = NufftPlan::make(context, {k.data(), {count, dims}}, c.image, c.options, c.coils);
  };
  make_plan();
  state.SetLabel(describe(plan->tuning()));
  state.counters["plan_ms"] = 1e3 * seconds_of(make_plan);

  Shape shape{c.coils};
  for (auto extent : c.image) shape.push_back(extent);
  const Shape sample_shape{count, c.coils};
  const Array<cfloat> data = context.upload<cfloat>({samples.data(), c.forward ? shape : sample_shape});
  Array<cfloat> result = context.allocate<cfloat>(c.forward ? sample_shape : shape);
  const auto transform = [&] {
    if (c.forward)
      plan->forward(context, data.view(), result.view());
    else
      plan->adjoint(context, data.view(), {}, result.view());
    context.synchronize();
  };
  for (int i = 0; i < 3; ++i) transform();
  for (auto _ : state) {
    std::vector<double> times;
    for (int i = 0; i < kRepetitions; ++i) times.push_back(seconds_of(transform));
    state.SetIterationTime(median(times));
  }
  const HostArray<cfloat> host = context.download<cfloat>(result.view());
  state.counters["error"] =
      c.forward ? forward_error_of(c, k, samples, host.data()) : error_of(c, k, samples, host.data());
}

/// After the last readout of a scan whose readouts were gridded as they came: the last `readouts` are uploaded and
/// gridded, then the transform, deapodization and the coils' root sum of squares.
void run_after_last_readout(benchmark::State& state, Backend backend, int readouts) {
  const Case& c = kCases[0];
  const std::vector<double> k = c.trajectory();
  const auto count = static_cast<std::int64_t>(k.size()) / 2, last = static_cast<std::int64_t>(readouts) * 768;
  const std::vector<cfloat> samples = random_samples(count * c.coils);
  Context context(backend, bench_resources(), {.memory_budget = 16ull << 30});
  const auto plan = NufftPlan::make(context, {k.data(), {count, 2}}, c.image, c.options, c.coils);
  const Array<cfloat> all = context.upload<cfloat>({samples.data(), {count, c.coils}});
  const Shape grid_shape{c.coils, plan->grid_shape()[0], plan->grid_shape()[1]};
  Array<cfloat> before = context.zeros<cfloat>(grid_shape), grid = context.allocate<cfloat>(grid_shape);
  plan->accumulate(context, 0, all.view().part(0, {count - last, c.coils}), {}, 1, before.view());
  HostArray<cfloat> rest = context.allocate_host<cfloat>({last, c.coils});
  std::copy_n(samples.data() + (count - last) * c.coils, last * c.coils, rest.data());
  Array<cfloat> images = context.allocate<cfloat>({c.coils, c.image[0], c.image[1]}),
                image = context.allocate<cfloat>({1, c.image[0], c.image[1]}),
                remainder = context.allocate<cfloat>({last, c.coils});
  const auto work = [&] {
    context.copy<cfloat>(rest.cview(), remainder.view());
    plan->accumulate(context, count - last, remainder.cview(), {}, 1, grid.view());
    plan->to_images(context, grid.view(), images.view());
    root_sum_of_squares(context, images.cview(), image.view());
    context.synchronize();
  };
  for (auto _ : state) {
    std::vector<double> times;
    for (int i = 0; i < kRepetitions + 3; ++i) {
      context.copy<cfloat>(before.cview(), grid.view());
      context.synchronize();
      const double seconds = seconds_of(work);
      if (i >= 3) times.push_back(seconds);
    }
    state.SetIterationTime(median(times));
  }
  const HostArray<cfloat> host = context.download<cfloat>(images.view());
  state.counters["error"] = error_of(c, k, samples, host.data());
}

/// Ten iterations of pipe_menon from no weights at all; `error`: the residual of the best iterate.
void run_pipe_menon(benchmark::State& state, Backend backend) {
  const Case& c = kCases[0];
  const std::vector<double> k = c.trajectory();
  const auto count = static_cast<std::int64_t>(k.size()) / 2;
  Context context(backend, bench_resources(), {.memory_budget = 16ull << 30});
  const auto plan = NufftPlan::make(context, {k.data(), {count, 2}}, c.image, c.options, c.coils);
  PipeMenonResult result;
  const auto work = [&] {
    result = pipe_menon_density(context, *plan, {}, 10, 0);
    context.synchronize();
  };
  for (int i = 0; i < 3; ++i) work();
  for (auto _ : state) {
    std::vector<double> times;
    for (int i = 0; i < kRepetitions; ++i) times.push_back(seconds_of(work));
    state.SetIterationTime(median(times));
  }
  state.counters["error"] = result.residuals.at(static_cast<std::size_t>(result.best));
}

void add_row(const std::string& name, const std::function<void(benchmark::State&)>& row) {
  benchmark::RegisterBenchmark(name.c_str(), row)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Case& c : kCases)
    for (const Backend backend : {Backend::cpu, Backend::cuda}) {
      if (!(backend == Backend::cpu ? c.cpu : c.cuda) || !available(backend)) continue;
      add_row(c.name + "/" + to_string(backend), [&c, backend](benchmark::State& state) { run(state, c, backend); });
    }
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    if (!available(backend)) continue;
    add_row(std::string("after_last_readout_2d_radial_600x768_c16_384/") + to_string(backend),
            [backend](benchmark::State& state) { run_after_last_readout(state, backend, 8); });
    add_row(std::string("pipe_menon_2d_radial_600x768_384/") + to_string(backend),
            [backend](benchmark::State& state) { run_pipe_menon(state, backend); });
  }
  benchmark::Initialize(&argc, argv);
  fmt::print("{}\n", describe(available(Backend::cuda) ? Backend::cuda : Backend::cpu, *bench_resources()));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
