// F^H d and Q of the same samples by every method, with the error of the whole image against float64:
//   fhd/METHOD/DATA/SIZE/BACKEND   from samples on the device to the image there, the NUFFT's plan known. Counters:
//                                  error; plan [ms]; options of the NUFFT
//   q/METHOD/TRAJECTORY/SIZE/...   from coordinates in host memory to Q on the device
// METHOD: exact; nufft/ACCURACY; parts/ACCURACY: each readout gridded as it comes. DATA: random positions and white
// data; koosh: centre-out spokes, whose centre is dense, with white data; head: the same with the k-space of the head
// of Shepp and Logan, which spans orders of magnitude. Coordinates are float32 numbers, as they come over the wire.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "clients/cpp/simulate/subject/phantom.h"
#include "gadgets/numerics/transforms/exact/direct_transform.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"
#include "tests/bench/float64_sums.h"
#include "tests/support/bench_resources.h"

namespace {

using namespace echotrain::numerics;
using echotrain::bench_resources;
using Clock = std::chrono::steady_clock;

struct Problem {
  std::string name;
  std::int64_t n, readouts, per_readout;
  std::vector<double> k;
  std::vector<cfloat> d;
  std::int64_t samples() const { return static_cast<std::int64_t>(d.size()); }
  HostView<const double> coordinates() const { return {k.data(), {samples(), 3}}; }
};

std::vector<double> kooshball(std::int64_t readouts, std::int64_t samples) {
  std::vector<double> k;
  for (std::int64_t r = 0; r < readouts; ++r) {
    const double z = 1 - (2.0 * static_cast<double>(r) + 1) / static_cast<double>(readouts),
                 ring = std::sqrt(1 - z * z), angle = static_cast<double>(r) * std::numbers::pi * (3 - std::sqrt(5.0));
    for (std::int64_t s = 0; s < samples; ++s) {
      const double radius = 0.5 * static_cast<double>(s) / (static_cast<double>(samples) - 0.5);
      for (const double v : {radius * ring * std::cos(angle), radius * ring * std::sin(angle), radius * z})
        k.push_back(static_cast<double>(static_cast<float>(v)));
    }
  }
  return k;
}

Problem make_problem(const std::string& name, std::int64_t n, std::int64_t readouts, std::int64_t per_readout) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> position(-0.5f, 0.5f);
  std::normal_distribution<float> value;
  Problem p{name, n, readouts, per_readout, {}, {}};
  const std::int64_t samples = readouts * per_readout;
  if (name == "random")
    for (std::int64_t i = 0; i < 3 * samples; ++i) p.k.push_back(static_cast<double>(position(random)));
  else
    p.k = kooshball(readouts, per_readout);
  const auto head = echotrain::client::Phantom::shepp_logan(3, static_cast<double>(n));
  for (std::int64_t s = 0; s < samples; ++s) {
    const double* k = p.k.data() + 3 * s;
    p.d.push_back(name == "head" ? cfloat(head.kspace({k[0], k[1], k[2]})) : cfloat(value(random), value(random)));
  }
  return p;
}

const Problem& problem(const std::string& name, std::int64_t n, std::int64_t readouts, std::int64_t per_readout) {
  static std::map<std::pair<std::string, std::int64_t>, Problem> known;
  const auto [found, missing] = known.try_emplace({name, n});
  if (missing) found->second = make_problem(name, n, readouts, per_readout);
  return found->second;
}

/// The planes of one y by which errors are measured: all of an image of up to 64^3, every eighth of larger ones; of
/// lags, whose Q is Hermitian, those around lag 0, where Q is large, and four of the others, which stand for all of
/// these.
struct Line {
  std::int64_t y;
  double weight;
};
std::vector<Line> lines(std::int64_t n, bool lags) {
  std::vector<Line> out;
  for (std::int64_t y = 0; y < n; ++y) {
    if (!lags && (n <= 64 || y % 8 == 3)) out.push_back({y, 1});
    const std::int64_t lag = y - n / 2, every = (n / 2 - 4) / 4;
    if (lags && lag >= 0 && lag < 4) out.push_back({y, 1});
    if (lags && lag >= 4 && (lag - 4) % every == every / 2) out.push_back({y, static_cast<double>(every)});
  }
  return out;
}

/// Relative, L2. `image`: [z, y, x], centred at n/2; lags: in FFT order.
double error_of(const Problem& p, const cfloat* image, bool lags) {
  const std::int64_t n = lags ? 2 * p.n : p.n;
  static std::map<std::tuple<std::string, std::int64_t, bool>, std::vector<std::vector<cdouble>>> known;
  const std::vector<Line> chosen = lines(n, lags);
  const auto [found, missing] = known.try_emplace({lags && p.name == "head" ? "koosh" : p.name, p.n, lags});
  if (missing) {
    std::vector<std::int64_t> numbers;
    for (const Line& line : chosen) numbers.push_back(line.y);
    found->second = echotrain::bench::planes_of_lines(bench_resources()->threads(), p.k,
                                                      lags ? std::vector<cfloat>(p.d.size(), 1.0f) : p.d, n, numbers);
  }
  double error = 0, size = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    for (std::int64_t z = lags ? 1 : 0; z < n; ++z)  // lag -n is 0 by definition
      for (std::int64_t x = lags ? 1 : 0; x < n; ++x) {
        const auto at = [&](std::int64_t index) { return lags ? (index + n / 2) % n : index; };
        const cdouble truth = found->second[i][static_cast<std::size_t>(z * n + x)],
                      got = cdouble(image[(at(z) * n + at(chosen[i].y)) * n + at(x)]);
        error += chosen[i].weight * std::norm(got - truth);
        size += chosen[i].weight * std::norm(truth);
      }
  return std::sqrt(error / size);
}

Shape cube(std::int64_t n) { return {n, n, n}; }

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

struct Method {
  enum class Kind { exact, nufft, parts } kind;
  double accuracy;  ///< of the NUFFT
  NufftOptions options(const Shape& image) const { return options_within(accuracy, image).value(); }
};

void count_options(benchmark::State& state, const NufftOptions& options) {
  state.counters["width"] = options.kernel_width;
  state.counters["oversampling"] = options.oversampling;
}

void fhd(benchmark::State& state, Backend backend, const Problem& p, const Method& method) {
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  const auto d = context.upload<cfloat>({p.d.data(), {p.samples(), 1}});
  auto image = context.allocate<cfloat>({1, p.n, p.n, p.n});
  std::shared_ptr<const NufftPlan> plan;
  if (method.kind != Method::Kind::exact) {
    NufftOptions options = method.options(cube(p.n));
    options.use = NufftUse::adjoint;
    count_options(state, options);
    for (int i = 0; i < 2; ++i) {  // the first tunes
      const auto begin = Clock::now();
      plan = NufftPlan::make(context, p.coordinates(), cube(p.n), options);
      context.synchronize();
      state.counters["plan"] = ms_since(begin);
    }
  }
  const auto run = [&] {
    if (method.kind == Method::Kind::exact) {
      DirectAdjoint sum(context, cube(p.n), 1);
      sum.add(context, p.coordinates(), d.view());
      sum.get(context, image.view());
    } else if (method.kind == Method::Kind::nufft) {
      plan->adjoint(context, d.view(), {}, image.view());
    } else {
      Shape shape{1};
      for (const auto e : plan->grid_shape()) shape.push_back(e);
      auto grid = context.zeros<cfloat>(shape);
      for (std::int64_t r = 0; r < p.readouts; ++r)
        plan->accumulate(context, r * p.per_readout, d.view().part(r * p.per_readout, {p.per_readout, 1}), {}, 1,
                         grid.view());
      plan->to_images(context, grid.view(), image.view());
    }
    context.synchronize();
  };
  for (auto _ : state) run();
  const auto host = context.download<cfloat>(image.view());
  state.counters["error"] = error_of(p, host.data(), false);
}

void q(benchmark::State& state, Backend backend, const Problem& p, const Method& method) {
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  auto lags = context.allocate<cfloat>(cube(2 * p.n));
  const bool exact = method.kind == Method::Kind::exact;
  const NufftOptions options = exact ? NufftOptions() : method.options(lag_image(cube(p.n)));
  if (!exact) count_options(state, options);
  for (auto _ : state) {
    if (exact)
      point_spread(context, p.coordinates(), {}, cube(p.n), VoxelBasis::delta, lags.view());
    else
      point_spread_nufft(context, p.coordinates(), {}, cube(p.n), VoxelBasis::delta, options, lags.view());
    context.synchronize();
  }
  const auto host = context.download<cfloat>(lags.view());
  state.counters["error"] = error_of(p, host.data(), true);
}

}  // namespace

int main(int argc, char** argv) {
  const auto add = [](const std::string& name, auto run, int repetitions) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime()
        ->Iterations(1)
        ->Repetitions(repetitions)
        ->ReportAggregatesOnly(true);
  };
  struct Size {
    std::int64_t n, readouts, per_readout;
  };
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    if (!available(backend)) continue;
    const bool cuda = backend == Backend::cuda;
    for (const Size size : {Size{32, 60, 66}, Size{64, 150, 132}, Size{128, 1078, 264}})
      for (const std::string name : {"random", "koosh", "head"}) {
        const auto make = [=]() -> const Problem& { return problem(name, size.n, size.readouts, size.per_readout); };
        const std::string where = fmt::format("{}/{}^3/{}", name, size.n, to_string(backend));
        std::vector<std::pair<std::string, Method>> methods;
        if (cuda || size.n < 128) methods.push_back({"exact", {Method::Kind::exact, 0}});
        for (const double accuracy : {1e-5, 1.2e-6, 6e-7}) {
          const std::string text = fmt::format("{:g}", accuracy);
          methods.push_back({text, {Method::Kind::nufft, accuracy}});
          if (accuracy == 1.2e-6) methods.push_back({"parts_" + text, {Method::Kind::parts, accuracy}});
        }
        const int repetitions = cuda ? 12 : 2;
        for (const auto& [text, method] : methods) {
          add(
              fmt::format("fhd/{}/{}", text, where),
              [=, method = method](benchmark::State& s) { fhd(s, backend, make(), method); }, repetitions);
          if (method.kind == Method::Kind::parts || name == "head") continue;
          add(
              fmt::format("q/{}/{}", text, where),
              [=, method = method](benchmark::State& s) { q(s, backend, make(), method); }, repetitions);
        }
      }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
