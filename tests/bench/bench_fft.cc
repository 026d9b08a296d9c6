// 2D Fourier transforms of the ten sizes of Table 48-1 of Sumanaweera and Liu, "Medical Image Reconstruction with the
// FFT", GPU Gems 2, 2005, in frames per second, each beside the limit that memory sets: every sample read once and
// written once, at the speed of a copy of large arrays measured in the same run. As in the table, two images are in
// memory and are transformed again and again, in single precision; a frame is one of them. Each figure is the best of
// many runs.
//
// fftw: FFTW, the faster of its modes measured and patient, in place, one thread: the table's fourth column on today's
// CPU. fft: numerics::fft, in place, all threads. gadget: what the gadget `fft` does with a k-space: centred, scaled,
// from one array to another. pipeline: readouts to images, through cartesian_kspace, fft and image. Our cases run on
// the CPU and, where there is one, on a GPU; there cuFFT runs too. On a GPU a run is many transforms in a row, which
// keeps it busy.
//
//   bench_fft [--planning_seconds=60] [Google Benchmark's options]
#include <benchmark/benchmark.h>
#include <fftw3.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "protocol/data/header.h"
#ifdef ECHOTRAIN_HAS_CUDA
#include "tests/bench/bench_fft.h"
#include "tests/support/bench_resources.h"
#endif

namespace {

using namespace echotrain;
using numerics::Backend;
using Clock = std::chrono::steady_clock;

constexpr int kImages = 2;
constexpr int kInARow = 200;  // transforms of the images, on a GPU

struct Size {
  std::int64_t nx, ny;
  std::string name() const { return fmt::format("{}x{}", nx, ny); }
  std::int64_t samples() const { return nx * ny; }
};
const std::vector<Size> kSizes = {{256, 256},  {512, 512},  {2048, 32},   {2048, 64},  {2048, 128},
                                  {2048, 256}, {2048, 512}, {2048, 1024}, {1024, 256}, {1024, 512}};

std::vector<cfloat> random_samples(std::int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<cfloat> out(static_cast<std::size_t>(n));
  for (auto& v : out) v = {normal(random), normal(random)};
  return out;
}

/// Bytes per second, read and written together, of a copy of arrays far larger than caches, by the given threads; the
/// best of several runs.
double host_copy_bytes_per_s(bool all_threads) {
  constexpr std::int64_t kFloats = std::int64_t{1} << 26;
  static std::vector<float> from(kFloats, 1.0f), to(kFloats);
  const auto copy = [&](std::int64_t begin, std::int64_t end) {
    std::copy(from.begin() + begin, from.begin() + end, to.begin() + begin);
  };
  double best = 0;
  for (int round = 0; round < 7; ++round) {
    const auto begin = Clock::now();
    if (all_threads)
      bench_resources()->threads().parallel_for(kFloats, kFloats / 64, copy);
    else
      copy(0, kFloats);
    benchmark::DoNotOptimize(to.data());
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    best = std::max(best, 2 * sizeof(float) * static_cast<double>(kFloats) / seconds.count());
  }
  return best;
}

double copy_bytes_per_s(Backend backend, bool all_threads) {
  static std::map<std::pair<Backend, bool>, double> measured;
  double& value = measured[{backend, all_threads}];
#ifdef ECHOTRAIN_HAS_CUDA
  if (value == 0 && backend == Backend::cuda) value = bench::device_copy_bytes_per_s();
#endif
  if (value == 0) value = host_copy_bytes_per_s(all_threads);
  return value;
}

void report(benchmark::State& state, const Size& size, double frames, double seconds, Backend backend,
            bool all_threads) {
  const double rate = frames / seconds;
  const double limit =
      copy_bytes_per_s(backend, all_threads) / (2.0 * sizeof(cfloat) * static_cast<double>(size.samples()));
  state.counters["frames_per_s"] = rate;
  state.counters["limit_per_s"] = limit;
  state.counters["of_limit"] = rate / limit;
}

template <class Work, class Wait>
void measure(benchmark::State& state, const Size& size, Backend backend, bool all_threads, int frames, const Work& work,
             const Wait& wait) {
  for (int i = 0; i < 3; ++i) work();
  wait();
  std::vector<double> times;
  for (auto _ : state) {
    const auto begin = Clock::now();
    work();
    wait();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    state.SetIterationTime(times.back());
  }
  report(state, size, frames, *std::min_element(times.begin(), times.end()), backend, all_threads);
}

/// `work` transforms the images once; on a GPU kInARow times, as the benchmark of cuFFT does.
template <class Work>
void measure_rows(benchmark::State& state, const Size& size, numerics::Context& compute, const Work& work) {
  const int in_a_row = compute.backend() == Backend::cuda ? kInARow : 1;
  measure(
      state, size, compute.backend(), true, kImages * in_a_row,
      [&] {
        for (int i = 0; i < in_a_row; ++i) work();
      },
      [&] { compute.synchronize(); });
}

double planning_seconds = 60;

/// FFTW's plan of one image, in place: the faster of its measured and its patient one, whose planning is cut off after
/// planning_seconds and can then be the worse.
class FftwPlan {
 public:
  FftwPlan(const Size& size, fftwf_complex* data) {
    const auto ny = static_cast<int>(size.ny), nx = static_cast<int>(size.nx);
    fftwf_set_timelimit(FFTW_NO_TIMELIMIT);
    plan_ = fftwf_plan_dft_2d(ny, nx, data, data, FFTW_BACKWARD, FFTW_MEASURE);
    fftwf_set_timelimit(planning_seconds);
    const fftwf_plan patient = fftwf_plan_dft_2d(ny, nx, data, data, FFTW_BACKWARD, FFTW_PATIENT);
    const bool better = seconds(patient, data) < seconds(plan_, data);
    fftwf_destroy_plan(better ? std::exchange(plan_, patient) : patient);
  }
  FftwPlan(const FftwPlan&) = delete;
  FftwPlan& operator=(const FftwPlan&) = delete;
  ~FftwPlan() { fftwf_destroy_plan(plan_); }
  void run(fftwf_complex* data) const { fftwf_execute_dft(plan_, data, data); }

 private:
  static double seconds(fftwf_plan plan, fftwf_complex* data) {
    double best = 1e9;
    for (int round = 0; round < 20; ++round) {
      const auto begin = Clock::now();
      fftwf_execute_dft(plan, data, data);
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return best;
  }
  fftwf_plan plan_;
};

void fftw(benchmark::State& state, Size size) {
  const auto bytes = static_cast<std::size_t>(kImages * size.samples()) * sizeof(fftwf_complex);
  const std::unique_ptr<fftwf_complex, void (*)(void*)> data(static_cast<fftwf_complex*>(fftwf_malloc(bytes)),
                                                             fftwf_free);
  const auto samples = random_samples(kImages * size.samples());
  const auto fill = [&] { std::copy(samples.begin(), samples.end(), reinterpret_cast<cfloat*>(data.get())); };
  fill();
  const FftwPlan plan(size, data.get());
  fill();  // planning overwrites the images
  measure(
      state, size, Backend::cpu, false, kImages,
      [&] {
        for (int i = 0; i < kImages; ++i) plan.run(data.get() + i * size.samples());
      },
      [] {});
}

void ours(benchmark::State& state, Size size, Backend backend) {
  numerics::Context compute(backend, bench_resources());
  const auto samples = random_samples(kImages * size.samples());
  auto data = compute.upload<cfloat>({samples.data(), {kImages, size.ny, size.nx}});
  measure_rows(state, size, compute, [&] { numerics::fft(compute, data.view(), 2, numerics::Direction::inverse); });
}

void gadget(benchmark::State& state, Size size, Backend backend) {
  numerics::Context compute(backend, bench_resources());
  const auto samples = random_samples(kImages * size.samples());
  const auto data = compute.upload<cfloat>({samples.data(), {kImages, size.ny, size.nx}});
  auto images = compute.allocate<cfloat>({kImages, size.ny, size.nx});
  const float scale = 1.0f / static_cast<float>(size.samples());
  measure_rows(state, size, compute, [&] {
    numerics::centered_fft(compute, data.view(), images.view(), {size.ny, size.nx}, 2, numerics::Direction::inverse,
                           scale);
  });
}

protocol::Header scan_header(const Size& size) {
  const std::string space = fmt::format(
      "<matrixSize><x>{0}</x><y>{1}</y><z>1</z></matrixSize><fieldOfView_mm><x>{0}</x><y>{1}</y><z>5</z></"
      "fieldOfView_mm>",
      size.nx, size.ny);
  const auto header = protocol::parse_header(
      "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><experimentalConditions><H1resonanceFrequency_Hz>1"
      "</H1resonanceFrequency_Hz></experimentalConditions><encoding><encodedSpace>" +
          space + "</encodedSpace><reconSpace>" + space +
          "</reconSpace><encodingLimits></encodingLimits><trajectory>cartesian</trajectory></encoding></ismrmrdHeader>",
      {});
  if (!header) throw std::logic_error(header.error().message);
  return *header;
}

void pipeline(benchmark::State& state, Size size, Backend backend) {
  const auto plan =
      PipelinePlan::check(config::read_pipeline("echotrain: 1\nname: bench\ndescription: A benchmark\npipeline:\n  - "
                                                "cartesian_kspace\n  - fft\n  - image: {component: complex}\n",
                                                "bench.yaml"));
  numerics::Context compute(backend, bench_resources());
  int images = 0;
  Pipeline run(plan, compute,
               {[&](protocol::Image&&, const ImageTimes&) { ++images; }, [](protocol::Level, const std::string&) {}});
  run.start(scan_header(size));
  std::vector<protocol::Acquisition> readouts;
  for (std::int64_t y = 0; y < size.ny; ++y) {
    protocol::Acquisition readout;
    readout.head.version = 1;
    readout.head.number_of_samples = static_cast<std::uint16_t>(size.nx);
    readout.head.active_channels = readout.head.available_channels = 1;
    readout.head.center_sample = static_cast<std::uint16_t>(size.nx / 2);
    readout.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
    if (y + 1 == size.ny) readout.head.flags = 1ull << 7;  // LAST_IN_SLICE
    readout.data = protocol::Payload::take(random_samples(size.nx));
    readouts.push_back(std::move(readout));
  }
  measure(
      state, size, backend, true, 1,
      [&] {
        auto frame = readouts;
        run.push(std::move(frame));
      },
      [&] { run.wait(); });
  if (images == 0) throw std::logic_error("the pipeline gave no images");
}

#ifdef ECHOTRAIN_HAS_CUDA
void cufft(benchmark::State& state, Size size) {
  double best = 1e9;
  for (auto _ : state) {
    const double seconds = bench::cufft_seconds(size.ny, size.nx, kImages, kInARow);
    state.SetIterationTime(seconds * kInARow);
    best = std::min(best, seconds);
  }
  report(state, size, kImages, best, Backend::cuda, true);
}
#endif

template <class Function, class... Arguments>
void add(const std::string& name, const Function& function, Arguments... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), function, arguments...)->UseManualTime()->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Size& size : kSizes) {
    add("fftw/" + size.name(), fftw, size);
    for (const Backend backend : {Backend::cpu, Backend::cuda}) {
      if (!numerics::available(backend)) continue;
      const std::string place = std::string(numerics::to_string(backend)) + "/" + size.name();
      add("fft/" + place, ours, size, backend);
      add("gadget/" + place, gadget, size, backend);
      add("pipeline/" + place, pipeline, size, backend);
    }
#ifdef ECHOTRAIN_HAS_CUDA
    if (numerics::available(Backend::cuda)) add("cufft/cuda/" + size.name(), cufft, size);
#endif
  }
  benchmark::Initialize(&argc, argv);
  constexpr char kPlanning[] = "--planning_seconds=";
  if (argc > 1 && std::string(argv[1]).rfind(kPlanning, 0) == 0) {
    planning_seconds = std::atof(argv[1] + sizeof(kPlanning) - 1);
    argv[1] = argv[0];
    --argc;
    ++argv;
  }
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
