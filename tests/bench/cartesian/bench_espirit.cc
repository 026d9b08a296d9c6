// ESPIRiT's maps beside `bart ecalib` (BART in the PATH): 16 coils, 24 x 24 calibration samples, an image of 128 x 128;
// and, with ECHOTRAIN_DATA, of the measured brain of espirit_examples (8 coils, 230 x 180).
//   maps/...    espirit_maps(), medians of 10 after three; kernels_ms, fft_ms, eigen_ms: its steps, one after another,
//               each with a wait for the device after it
//   bart/...    the whole process, median of 3 (its own threads, files in /tmp)
// left_over: of the coils' images, norm of what is not S S^H of themselves over norm of all, where both have maps.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/coils/coil_maps_ops.h"
#include "gadgets/numerics/mri/espirit/espirit.h"
#include "gadgets/numerics/mri/espirit/espirit_ops.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "tests/bench/timing.h"
#include "tests/support/bench_resources.h"

namespace {

using namespace echotrain;
using namespace echotrain::numerics;
using bench::median_seconds;

constexpr std::int64_t kCalibration = 24, kKernel = 6;
constexpr double kThreshold = 0.02;

struct Problem {
  std::string name;
  std::int64_t coils, ny, nx;
  std::vector<cfloat> kspace;  // [coil, y, x]
};

/// Points in front of coils on a ring, and noise.
Problem points() {
  Problem p{"points", 16, 128, 128, {}};
  std::mt19937 random(1);
  std::uniform_real_distribution<double> position(-0.3, 0.3);
  std::normal_distribution<double> value;
  std::vector<cdouble> sum(static_cast<std::size_t>(p.coils * p.ny * p.nx));
  for (int source = 0; source < 200; ++source) {
    const double px = position(random), py = position(random);
    const cdouble strength(value(random), value(random));
    std::vector<cdouble> across;
    for (std::int64_t x = 0; x < p.nx; ++x)
      across.push_back(std::polar(1.0, -2 * std::numbers::pi * px * static_cast<double>(x - p.nx / 2)));
    for (std::int64_t c = 0; c < p.coils; ++c) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(c) / static_cast<double>(p.coils);
      const double dx = px - 0.6 * std::cos(angle), dy = py - 0.6 * std::sin(angle);
      const cdouble seen = strength * std::polar(std::exp(-4 * (dx * dx + dy * dy)), 3 * (dx - dy) + angle);
      for (std::int64_t y = 0; y < p.ny; ++y) {
        const cdouble row = seen * std::polar(1.0, -2 * std::numbers::pi * py * static_cast<double>(y - p.ny / 2));
        for (std::int64_t x = 0; x < p.nx; ++x)
          sum[static_cast<std::size_t>((c * p.ny + y) * p.nx + x)] += row * across[static_cast<std::size_t>(x)];
      }
    }
  }
  for (cdouble& v : sum) v += 0.05 * cdouble(value(random), value(random));
  p.kspace = {sum.begin(), sum.end()};
  return p;
}

std::vector<cfloat> read_cfl(const std::string& path, std::size_t count) {
  std::vector<cfloat> values(count);
  std::ifstream file(path + ".cfl", std::ios::binary);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(cfloat)));
  if (!file) values.clear();
  return values;
}

double left_over(Context& context, const Problem& p, const std::vector<cfloat>& maps) {
  const Array<cfloat> kspace = context.upload<cfloat>({p.kspace.data(), {p.coils, p.ny, p.nx}});
  Array<cfloat> images = context.allocate<cfloat>({p.coils, p.ny, p.nx});
  centered_fft(context, kspace.view(), images.view(), {p.ny, p.nx}, 2, Direction::inverse, 1);
  const HostArray<cfloat> host = context.download<cfloat>(images.view());
  double rest = 0, all = 0;
  const std::int64_t voxels = p.ny * p.nx;
  for (std::int64_t v = 0; v < voxels; ++v) {
    cdouble sum = 0;
    double size = 0;
    const auto map = [&](std::int64_t c) { return cdouble(maps[static_cast<std::size_t>(c * voxels + v)]); };
    for (std::int64_t c = 0; c < p.coils; ++c) {
      sum += std::conj(map(c)) * cdouble(host.data()[c * voxels + v]);
      size += std::norm(map(c));
    }
    if (!(size > 0)) continue;
    for (std::int64_t c = 0; c < p.coils; ++c) {
      const cdouble value(host.data()[c * voxels + v]);
      rest += std::norm(value - map(c) * sum / size);
      all += std::norm(value);
    }
  }
  return std::sqrt(rest / all);
}

void ours(benchmark::State& state, Backend backend, const Problem& p) {
  Context context(backend, bench_resources(), {.memory_budget = 8ull << 30});
  const Array<cfloat> kspace = context.upload<cfloat>({p.kspace.data(), {p.coils, 1, p.ny, p.nx}});
  Array<cfloat> maps = context.allocate<cfloat>({p.coils, 1, p.ny, p.nx});
  const auto seconds = [&](const std::function<void()>& work) {
    return median_seconds(10, [&] {
      work();
      context.synchronize();
    });
  };
  for (auto _ : state)
    state.SetIterationTime(seconds([&] {
      espirit_maps(context, kspace.view(), {.calibration = kCalibration, .kernel = kKernel, .threshold = kThreshold},
                   maps.view());
    }));
  const HostArray<cfloat> host = context.download<cfloat>(maps.view());
  state.counters["left_over"] = left_over(context, p, {host.data(), host.data() + host.size()});

  const EspiritCalibration calibration{.kspace = kspace.view(),
                                       .coils = p.coils,
                                       .first = {0, (p.ny - kCalibration) / 2, (p.nx - kCalibration) / 2},
                                       .extents = {1, kCalibration, kCalibration},
                                       .kernel = {1, kKernel, kKernel},
                                       .threshold = kThreshold};
  EspiritKernels made;
  Array<cfloat> matrices = context.allocate<cfloat>({triangle_size(p.coils), 1, p.ny, p.nx});
  state.counters["kernels_ms"] =
      1e3 * seconds([&] { made = ECHOTRAIN_DISPATCH(context, espirit_kernels(context, calibration)); });
  state.counters["fft_ms"] =
      1e3 * seconds([&] {
        centered_fft(context, made.kernels.cview(), matrices.view(), {p.ny, p.nx}, 2, Direction::inverse, 1);
      });
  std::vector<cfloat> start;
  for (std::int64_t c = 0; c < p.coils; ++c)
    start.push_back(cfloat(std::polar(1.0, 2 * std::numbers::pi * start_turns(c))));
  const Array<cfloat> there = context.upload<cfloat>({start.data(), {p.coils}});
  const EigenMaps work{.matrices = matrices.data(),
                       .coils = p.coils,
                       .voxels = p.ny * p.nx,
                       .start = there.data(),
                       .reference = made.coil.data(),
                       .crop = 0.8f,
                       .maps = maps.data(),
                       .stride = p.ny * p.nx};
  state.counters["eigen_ms"] = 1e3 * seconds([&] { ECHOTRAIN_DISPATCH(context, eigen_maps(context, work)); });
}

void bart(benchmark::State& state, const Problem& p) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("bench_espirit_{}", p.name);
  std::filesystem::create_directories(folder);
  const std::string in = (folder / "k").string(), out = (folder / "s").string();
  std::ofstream(in + ".hdr") << fmt::format("# Dimensions\n1 {} {} {} 1 1 1 1 1 1 1 1 1 1 1 1\n", p.nx, p.ny, p.coils);
  std::ofstream(in + ".cfl", std::ios::binary)
      .write(reinterpret_cast<const char*>(p.kspace.data()),
             static_cast<std::streamsize>(p.kspace.size() * sizeof(cfloat)));
  const std::string command = fmt::format("bart ecalib -m1 -r{} -k{} -t{} -c0.8 {} {} > /dev/null 2>&1", kCalibration,
                                          kKernel, kThreshold, in, out);
  int failed = 0;
  for (auto _ : state) state.SetIterationTime(median_seconds(3, [&] { failed |= std::system(command.c_str()); }));
  const std::vector<cfloat> maps = read_cfl(out, p.kspace.size());
  if (failed != 0 || maps.empty()) {
    state.SkipWithError("bart ecalib failed");
  } else {
    Context context(Backend::cpu, bench_resources());
    state.counters["left_over"] = left_over(context, p, maps);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Problem> problems{points()};
  if (const char* data = std::getenv("ECHOTRAIN_DATA")) {
    Problem brain{"brain", 8, 180, 230, {}};
    brain.kspace = read_cfl(std::string(data) + "/espirit_examples/full", static_cast<std::size_t>(8 * 180 * 230));
    if (!brain.kspace.empty()) problems.push_back(std::move(brain));
  }
  const auto add = [](const std::string& name, const auto& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
  };
  for (const Problem& p : problems) {
    for (const Backend backend : {Backend::cpu, Backend::cuda})
      if (available(backend))
        add(fmt::format("maps/{}/{}", p.name, to_string(backend)),
            [&p, backend](benchmark::State& state) { ours(state, backend, p); });
    if (std::system("bart version > /dev/null 2>&1") == 0)
      add("bart/" + p.name, [&p](benchmark::State& state) { bart(state, p); });
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
