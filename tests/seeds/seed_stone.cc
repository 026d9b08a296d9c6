// The seed's own table, reproduced: time of F^H d of 284,592 samples on 128^3 voxels, a random trajectory and data.
//   error              relative, against float64 at random voxels
//   gflops             by the seed's count: 13 operations per pair of sample and voxel and 13 + 12 for its sine and
//                      cosine in software, or 1 + 1 in hardware. `ours` needs far fewer; it is counted as the latter.
//   seed_seconds, seed_gflops   its Table 1 (CUDA 1.1) and section 5: Quadro FX 5600, Core 2 Extreme with four threads
//   at_seed_size       seconds that a smaller problem would take at the seed's size: work is in proportion to pairs
//   percent, psnr      error of the image that 60 iterations with Tikhonov's prior make of this F^H d of the seed's
//                      scan (seed_stone_images.h), relative to the truth, without noise; noisy_...: with it
// Versions that take longer than --image_limit=SECONDS (5) make no image. ours.pipeline is the whole reconstruction,
// from readouts in memory to the image, Q known: the seed's 66 s; ours.pipeline.auto: as fhd_pcg_3d does it. `gridded`
// is what its figure 6 compares with. CPU versions take a smaller problem, --cpu_matrix=N (64) and --cpu_samples=M
// (8192), and a smaller scan to match. Differences from the seed:
// - Samples are on the device when the clock starts and the image stays there; its times include input and output.
// - The voxel's basis is a point (phi = 1), so that mu = d; and mu is not computed.
// - The search of GPU.Tune is of multiples of 64 threads and looks at the first 2,048 samples only, and tiles are
//   copied to constant memory from the device's memory rather than the host's.
// - Q, of which the seed gives no time, is that of 256^3 voxels here, by GPU.Tune and by point_spread() of the product.
#include "tests/seeds/seed_stone.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "gadgets/numerics/transforms/exact/split_adjoint.h"
#include "tests/seeds/seed_stone_images.h"
#include "tests/support/bench_resources.h"

namespace echotrain::seed {
namespace {

using numerics::Backend;
using numerics::cdouble;
using numerics::cfloat;
using numerics::Context;
using numerics::Precision;

constexpr int kSeedMatrix = 128, kSeedReadouts = 1078, kSeedSamples = 284592;
constexpr double kSoftwareTrigonometry = 13 + 13 + 12, kHardwareTrigonometry = 13 + 1 + 1;
constexpr int kCheckedVoxels = 300;
constexpr std::uint64_t kMemory = 64ull << 30;
constexpr const char *kExact = "method: exact", *kAuto = "method: auto, accuracy: 1.2e-6";  ///< of the gadget fhd
double image_limit = 5;                                                                     // seconds

/// The figures that the seed reports; 0 where there is none.
struct Reported {
  double seconds = 0, gflops = 0;
};

constexpr Reported kSeedSingle{1350, 16.8};  // CPU.SP; of CPU.DP the text gives no figure

/// A problem, the same numbers in every form. Coordinates are rounded to fp32, which every version reads.
struct Problem {
  std::int64_t matrix;
  Samples<float> samples;
  std::vector<std::int64_t> checked;  ///< voxels
  std::vector<cdouble> truth;         ///< at those

  Problem(std::int64_t matrix_, std::int64_t count, bool point_spread = false);
  std::int64_t voxels() const { return matrix * matrix * matrix; }
  double pairs() const { return static_cast<double>(voxels()) * static_cast<double>(samples.size()); }
};

Problem::Problem(std::int64_t matrix_, std::int64_t count, bool point_spread) : matrix(matrix_) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> position(-0.5f, 0.5f);
  std::normal_distribution<float> value;
  for (std::int64_t m = 0; m < count; ++m) {
    for (auto* k : {&samples.kx, &samples.ky, &samples.kz}) k->push_back(position(random));
    const float re = value(random), im = value(random);
    samples.re.push_back(point_spread ? 1 : re);
    samples.im.push_back(point_spread ? 0 : im);
  }
  // Not index 0 of an axis: the product leaves out that lag of Q.
  std::uniform_int_distribution<std::int64_t> inside(1, matrix - 1);
  for (int i = 0; i < kCheckedVoxels; ++i) {
    const std::int64_t z = inside(random), y = inside(random), x = inside(random);
    checked.push_back((z * matrix + y) * matrix + x);
  }
  truth.resize(checked.size());
  bench_resources()->threads().parallel_for(kCheckedVoxels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = checked[static_cast<std::size_t>(i)];
      const auto x = static_cast<double>(n % matrix - matrix / 2);
      const auto y = static_cast<double>(n / matrix % matrix - matrix / 2);
      const auto z = static_cast<double>(n / matrix / matrix - matrix / 2);
      cdouble sum = 0;
      for (std::size_t m = 0; m < samples.kx.size(); ++m) {
        const double turns = static_cast<double>(samples.kx[m]) * x + static_cast<double>(samples.ky[m]) * y +
                             static_cast<double>(samples.kz[m]) * z;
        sum += cdouble(static_cast<double>(samples.re[m]), static_cast<double>(samples.im[m])) *
               std::polar(1.0, 2 * std::numbers::pi * (turns - std::round(turns)));
      }
      truth[static_cast<std::size_t>(i)] = sum;
    }
  });
}

/// The error of `image`, a function that gives the value of a voxel.
template <class Image>
double error_of(const Problem& problem, const Image& image) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < problem.checked.size(); ++i) {
    difference += std::norm(cdouble(image(problem.checked[i])) - problem.truth[i]);
    size += std::norm(problem.truth[i]);
  }
  return std::sqrt(difference / size);
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The mean of three runs after one that does not count, as in the seed for its fastest versions; for runs of more than
/// half a second, the first alone.
double mean_seconds_of(const std::function<void()>& work) {
  constexpr double kLong = 0.5;
  const double first = seconds_of(work);
  return first > kLong ? first : (seconds_of(work) + seconds_of(work) + seconds_of(work)) / 3;
}

using Image = std::vector<cfloat>;
/// F^H d of samples on a cube; `seconds`, where given, is how long it takes.
using Version = std::function<Image(const Samples<float>& samples, std::int64_t matrix, double* seconds)>;

void run_work(double* seconds, const std::function<void()>& work) {
  if (seconds == nullptr)
    work();
  else
    *seconds = mean_seconds_of(work);
}

void report(benchmark::State& state, double seconds, const Reported& seed) {
  for (auto _ : state) state.SetIterationTime(seconds);
  if (seed.seconds > 0) state.counters["seed_seconds"] = seed.seconds;
  if (seed.gflops > 0) state.counters["seed_gflops"] = seed.gflops;
}

void report(benchmark::State& state, const Fidelity& clean, const Fidelity& noisy) {
  state.counters["percent"] = clean.percent;
  state.counters["psnr"] = clean.psnr;
  state.counters["noisy_percent"] = noisy.percent;
  state.counters["noisy_psnr"] = noisy.psnr;
}

/// `scan`: the scan by which images are judged, or null.
void run(benchmark::State& state, const Problem& problem, const Version& version, double flops_per_pair,
         const Reported& seed, const PhantomScan* scan) {
  double seconds = 0;
  const Image image = version(problem.samples, problem.matrix, &seconds);
  report(state, seconds, seed);
  state.counters["error"] = error_of(problem, [&](std::int64_t n) { return image[static_cast<std::size_t>(n)]; });
  state.counters["gflops"] = problem.pairs() * flops_per_pair / seconds / 1e9;
  constexpr double kSeedPairs = 1.0 * kSeedMatrix * kSeedMatrix * kSeedMatrix * kSeedSamples;
  if (problem.pairs() < kSeedPairs) state.counters["at_seed_size"] = seconds * kSeedPairs / problem.pairs();
  if (scan == nullptr || seconds > image_limit) return;
  const auto judge = [&](bool noisy) { return scan->solved(version(scan->samples(noisy), scan->matrix(), nullptr)); };
  report(state, judge(false), judge(true));
}

// --- CPU ---

template <class T>
Samples<T> converted(const Samples<float>& from) {
  const auto copy = [](const std::vector<float>& values) { return std::vector<T>(values.begin(), values.end()); };
  return {copy(from.kx), copy(from.ky), copy(from.kz), copy(from.re), copy(from.im)};
}

template <class T>
Image cpu_version(const Samples<float>& from, std::int64_t matrix, bool threads, double* seconds) {
  const Samples<T> samples = converted<T>(from);
  const std::int64_t voxels = matrix * matrix * matrix;
  std::vector<T> re(static_cast<std::size_t>(voxels)), im(re.size());
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    cpu_fhd(samples, matrix, begin, end, re.data(), im.data());
  };
  run_work(seconds, [&] {
    if (threads)
      bench_resources()->threads().parallel_for(voxels, 1024, work);
    else
      work(0, voxels);
  });
  Image image;
  for (std::size_t n = 0; n < re.size(); ++n) image.emplace_back(static_cast<float>(re[n]), static_cast<float>(im[n]));
  return image;
}

// --- the product ---

std::vector<double> coordinates_of(const Samples<float>& samples) {
  std::vector<double> k;
  for (std::size_t m = 0; m < samples.kx.size(); ++m)
    for (const auto* axis : {&samples.kx, &samples.ky, &samples.kz}) k.push_back(static_cast<double>((*axis)[m]));
  return k;
}

Image our_version(const Samples<float>& from, std::int64_t matrix, Backend backend, Precision precision, int devices,
                  double* seconds) {
  Context context(backend, bench_resources(), {.memory_budget = kMemory});
  std::vector<int> others;
  for (int d = 1; d < devices; ++d) others.push_back(d);
  std::optional<numerics::Team> team;
  if (!others.empty()) {
    team.emplace(context, others, kMemory);
    team->run(numerics::Team::Sums::none, [](numerics::Member&) {});  // connects the devices, once per process
  }
  const numerics::Shape cube{matrix, matrix, matrix};
  const std::vector<double> k = coordinates_of(from);
  std::vector<cfloat> d;
  for (std::size_t m = 0; m < from.re.size(); ++m) d.emplace_back(from.re[m], from.im[m]);
  const auto samples = context.upload<cfloat>({d.data(), {from.size(), 1}});
  auto image = context.allocate<cfloat>({1, matrix, matrix, matrix});
  run_work(seconds, [&] {
    numerics::SplitAdjoint sum(context, team ? &*team : nullptr, cube, 1, numerics::VoxelBasis::delta, precision);
    sum.add(context, {k.data(), {from.size(), 3}}, samples.cview(), {});
    sum.get(context, image.view());
    context.synchronize();
  });
  const auto host = context.download<cfloat>(image.cview());
  return {host.data(), host.data() + host.size()};
}

/// F^H d, 60 iterations and the image, by the pipeline; Q is known.
void run_pipeline(benchmark::State& state, const PhantomScan& scan, Backend backend, const char* method) {
  constexpr Reported kWholeTune{66, 0};
  PhantomScan::Product product(scan, backend, method);
  product.run(false);
  const Fidelity clean = product.fidelity();
  product.run(true);
  report(state, mean_seconds_of([&] { product.run(true); }), kWholeTune);
  report(state, clean, product.fidelity());
}

void run_gridded(benchmark::State& state, const PhantomScan& scan) {
  Fidelity clean, noisy;
  report(state, mean_seconds_of([&] { clean = scan.gridded(false); }), {});
  noisy = scan.gridded(true);
  report(state, clean, noisy);
}

/// Q on the cube of `problem`, that of images of half its matrix.
void run_ours_q(benchmark::State& state, const Problem& problem, Backend backend) {
  Context context(backend, bench_resources(), {.memory_budget = kMemory});
  const std::int64_t n = problem.matrix, half = n / 2;
  const std::vector<double> k = coordinates_of(problem.samples);
  auto q = context.allocate<cfloat>({n, n, n});
  const double seconds = mean_seconds_of([&] {
    numerics::point_spread(context, {k.data(), {problem.samples.size(), 3}}, {}, {half, half, half},
                           numerics::VoxelBasis::delta, q.view());
    context.synchronize();
  });
  const auto host = context.download<cfloat>(q.cview());
  const double error = error_of(problem, [&](std::int64_t at) {
    const auto lag = [&](std::int64_t index) { return (index + half) % n; };  // FFT order
    return host.data()[(lag(at / n / n) * n + lag(at / n % n)) * n + lag(at % n)];
  });
  report(state, seconds, {});
  state.counters["error"] = error;
  state.counters["gflops"] = problem.pairs() * kHardwareTrigonometry / seconds / 1e9;
}

// --- GPU ---

#ifdef ECHOTRAIN_HAS_CUDA
struct Step {
  const char* name;
  Variant variant;
  Reported seed;
};

constexpr Step kSteps[] = {
    {"GPU.Base", Variant::base, {3216, 7.05}},          {"GPU.RegAlloc", Variant::reg_alloc, {2049, 11.07}},
    {"GPU.Layout", Variant::layout, {1765, 12.85}},     {"GPU.ConstMem", Variant::const_mem, {274, 82.79}},
    {"GPU.FastTrig", Variant::fast_trig, {71, 125.49}},
};
constexpr Settings kSeedSettings{.threads = 128, .tile = 512, .unroll = 8};
constexpr Reported kSeedTune{49, 184.40}, kSeedMulti{14.5, 615.75};

double flops_of(Variant variant) {
  return variant == Variant::fast_trig ? kHardwareTrigonometry : kSoftwareTrigonometry;
}

/// Voxels divided among the first `devices` GPUs, each driven by a thread of its own.
Image gpu_version(const Samples<float>& samples, std::int64_t matrix, Variant variant, const Settings& settings,
                  int devices, double* seconds) {
  struct Part {
    Part(const Samples<float>& samples, std::int64_t matrix, int device, std::int64_t begin, std::int64_t end)
        : context(Backend::cuda, bench_resources(), {.device = device, .memory_budget = kMemory}),
          fhd(context, samples, matrix, begin, end) {}
    Context context;
    GpuFhd fhd;
  };
  const std::int64_t voxels = matrix * matrix * matrix;
  std::vector<std::unique_ptr<Part>> parts;
  for (int d = 0; d < devices; ++d)
    parts.push_back(std::make_unique<Part>(samples, matrix, d, voxels * d / devices, voxels * (d + 1) / devices));
  run_work(seconds, [&] {
    std::vector<std::thread> threads;
    for (const auto& part : parts)
      threads.emplace_back([&part, &settings, variant] {
        part->fhd.run(variant, settings);
        part->context.synchronize();
      });
    for (std::thread& thread : threads) thread.join();
  });
  Image image;
  for (const auto& part : parts) {
    const Image piece = part->fhd.image();
    image.insert(image.end(), piece.begin(), piece.end());
  }
  return image;
}

void run_variant(benchmark::State& state, const Problem& problem, Variant variant, const Settings& settings,
                 int devices, const Reported& seed, const PhantomScan* scan) {
  const auto version = [&](const Samples<float>& samples, std::int64_t matrix, double* seconds) {
    return gpu_version(samples, matrix, variant, settings, devices, seconds);
  };
  run(state, problem, version, flops_of(variant), seed, scan);
  state.counters["threads"] = settings.threads;
  state.counters["tile"] = settings.tile;
  state.counters["unroll"] = settings.unroll;
}

/// The seed's exhaustive search, with half its numbers of threads.
Settings search(const Problem& problem) {
  constexpr std::int64_t kSearched = kLargestTile;
  Context context(Backend::cuda, bench_resources(), {.memory_budget = kMemory});
  GpuFhd fhd(context, problem.samples, problem.matrix, 0, problem.voxels());
  fhd.run(Variant::fast_trig, {}, kSearched);
  context.synchronize();
  Settings best;
  double least = std::numeric_limits<double>::infinity();
  for (int threads = 64; threads <= 512; threads += 64)
    for (int tile = 32; tile <= kLargestTile; tile *= 2)
      for (int unroll = 1; unroll <= 8; unroll *= 2) {
        const Settings settings{threads, tile, unroll};
        const double seconds = seconds_of([&] {
          fhd.run(Variant::fast_trig, settings, kSearched);
          context.synchronize();
        });
        if (seconds < least) {
          least = seconds;
          best = settings;
        }
      }
  return best;
}
#endif

// --- the program ---

void add(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
}

Version ours(Backend backend, Precision precision, int devices = 1) {
  return [=](const Samples<float>& samples, std::int64_t matrix, double* seconds) {
    return our_version(samples, matrix, backend, precision, devices, seconds);
  };
}

template <class T>
Version on_cpu(bool threads) {
  return [=](const Samples<float>& samples, std::int64_t matrix, double* seconds) {
    return cpu_version<T>(samples, matrix, threads, seconds);
  };
}

void add_cpu(const Problem& problem, const Problem& q, const PhantomScan& scan) {
  const std::string size = fmt::format("/{}^3x{}", problem.matrix, problem.samples.size());
  const std::string both = fmt::format("{}_threads", bench_resources()->threads().size());
  const auto add_version = [&](const std::string& name, const Version& version, const Reported& seed, double flops,
                               bool judged) {
    add(name, [=, &problem, &scan](auto& s) { run(s, problem, version, flops, seed, judged ? &scan : nullptr); });
  };
  for (const bool threads : {false, true}) {
    const std::string on = threads ? both : "1_thread";
    add_version("CPU.DP/" + on + size, on_cpu<double>(threads), {}, kSoftwareTrigonometry, threads);
    add_version("CPU.SP/" + on + size, on_cpu<float>(threads), kSeedSingle, kSoftwareTrigonometry, threads);
  }
  add_version("ours/" + both + size, ours(Backend::cpu, Precision::exact), {}, kHardwareTrigonometry, true);
  const std::string image = fmt::format("/{}^3x{}", scan.matrix(), scan.samples(false).size());
  add("ours.pipeline/" + both + image, [&](auto& s) { run_pipeline(s, scan, Backend::cpu, kExact); });
  add("gridded/" + both + image, [&](auto& s) { run_gridded(s, scan); });
  const std::string q_size = fmt::format("/{}^3x{}", q.matrix, q.samples.size());
  add("Q/CPU.SP/" + both + q_size,
      [&q](auto& s) { run(s, q, on_cpu<float>(true), kSoftwareTrigonometry, {}, nullptr); });
  add("Q/ours/" + both + q_size, [&q](auto& s) { run_ours_q(s, q, Backend::cpu); });
}

#ifdef ECHOTRAIN_HAS_CUDA
struct GpuProblems {
  Problem problem{kSeedMatrix, kSeedSamples}, q{2 * kSeedMatrix, kSeedSamples, true};
  Problem part{kSeedMatrix, 4 * kLargestTile}, small_part{kSeedMatrix, kLargestTile};  ///< for versions in parts
  PhantomScan scan{Backend::cuda, kSeedMatrix, kSeedReadouts, kSeedSamples / kSeedReadouts};
  std::optional<Settings> tuned;
  const Settings& best() {
    if (!tuned) tuned = search(problem);
    return *tuned;
  }
};

/// Figure 8 and the versions of the teaching kit, of the first samples only.
void add_gpu_parts(GpuProblems& all) {
  const auto add_part = [](const std::string& name, const Problem& problem, Variant variant, const Settings& settings) {
    add(fmt::format("{}/gpu/{}^3x{}", name, kSeedMatrix, problem.samples.size()),
        [=, &problem](auto& s) { run_variant(s, problem, variant, settings, 1, {}, nullptr); });
  };
  for (const auto& [layout, variant] :
       {std::pair{"structures", Variant::const_mem}, std::pair{"arrays", Variant::const_arrays}})
    for (int unroll = 1; unroll <= 8; unroll *= 2)
      for (int tile = 32; tile <= kLargestTile; tile *= 2)
        add_part(fmt::format("Figure8/{}/unroll_{}/tile_{}", layout, unroll, tile), all.part, variant,
                 {.tile = tile, .unroll = unroll});
  add_part("Kit/k_in_constant_memory", all.part, Variant::const_k, {});
  add_part("Kit/a_thread_per_sample", all.small_part, Variant::scatter, {});
}

void add_gpu(GpuProblems& all) {
  const int devices = gpu_count();
  const std::string size = fmt::format("/gpu/{}^3x{}", kSeedMatrix, kSeedSamples);
  for (const Step& step : kSteps)
    add(step.name + size, [&](auto& s) { run_variant(s, all.problem, step.variant, {}, 1, step.seed, &all.scan); });
  add("GPU.Tune.as_seed" + size,
      [&](auto& s) { run_variant(s, all.problem, Variant::fast_trig, kSeedSettings, 1, kSeedTune, &all.scan); });
  add("GPU.Tune" + size,
      [&](auto& s) { run_variant(s, all.problem, Variant::fast_trig, all.best(), 1, kSeedTune, &all.scan); });
  const auto add_ours = [&](const std::string& name, Precision precision, int count) {
    add(name + size, [=, &all](auto& s) {
      run(s, all.problem, ours(Backend::cuda, precision, count), kHardwareTrigonometry, {}, &all.scan);
    });
  };
  add_ours("ours.exact", Precision::exact, 1);
  add_ours("ours.fast", Precision::fast, 1);
  std::string reason;
  if (devices > 1) {
    add(fmt::format("GPU.Multi.{}", devices) + size, [&all, devices](auto& s) {
      run_variant(s, all.problem, Variant::fast_trig, all.best(), devices, kSeedMulti, &all.scan);
    });
    if (numerics::can_connect_devices(&reason)) {
      add_ours(fmt::format("ours.exact.{}", devices), Precision::exact, devices);
      add_ours(fmt::format("ours.fast.{}", devices), Precision::fast, devices);
    } else {
      fmt::print(stderr, "seed_stone: none of ours by several GPUs: {}\n", reason);
    }
  }
  add("ours.pipeline" + size, [&](auto& s) { run_pipeline(s, all.scan, Backend::cuda, kExact); });
  add("ours.pipeline.auto" + size, [&](auto& s) { run_pipeline(s, all.scan, Backend::cuda, kAuto); });
  add("gridded" + size, [&](auto& s) { run_gridded(s, all.scan); });
  const std::string q_size = fmt::format("/gpu/{}^3x{}", 2 * kSeedMatrix, kSeedSamples);
  add("Q/GPU.Tune" + q_size, [&](auto& s) { run_variant(s, all.q, Variant::fast_trig, all.best(), 1, {}, nullptr); });
  add("Q/ours" + q_size, [&](auto& s) { run_ours_q(s, all.q, Backend::cuda); });
  add_gpu_parts(all);
}
#endif

/// Takes "--name=value" out of the arguments.
std::int64_t option(int* argc, char** argv, const std::string& name, std::int64_t value) {
  const std::string start = "--" + name + "=";
  char** end = std::remove_if(argv + 1, argv + *argc, [&](const char* argument) {
    if (std::string(argument).rfind(start, 0) != 0) return false;
    value = std::atoll(argument + start.size());
    return true;
  });
  *argc = static_cast<int>(end - argv);
  return value;
}

int run_all(int argc, char** argv) {
  const std::int64_t matrix = option(&argc, argv, "cpu_matrix", 64), count = option(&argc, argv, "cpu_samples", 8192);
  image_limit = static_cast<double>(option(&argc, argv, "image_limit", 5));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  if (matrix < 4 || matrix > 512 || count < 1 || count > kSeedSamples) {
    fmt::print(stderr, "seed_stone: --cpu_matrix is 4 to 512, --cpu_samples 1 to {}\n", kSeedSamples);
    return 1;
  }
  const Problem small(matrix, count), small_q(2 * matrix, std::max<std::int64_t>(1, count / 8), true);
  // An eighth of the seed's scan at half its matrix: as many samples for each voxel.
  const auto edge = static_cast<int>(matrix);
  const PhantomScan scan(Backend::cpu, edge, kSeedReadouts * edge * edge / (kSeedMatrix * kSeedMatrix),
                         kSeedSamples / kSeedReadouts * edge / kSeedMatrix);
  add_cpu(small, small_q, scan);
  fmt::print(stderr, "{}\n", numerics::describe(Backend::cpu, *bench_resources()));
  std::string reason;
  const bool gpu = numerics::available(Backend::cuda, &reason);
  if (!gpu) fmt::print(stderr, "seed_stone: CPU versions only, there is no usable GPU: {}\n", reason);
#ifdef ECHOTRAIN_HAS_CUDA
  std::unique_ptr<GpuProblems> large;
  if (gpu) {
    fmt::print(stderr, "{}\n", numerics::describe(Backend::cuda, *bench_resources()));
    large = std::make_unique<GpuProblems>();
    add_gpu(*large);
  }
#endif
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace echotrain::seed

int main(int argc, char** argv) { return echotrain::seed::run_all(argc, argv); }
