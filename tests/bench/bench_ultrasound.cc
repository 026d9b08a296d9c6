// Plane-wave ultrasound: f-k migration as the pipeline ultrasound_plane_wave does it, on the CPU and where there is one
// on a GPU, from traces on the host to an image there, and delay and sum of the same traces to the same voxels on the
// same, in one run. On the CPU everything that depends on the geometry only is made beforehand for both; on a GPU delay
// and sum works its delays out. The table at the end has the medians, their ratio, the lateral widths of the four
// simulated points beside the diffraction limit, and how far the GPU's delay and sum is from the CPU's.
//
// The chapter transforms frame n+1 forwards while it transforms frame n back (section 48.5.3, figure 48-7). The cases
// stream/... push a run of frames without waiting between them, and give the time of a frame: to one session, to two
// sessions in turn, each with a stream of its own on the GPU, and to two sessions with a thread each. What overlap of
// the transforms of successive frames could gain is what the second and the third gain over the first.
//
//   bench_ultrasound [Google Benchmark's options]
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "clients/cpp/simulate/ultrasound.h"
#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/mri/ultrasound/plane_wave.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "protocol/data/header.h"
#include "tests/bench/das/das.h"
#include "tests/bench/device_graph.h"
#include "tests/support/bench_resources.h"

namespace echotrain::bench {
namespace {

using numerics::cfloat;

constexpr char kPipeline[] =
    "echotrain: 1\nname: bench\ndescription: f-k migration\npipeline:\n  - echo_traces\n"
    "  - echo_spectrum\n  - stolt_migration\n  - image: {component: complex}\n";
constexpr double kFirstMm = 5;  // depth of the first row

struct Case {
  std::string name;
  client::UltrasoundOptions array;
  int matrix = 251;
  double first_sample_us = 0;
  std::vector<client::Scatterer> points;
  std::vector<cfloat> traces;  // [element, sample]
  std::int64_t samples() const { return static_cast<std::int64_t>(traces.size()) / array.elements; }
  double width_mm() const { return array.elements * array.pitch_mm; }
  double depth_mm() const { return array.depth_mm - kFirstMm; }
  double x(int column) const { return (column - matrix / 2) * width_mm() / matrix; }  // NOLINT: whole columns
  double z(int row) const {
    return (kFirstMm + array.depth_mm) / 2 + (row - matrix / 2) * depth_mm() / matrix;  // NOLINT: whole rows
  }
};

Case make_case(std::string name, double sampling_mhz, double pitch_mm, int matrix) {
  Case c;
  c.name = std::move(name);
  c.array.sampling_mhz = sampling_mhz;
  c.array.pitch_mm = pitch_mm;
  c.matrix = matrix;
  client::SimulateOptions o;
  o.phantom = "points";
  o.ultrasound = c.array;
  c.points = client::scatterers(o);
  c.traces = client::echoes(c.array, c.points, 0);
  c.first_sample_us = client::first_sample_us(c.array);
  return c;
}

protocol::Header header_of(const Case& c) {
  const auto space = [&](const char* name) {
    return fmt::format(
        "<{0}><matrixSize><x>{1}</x><y>{1}</y><z>1</z></matrixSize><fieldOfView_mm><x>{2}</x><y>{3}</y><z>1</z>"
        "</fieldOfView_mm></{0}>",
        name, c.matrix, c.width_mm(), c.depth_mm());
  };
  const auto parsed = protocol::parse_header(
      "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><experimentalConditions><H1resonanceFrequency_Hz>0"
      "</H1resonanceFrequency_Hz></experimentalConditions><encoding>" +
          space("encodedSpace") + space("reconSpace") +
          "<encodingLimits></encodingLimits><trajectory>other</trajectory></encoding></ismrmrdHeader>",
      {});
  if (!parsed) throw std::logic_error(parsed.error().message);
  return *parsed;
}

/// The pipeline, and the images it gave.
class Migration {
 public:
  Migration(const Case& c, numerics::Backend backend)
      : case_(c),
        context_(backend, bench_resources()),
        pipeline_(PipelinePlan::check(config::read_pipeline(kPipeline, "bench.yaml")), context_,
                  {[this](protocol::Image&& image, const ImageTimes&) { last_ = std::move(image); },
                   [](protocol::Level, const std::string&) {}}),
        payload_(protocol::Payload::take(std::vector<cfloat>(c.traces))) {
    pipeline_.start(header_of(c));
  }
  void frame() {
    push();
    wait();
  }
  void wait() { pipeline_.wait(); }
  void push() {
    protocol::Acquisition readout;
    auto& head = readout.head;
    head.version = 1;
    head.number_of_samples = static_cast<std::uint16_t>(case_.samples());
    head.active_channels = head.available_channels = static_cast<std::uint16_t>(case_.array.elements);
    head.sample_time_us = static_cast<float>(1 / case_.array.sampling_mhz);
    head.read_dir[0] = head.phase_dir[1] = 1;
    head.position[1] = static_cast<float>((kFirstMm + case_.array.depth_mm) / 2);
    head.idx.repetition = repetition_++;
    head.flags = 1ull << (ISMRMRD::ISMRMRD_ACQ_LAST_IN_REPETITION - 1);
    head.user_float[1] = static_cast<float>(case_.first_sample_us);
    head.user_float[2] = static_cast<float>(case_.array.pitch_mm);
    head.user_float[3] = static_cast<float>(case_.array.sound_m_per_s);
    head.user_float[4] = static_cast<float>(case_.array.center_mhz);
    readout.data = payload_;
    std::vector<protocol::Acquisition> batch;
    batch.push_back(std::move(readout));
    pipeline_.push(std::move(batch));
  }
  std::vector<cfloat> last() const {
    std::vector<cfloat> pixels(last_.pixels.bytes.size() / sizeof(cfloat));
    last_.pixels.copy_to(pixels.data());
    return pixels;
  }

 private:
  const Case& case_;
  numerics::Context context_;
  protocol::Image last_;
  Pipeline pipeline_;
  protocol::Payload payload_;
  std::uint16_t repetition_ = 0;
};

DasSetting das_setting(const Case& c) {
  DasSetting s;
  s.elements = c.array.elements;
  s.samples = c.samples();
  s.pitch = c.array.pitch_mm;
  s.sampling = c.array.sampling_mhz * 1e6;
  s.center = c.array.center_mhz * 1e6;
  s.sound = c.array.sound_m_per_s * 1e3;
  s.first_sample = c.first_sample_us * 1e-6;
  for (int i = 0; i < c.matrix; ++i) {
    s.x.push_back(c.x(i));
    s.z.push_back(c.z(i));
  }
  return s;
}

/// Full width at half maximum along x at a point [mm].
double lateral_width(const Case& c, const std::vector<cfloat>& image, const client::Scatterer& point) {
  const auto magnitude = [&](int row, int column) {
    return std::abs(
        image[static_cast<std::size_t>(row) * static_cast<std::size_t>(c.matrix) + static_cast<std::size_t>(column)]);
  };
  int row = 0, column = 0;
  for (int i = 0; i < c.matrix; ++i)
    for (int j = 0; j < c.matrix; ++j)
      if (std::hypot(c.x(j) - point.x, c.z(i) - point.z) < 1 && magnitude(i, j) > magnitude(row, column)) {
        row = i;
        column = j;
      }
  const float half = magnitude(row, column) / 2;
  const auto edge = [&](int step) {
    int j = column;
    while (j + step >= 0 && j + step < c.matrix && magnitude(row, j) >= half) j += step;
    const float inner = magnitude(row, j - step), outer = magnitude(row, j);
    return c.x(j) - (c.x(j) - c.x(j - step)) * (half - outer) / (inner - outer);
  };
  return edge(1) - edge(-1);
}

double distance(const std::vector<cfloat>& image, const std::vector<cfloat>& other) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < image.size(); ++i) {
    difference += static_cast<double>(std::norm(image[i] - other[i]));
    size += static_cast<double>(std::norm(other[i]));
  }
  return std::sqrt(difference / size);
}

double diffraction_limit(const Case& c, const client::Scatterer& p) {
  const double half = c.width_mm() / 2, wavelength = c.array.sound_m_per_s / 1000 / c.array.center_mhz;
  const auto sine = [&](double end) { return (end - p.x) / std::hypot(end - p.x, p.z); };
  return 1.207 * wavelength / (sine(half) - sine(-half));
}

std::map<std::string, std::vector<double>> seconds;

/// The time of one frame, of which `work` does `frames`.
void measure(const std::string& name, const std::function<void()>& work, int frames = 1) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [name, work, frames](benchmark::State& state) {
                                 work();
                                 for (auto _ : state) {
                                   const auto begin = std::chrono::steady_clock::now();
                                   work();
                                   const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
                                   state.SetIterationTime(took.count() / frames);
                                   seconds[name].push_back(took.count() / frames);
                                 }
                               })
      ->UseManualTime()
      ->Iterations(1)
      ->Repetitions(21)
      ->ReportAggregatesOnly(true)
      ->Unit(benchmark::kMillisecond);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Sessions that share the frames of a stream.
using Pair = std::array<std::unique_ptr<Migration>, 2>;

void measure_streams(const std::string& name, Pair& sessions) {
  constexpr int kFrames = 32;
  measure(
      "stream/one_session/" + name,
      [&sessions] {
        for (int i = 0; i < kFrames; ++i) sessions[0]->push();
        sessions[0]->wait();
      },
      kFrames);
  measure(
      "stream/two_in_turn/" + name,
      [&sessions] {
        for (int i = 0; i < kFrames; ++i) sessions[static_cast<std::size_t>(i % 2)]->push();
        for (auto& session : sessions) session->wait();
      },
      kFrames);
  measure(
      "stream/two_threads/" + name,
      [&sessions] {
        std::vector<std::thread> threads;
        for (auto& session : sessions)
          threads.emplace_back([&session] {
            for (int i = 0; i < kFrames / 2; ++i) session->push();
            session->wait();
          });
        for (auto& thread : threads) thread.join();
      },
      kFrames);
}

#ifdef ECHOTRAIN_HAS_CUDA
/// The steps of echo_spectrum and stolt_migration for a plane wave along z, on a stream of its own.
class Chain {
 public:
  Chain(const Case& c, const numerics::ContextOptions& options)
      : context_(numerics::Backend::cuda, bench_resources(), options), elements_(c.array.elements) {
    const double pitch = c.array.pitch_mm, sound = c.array.sound_m_per_s * 1e3, sampling = c.array.sampling_mhz * 1e6;
    std::int64_t bins = 1;
    while (bins < 2 * c.samples()) bins *= 2;
    const double step = sampling / static_cast<double>(bins), center = c.array.center_mhz * 1e6;
    const auto count = std::min(bins / 2, static_cast<std::int64_t>(1.5 * center / step));
    band_ = {static_cast<std::int64_t>(0.25 * center / step), 0.25 * center, step};
    std::vector<cfloat> traces(static_cast<std::size_t>(elements_ * bins));
    for (std::int64_t e = 0; e < elements_; ++e)
      std::copy_n(c.traces.begin() + e * c.samples(), c.samples(), traces.begin() + e * bins);
    std::vector<double> places;
    std::vector<cfloat> factors;
    for (std::int64_t i = 0; i < count * columns(); ++i) {
      const double k = (band_.first_hz + static_cast<double>(i / columns()) * step) / sound;
      const double u = std::remainder(static_cast<double>(i % columns()) / static_cast<double>(columns()), 1.0) / pitch;
      const bool kept = std::abs(u) < k;
      places.push_back(kept ? u * c.width_mm() / c.matrix : std::nan(""));
      places.push_back(kept ? (k + std::sqrt(k * k - u * u)) * c.depth_mm() / c.matrix : std::nan(""));
      factors.emplace_back(kept ? 1.0f : 0.0f);
    }
    traces_ = context_.upload<cfloat>({traces.data(), {elements_, 1, bins}});
    spectra_ = context_.allocate<cfloat>({elements_, 1, bins});
    advances_ = context_.zeros<double>({1, elements_});
    samples_ = context_.allocate<cfloat>({1, count, columns()});
    factors_ = context_.upload<cfloat>({factors.data(), {count, columns()}});
    plan_ = numerics::NufftPlan::make(context_, {places.data(), {count * columns(), 2}}, {c.matrix, c.matrix},
                                      {.use = numerics::NufftUse::adjoint});
    image_ = context_.allocate<cfloat>({1, c.matrix, c.matrix});
    context_.synchronize();
  }
  numerics::Context& context() { return context_; }
  void forwards() {
    context_.copy<cfloat>(traces_.cview(), spectra_.view());
    numerics::fft(context_, spectra_.view(), 1, numerics::Direction::forward);
    numerics::take_band(context_, spectra_.cview(), advances_.cview(), band_, samples_.view());
    numerics::fft(context_, samples_.view(), 1, numerics::Direction::forward);
  }
  void back() {
    numerics::multiply(context_, factors_.cview(), samples_.view());
    plan_->adjoint(context_, samples_.cview().reshaped({samples_.size(), 1}), {}, image_.view());
  }

 private:
  std::int64_t columns() const { return 2 * elements_; }

  numerics::Context context_;
  std::int64_t elements_;
  numerics::EchoBand band_;
  numerics::Array<cfloat> traces_, spectra_, samples_, factors_, image_;
  numerics::Array<double> advances_;
  std::shared_ptr<const numerics::NufftPlan> plan_;
};

void measure_device(const Case& c) {
  constexpr int kFrames = 16;
  const auto add = [&c](const std::string& name, const std::function<double()>& run) {
    benchmark::RegisterBenchmark((name + "/" + c.name).c_str(),
                                 [name, run, &c](benchmark::State& state) {
                                   const double took = run();
                                   for (auto _ : state) state.SetIterationTime(took);
                                   seconds[name + "/" + c.name].push_back(took);
                                 })
        ->UseManualTime()
        ->Iterations(1)
        ->Unit(benchmark::kMicrosecond);
  };
  const auto frames = [&c](int lanes) {
    std::vector<std::unique_ptr<Chain>> chains;
    std::vector<numerics::Context*> contexts;
    for (int i = 0; i < lanes; ++i) {
      chains.push_back(std::make_unique<Chain>(c, numerics::ContextOptions{}));
      contexts.push_back(&chains.back()->context());
    }
    return device_seconds_of(contexts,
                             [&] {
                               for (int i = 0; i < kFrames; ++i) {
                                 Chain& chain = *chains[static_cast<std::size_t>(i % lanes)];
                                 chain.forwards();
                                 chain.back();
                               }
                             }) /
           kFrames;
  };
  add("device/one_after_the_other", [frames] { return frames(1); });
  add("device/two_at_a_time", [frames] { return frames(2); });
  add("device/forwards_only", [&c] {
    Chain chain(c, {});
    return device_seconds_of({&chain.context()}, [&] { chain.forwards(); });
  });
}

void print_device(const std::string& name) {
  const auto of = [&name](const char* way) {
    const auto& times = seconds[std::string("device/") + way + "/" + name];
    return times.empty() ? 0.0 : times.back() * 1e6;
  };
  if (of("one_after_the_other") > 0)
    fmt::print("{:<28} a frame on the GPU alone [us]: {:.1f} (forwards {:.1f}), two at a time {:.1f}\n", name,
               of("one_after_the_other"), of("forwards_only"), of("two_at_a_time"));
}
#endif

void print_streams(const std::string& name) {
  const auto of = [&name](const char* way) {
    const auto& times = seconds[std::string("stream/") + way + "/" + name];
    return times.empty() ? 0.0 : median(times) * 1e3;
  };
  if (of("one_session") > 0)
    fmt::print("{:<28} a frame of a stream [ms]: one session {:.3f}, two in turn {:.3f}, two threads {:.3f}\n", name,
               of("one_session"), of("two_in_turn"), of("two_threads"));
}

int main_(int argc, char** argv) {
  const std::vector<Case> cases = {make_case("128x_20MHz_to_251", 20, 0.15, 251),
                                   make_case("128x_20MHz_to_512", 20, 0.15, 512),
                                   make_case("128x_6.67MHz_to_251", 20.0 / 3, 0.15, 251)};
  std::vector<std::unique_ptr<Migration>> migrations, on_gpu;
  const bool gpu = numerics::available(numerics::Backend::cuda);
  std::vector<std::unique_ptr<DelayAndSum>> beamformers;
  std::vector<std::vector<cfloat>> sums, gpu_sums;
  std::map<std::string, Pair> streams;
  numerics::Context context(numerics::Backend::cpu, bench_resources());
#ifdef ECHOTRAIN_HAS_CUDA
  std::unique_ptr<numerics::Context> gpu_context;
  if (gpu) gpu_context = std::make_unique<numerics::Context>(numerics::Backend::cuda, bench_resources());
  std::vector<std::unique_ptr<GpuDelayAndSum>> gpu_beamformers;
  for (const Case& c : cases)
    if (gpu) gpu_beamformers.push_back(std::make_unique<GpuDelayAndSum>(*gpu_context, das_setting(c)));
#endif
  for (const Case& c : cases) {
    migrations.push_back(std::make_unique<Migration>(c, numerics::Backend::cpu));
    if (gpu) on_gpu.push_back(std::make_unique<Migration>(c, numerics::Backend::cuda));
    beamformers.push_back(std::make_unique<DelayAndSum>(context, das_setting(c)));
    sums.emplace_back(static_cast<std::size_t>(c.matrix) * static_cast<std::size_t>(c.matrix));
    gpu_sums.push_back(sums.back());
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    measure("fk_migration/" + cases[i].name, [&, i] { migrations[i]->frame(); });
    if (gpu) measure("fk_migration_cuda/" + cases[i].name, [&, i] { on_gpu[i]->frame(); });
    measure("delay_and_sum/" + cases[i].name, [&, i] {
      const Case& c = cases[i];
      beamformers[i]->image({c.traces.data(), {c.array.elements, c.samples()}}, {sums[i].data(), {c.matrix, c.matrix}});
    });
#ifdef ECHOTRAIN_HAS_CUDA
    if (gpu) {
      measure("delay_and_sum_cuda/" + cases[i].name, [&, i] {
        const Case& c = cases[i];
        gpu_beamformers[i]->image({c.traces.data(), {c.array.elements, c.samples()}},
                                  {gpu_sums[i].data(), {c.matrix, c.matrix}});
      });
      measure_device(cases[i]);
    }
#endif
    for (const auto backend : {numerics::Backend::cpu, numerics::Backend::cuda}) {
      if (!numerics::available(backend)) continue;
      const std::string name = fmt::format("{}/{}", numerics::to_string(backend), cases[i].name);
      Pair& pair = streams[name];
      for (auto& session : pair) session = std::make_unique<Migration>(cases[i], backend);
      measure_streams(name, pair);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  fmt::print("\n{:<22} {:>7} {:>10} {:>14} {:>6}  lateral width at the four points: f-k, delay and sum, limit [mm]\n",
             "case", "samples", "f-k [ms]", "del.+sum [ms]", "ratio");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const double fk = median(seconds["fk_migration/" + c.name]), das = median(seconds["delay_and_sum/" + c.name]);
    if (fk <= 0 || das <= 0) continue;
    fmt::print("{:<22} {:>7} {:>10.2f} {:>14.2f} {:>6.1f} ", c.name, c.samples(), fk * 1e3, das * 1e3, das / fk);
    for (const auto& point : c.points)
      fmt::print(" {:.3f} {:.3f} {:.3f};", lateral_width(c, migrations[i]->last(), point),
                 lateral_width(c, sums[i], point), diffraction_limit(c, point));
    fmt::print("\n");
    const double gpu_fk = median(seconds["fk_migration_cuda/" + c.name]);
    const double gpu_das = median(seconds["delay_and_sum_cuda/" + c.name]);
    if (gpu_fk > 0 && gpu_das > 0)
      fmt::print("{:<22} {:>7} {:>10.3f} {:>14.3f} {:>6.1f}  on the GPU; its delay and sum is {:.1e} from the CPU's\n",
                 c.name, c.samples(), gpu_fk * 1e3, gpu_das * 1e3, gpu_das / gpu_fk, distance(gpu_sums[i], sums[i]));
  }
  for (const auto& [name, sessions] : streams) print_streams(name);
#ifdef ECHOTRAIN_HAS_CUDA
  for (const Case& c : cases) print_device(c.name);
#endif
  return 0;
}

}  // namespace
}  // namespace echotrain::bench

int main(int argc, char** argv) { return echotrain::bench::main_(argc, argv); }
