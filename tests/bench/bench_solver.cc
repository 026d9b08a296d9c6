// The exact transform, its Toeplitz operator and the solver, on random trajectories and data:
//   exact_fhd/..., exact_q/...   time, relative error against float64 at random voxels, pairs of samples and voxels per
//                                second; the same in fast_fhd/..., fast_q/... (Precision::fast)
// sincos_fhd/... the plain loop that the exact transform is compared with: a sine and a cosine per pair,
//                                vectorised, on all threads
//   toeplitz/..., pcg60/...      one application, and 60 iterations with Tikhonov's prior, Q known
//   pcg4/...                     four of them: what a call takes beside its iterations
// recon/..., after_last/... F^H d and 60 iterations, Q known: all samples at once; or streamed in one second, with
//                                the time from the last readout on
//   recon_auto/...               the same with the F^H d of `fhd: {method: auto, accuracy: 1.2e-6}`, its plan known
//   .../2gpu                     the same by two GPUs; .../half is what one of two would do, alone
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "gadgets/numerics/inverse/solver/pcg.h"
#include "gadgets/numerics/transforms/exact/direct_transform.h"
#include "gadgets/numerics/transforms/exact/split_adjoint.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"
#include "tests/support/bench_resources.h"

/// Computes, in sincos_loop.cc, image[0] = sum_s (re + i im)_s exp(2 pi i k_s . (x, y, z)).
void sum_of_waves(const float* kx, const float* ky, const float* kz, const float* re, const float* im,
                  std::int64_t samples, float x, float y, float z, float* image);

namespace {

using namespace echotrain::numerics;
using echotrain::bench_resources;

constexpr int kCheckedVoxels = 300;

struct Problem {
  std::int64_t n, samples;
  std::vector<double> k;
  std::vector<cfloat> d;
};

Problem make_problem(std::int64_t n, std::int64_t samples) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> position(-0.5, 0.5);
  std::normal_distribution<float> value;
  Problem p{n, samples, {}, {}};
  for (std::int64_t i = 0; i < 3 * samples; ++i) p.k.push_back(position(random));
  for (std::int64_t i = 0; i < samples; ++i) p.d.emplace_back(value(random), value(random));
  return p;
}

HostView<const double> coordinates(const Problem& p) { return {p.k.data(), {p.samples, 3}}; }
Shape cube(std::int64_t n) { return {n, n, n}; }

/// Some voxels of [z, y, x], centred at n/2 or, for lags, in FFT order, and their sums in float64.
struct Truth {
  std::vector<std::size_t> voxels;
  std::vector<cdouble> sums;
};
Truth work_out(const Problem& p, std::int64_t n, bool lags) {
  std::mt19937 random(2);
  Truth truth;
  for (int i = 0; i < kCheckedVoxels; ++i) {
    std::int64_t at[3], index[3];
    for (int a = 0; a < 3; ++a) {
      // The lag -n/2 of a doubled grid is 0 by definition.
      at[a] =
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(lags ? n - 1 : n)) - n / 2 + (lags ? 1 : 0);
      index[a] = lags ? (at[a] + n) % n : at[a] + n / 2;
    }
    cdouble sum = 0;
    for (std::int64_t s = 0; s < p.samples; ++s) {
      const double* k = p.k.data() + 3 * s;
      const double turns =
          k[0] * static_cast<double>(at[2]) + k[1] * static_cast<double>(at[1]) + k[2] * static_cast<double>(at[0]);
      const cdouble value = lags ? cdouble(1) : cdouble(p.d[static_cast<std::size_t>(s)]);
      sum += value * std::polar(1.0, 2 * std::numbers::pi * (turns - std::round(turns)));
    }
    truth.voxels.push_back(static_cast<std::size_t>((index[0] * n + index[1]) * n + index[2]));
    truth.sums.push_back(sum);
  }
  return truth;
}

/// The relative error at those voxels.
double error_of(const Problem& p, const std::vector<cfloat>& got, std::int64_t n, bool lags) {
  static std::map<std::tuple<std::int64_t, std::int64_t, bool>, Truth> known;  // problems of one size are equal
  const auto [found, missing] = known.try_emplace({n, p.samples, lags});
  if (missing) found->second = work_out(p, n, lags);
  const Truth& truth = found->second;
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < truth.sums.size(); ++i) {
    error += std::norm(cdouble(got[truth.voxels[i]]) - truth.sums[i]);
    norm += std::norm(truth.sums[i]);
  }
  return std::sqrt(error / norm);
}

template <class Array>
std::vector<cfloat> on_host(Context& context, const Array& array) {
  const auto host = context.download<cfloat>(array.view());
  return {host.data(), host.data() + host.size()};
}

/// Pairs of a sample and a voxel.
benchmark::Counter pairs_per_second(std::int64_t n, std::int64_t samples) {
  return {static_cast<double>(n * n * n) * static_cast<double>(samples), benchmark::Counter::kIsIterationInvariantRate};
}

void exact_fhd(benchmark::State& state, Backend backend, std::int64_t n, std::int64_t samples, Precision precision,
               ImagePart part = {}) {
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  const Problem p = make_problem(n, samples);
  const auto d = context.upload<cfloat>({p.d.data(), {samples, 1}});
  auto image = context.allocate<cfloat>({1, n, n, n});
  for (auto _ : state) {
    DirectAdjoint sum(context, cube(n), 1, VoxelBasis::delta, precision, part);
    sum.add(context, coordinates(p), d.view());
    sum.get(context, image.view());
    context.synchronize();
  }
  if (part.count > 1) return;
  state.counters["error"] = error_of(p, on_host(context, image), n, false);
  state.counters["pairs"] = pairs_per_second(n, samples);  // four operations per pair
}

void exact_q(benchmark::State& state, Backend backend, std::int64_t n, std::int64_t samples, Precision precision) {
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  const Problem p = make_problem(n, samples);
  auto q = context.allocate<cfloat>(cube(2 * n));
  for (auto _ : state) {
    point_spread(context, coordinates(p), {}, cube(n), VoxelBasis::delta, q.view(), precision);
    context.synchronize();
  }
  state.counters["error"] = error_of(p, on_host(context, q), 2 * n, true);
}

void sincos_fhd(benchmark::State& state, std::int64_t n, std::int64_t samples) {
  Context context(Backend::cpu, bench_resources());
  const Problem p = make_problem(n, samples);
  std::vector<float> parts[5];
  for (std::int64_t s = 0; s < samples; ++s) {
    for (std::size_t a = 0; a < 3; ++a)
      parts[a].push_back(static_cast<float>(p.k[3 * static_cast<std::size_t>(s) + a]));
    parts[3].push_back(p.d[static_cast<std::size_t>(s)].real());
    parts[4].push_back(p.d[static_cast<std::size_t>(s)].imag());
  }
  std::vector<cfloat> image(static_cast<std::size_t>(n * n * n));
  for (auto _ : state)
    context.threads().parallel_for(n * n * n, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v)
        sum_of_waves(parts[0].data(), parts[1].data(), parts[2].data(), parts[3].data(), parts[4].data(), samples,
                     static_cast<float>(v % n - n / 2), static_cast<float>(v / n % n - n / 2),
                     static_cast<float>(v / n / n - n / 2),
                     reinterpret_cast<float*>(&image[static_cast<std::size_t>(v)]));
    });
  state.counters["error"] = error_of(p, image, n, false);
  state.counters["pairs"] = pairs_per_second(n, samples);
}

std::shared_ptr<const ToeplitzOperator> make_operator(Context& context, const Problem& p) {
  auto q = context.allocate<cfloat>(cube(2 * p.n));
  point_spread_nufft(context, coordinates(p), {}, cube(p.n), VoxelBasis::delta,
                     options_for_accuracy(1e-5, cube(2 * p.n)), q.view());
  return std::make_shared<const ToeplitzOperator>(context, q.view());
}

/// One of several applications in a row.
void toeplitz(benchmark::State& state, Backend backend, std::int64_t n, std::int64_t samples) {
  constexpr int kApplications = 10;
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  const Problem p = make_problem(n, samples);
  const auto matrix = make_operator(context, p);
  const std::vector<cfloat> values = make_problem(n, n * n * n).d;
  const auto x = context.upload<cfloat>({values.data(), {1, n, n, n}});
  auto y = context.allocate<cfloat>({1, n, n, n});
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kApplications; ++i) matrix->apply(context, x.view(), y.view());
    context.synchronize();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(seconds.count() / kApplications);
  }
}

void pcg_of(benchmark::State& state, Backend backend, std::int64_t n, std::int64_t samples, int iterations) {
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  const Problem p = make_problem(n, samples);
  const PlainNormal matrix(make_operator(context, p));
  const auto d = context.upload<cfloat>({p.d.data(), {samples, 1}});
  auto b = context.allocate<cfloat>({1, n, n, n}), x = context.allocate<cfloat>({1, n, n, n});
  const auto plan = NufftPlan::make(context, coordinates(p), cube(n), options_for_accuracy(1e-5, cube(n)));
  plan->adjoint(context, d.view(), {}, b.view());
  const auto prior = tikhonov(cube(n));
  PcgOptions options;
  options.iterations = iterations;
  options.tolerance = 0;
  options.lambda = 1e-3;
  options.largest_eigenvalue = largest_eigenvalue(context, matrix);
  double residual = 0;
  for (auto _ : state) {
    context.clear<cfloat>(x.view());
    residual = pcg(context, matrix, prior.get(), b.view(), x.view(), options).items[0].residuals.back();
    context.synchronize();
  }
  state.counters["residual"] = residual;
}

/// Solves for b; returns the residual.
double solve60(Context& context, const LinearOperator& matrix, double largest, DeviceView<const cfloat> b,
               DeviceView<cfloat> x) {
  context.clear<cfloat>(x);
  PcgOptions options;
  options.iterations = 60;
  options.tolerance = 0;
  options.lambda = 1e-3;
  options.largest_eigenvalue = largest;
  const auto result = pcg(context, matrix, tikhonov(matrix.image()).get(), b, x, options);
  context.synchronize();
  return result.items[0].residuals.back();
}

void recon(benchmark::State& state, Backend backend, std::int64_t n, std::int64_t samples, Precision precision) {
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  const Problem p = make_problem(n, samples);
  const PlainNormal matrix(make_operator(context, p));
  const double largest = largest_eigenvalue(context, matrix);
  auto b = context.allocate<cfloat>({1, n, n, n}), x = context.allocate<cfloat>({1, n, n, n});
  auto host = context.allocate_host<cfloat>({samples, 1});
  std::copy(p.d.begin(), p.d.end(), host.data());
  for (auto _ : state) {
    SplitAdjoint sum(context, nullptr, cube(n), 1, VoxelBasis::delta, precision);
    const auto d = context.upload<cfloat>(host.view());
    sum.add(context, coordinates(p), d.view(), {});
    sum.get(context, b.view());
    state.counters["residual"] = solve60(context, matrix, largest, b.cview(), x.view());
  }
}

void recon_auto(benchmark::State& state, Backend backend, std::int64_t n, std::int64_t samples) {
  constexpr double kAccuracy = 1.2e-6;
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  const Problem p = make_problem(n, samples);
  auto q = context.allocate<cfloat>(cube(2 * n));
  point_spread_nufft(context, coordinates(p), {}, cube(n), VoxelBasis::delta,
                     options_within(kAccuracy, lag_image(cube(n))).value(), q.view());
  const PlainNormal matrix(std::make_shared<const ToeplitzOperator>(context, q.view()));
  const double largest = largest_eigenvalue(context, matrix);
  NufftOptions nufft = options_within(kAccuracy, cube(n)).value();
  nufft.use = NufftUse::adjoint;
  const auto plan = NufftPlan::make(context, coordinates(p), cube(n), nufft);
  auto b = context.allocate<cfloat>({1, n, n, n}), x = context.allocate<cfloat>({1, n, n, n});
  auto host = context.allocate_host<cfloat>({samples, 1});
  std::copy(p.d.begin(), p.d.end(), host.data());
  for (auto _ : state) {
    const auto d = context.upload<cfloat>(host.view());
    plan->adjoint(context, d.cview(), {}, b.view());
    state.counters["residual"] = solve60(context, matrix, largest, b.cview(), x.view());
  }
}

/// Readouts come evenly spread over a second; each step adds all that have come by then.
void after_last(benchmark::State& state, Backend backend, std::int64_t n, std::int64_t samples, Precision precision) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kReadouts = 1078;
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  const Problem p = make_problem(n, samples);
  const PlainNormal matrix(make_operator(context, p));
  const double largest = largest_eigenvalue(context, matrix);
  auto b = context.allocate<cfloat>({1, n, n, n}), x = context.allocate<cfloat>({1, n, n, n});
  auto host = context.allocate_host<cfloat>({samples, 1});
  std::copy(p.d.begin(), p.d.end(), host.data());
  for (auto _ : state) {
    SplitAdjoint sum(context, nullptr, cube(n), 1, VoxelBasis::delta, precision);
    const auto begin = Clock::now(), end = begin + std::chrono::seconds(1);
    const std::int64_t each = (samples + kReadouts - 1) / kReadouts;
    for (std::int64_t added = 0; added < samples;) {
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      const std::int64_t here =
          std::min(samples, std::min(kReadouts, static_cast<std::int64_t>(seconds * kReadouts)) * each);
      if (here == added) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        continue;
      }
      const std::int64_t count = here - added;
      const auto d = context.upload<cfloat>(host.view().part(added, {count, 1}));
      sum.add(context, {p.k.data() + 3 * added, {count, 3}}, d.view(), {});
      added = here;
    }
    sum.get(context, b.view());
    state.counters["residual"] = solve60(context, matrix, largest, b.cview(), x.view());
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - end).count());
  }
}

/// same_bits: 1 when the image is that of one GPU. make, add, get: milliseconds of each step.
void exact_fhd_by_two(benchmark::State& state, std::int64_t n, std::int64_t samples, Precision precision) {
  Context context(Backend::cuda, bench_resources(), {.memory_budget = 64ull << 30});
  Team two(context, {1}, 64ull << 30);
  const Problem p = make_problem(n, samples);
  const auto d = context.upload<cfloat>({p.d.data(), {samples, 1}});
  auto image = context.allocate<cfloat>({1, n, n, n});
  using Clock = std::chrono::steady_clock;
  Clock::time_point times[4];
  const auto transform = [&](Team* team) {
    times[0] = Clock::now();
    SplitAdjoint sum(context, team, cube(n), 1, VoxelBasis::delta, precision);
    times[1] = Clock::now();
    sum.add(context, coordinates(p), d.view(), {});
    times[2] = Clock::now();
    sum.get(context, image.view());
    context.synchronize();
    times[3] = Clock::now();
  };
  transform(nullptr);
  const auto alone = on_host(context, image);
  transform(&two);
  state.counters["same_bits"] = on_host(context, image) == alone ? 1 : 0;
  for (auto _ : state) transform(&two);
  const char* const steps[] = {"make", "add", "get"};
  for (int i = 0; i < 3; ++i)
    state.counters[steps[i]] = std::chrono::duration<double, std::milli>(times[i + 1] - times[i]).count();
}

/// 30 iterations with smooth coil maps.
void sense30(benchmark::State& state, Backend backend, std::int64_t n, std::int64_t samples, std::int64_t coils,
             int devices) {
  Context context(backend, bench_resources(), {.memory_budget = 64ull << 30});
  Team team(context, std::vector<int>(static_cast<std::size_t>(devices - 1), 1), 64ull << 30);
  const Problem p = make_problem(n, samples);
  const auto matrix = make_operator(context, p);
  context.synchronize();
  std::vector<cfloat> maps;
  for (std::int64_t c = 0; c < coils; ++c)
    for (std::int64_t v = 0; v < n * n * n; ++v)
      maps.push_back(
          std::polar(0.5f, 0.01f * static_cast<float>((c + 1) * (v % n) + c * (v / n % n) - (c % 3) * (v / n / n))));
  const std::vector<cfloat> right = make_problem(n, n * n * n).d;
  struct Own {
    std::unique_ptr<SenseNormal> sense;
    Array<cfloat> b, x;
  };
  std::vector<Own> own(static_cast<std::size_t>(devices));
  PcgOptions options;
  options.iterations = 30;
  options.tolerance = 0;
  options.lambda = 1e-3;
  const auto for_member = [&](Member& member) {
    Own& mine = own[static_cast<std::size_t>(member.rank())];
    Context& there = member.context;
    const std::int64_t first = member.first(coils), last = member.last(coils);
    if (!mine.sense) {
      mine.sense = std::make_unique<SenseNormal>(
          there, matrix->copy(there), there.upload<cfloat>({maps.data() + first * n * n * n, {last - first, n, n, n}}),
          member.others);
      mine.b = there.upload<cfloat>({right.data(), {1, n, n, n}});
      mine.x = there.allocate<cfloat>({1, n, n, n});
      const double largest = largest_eigenvalue(there, *mine.sense);
      if (member.rank() == 0) options.largest_eigenvalue = largest;
      return;
    }
    there.clear<cfloat>(mine.x.view());
    const auto result = pcg(there, *mine.sense, tikhonov(cube(n)).get(), mine.b.cview(), mine.x.view(), options);
    if (member.rank() == 0) state.counters["residual"] = result.items[0].residuals.back();
  };
  if (devices == 1) {
    Member alone_here{context, alone()};
    for_member(alone_here);
    for (auto _ : state) for_member(alone_here);
  } else {
    team.run(Team::Sums::some, for_member);
    for (auto _ : state) team.run(Team::Sums::some, for_member);
  }
  own.clear();
}

}  // namespace

int main(int argc, char** argv) {
  using benchmark::RegisterBenchmark;
  const auto add = [](const std::string& name, auto run, int repetitions) {
    RegisterBenchmark(name.c_str(), run)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime()
        ->Iterations(1)
        ->Repetitions(repetitions)
        ->ReportAggregatesOnly(true);
  };
  // Adds cases that measure the time themselves.
  const auto add_timed = [](const std::string& name, auto run, int repetitions) {
    RegisterBenchmark(name.c_str(), run)
        ->Unit(benchmark::kMillisecond)
        ->UseManualTime()
        ->Iterations(1)
        ->Repetitions(repetitions)
        ->ReportAggregatesOnly(true);
  };
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    if (!available(backend)) continue;
    const std::string on = to_string(backend);
    const bool cuda = backend == Backend::cuda;
    for (const auto& problem : {std::pair<std::int64_t, std::int64_t>{64, 20000}, {128, 284592}}) {
      const std::int64_t n = problem.first, samples = problem.second;
      const std::string size = fmt::format("{}^3x{}/{}", n, samples, on);
      const bool large = n == 128;
      for (const Precision precision : {Precision::exact, Precision::fast}) {
        if (precision == Precision::fast && !cuda) continue;  // on the CPU both are the same
        const std::string name = precision == Precision::exact ? "exact" : "fast";
        add(
            fmt::format("{}_fhd/{}", name, size),
            [=](benchmark::State& s) { exact_fhd(s, backend, n, samples, precision); },
            cuda    ? 20
            : large ? 3
                    : 9);
        if (cuda)
          add(
              fmt::format("{}_fhd/{}/half", name, size),
              [=](benchmark::State& s) {
                exact_fhd(s, backend, n, samples, precision, {0, 2});
              },
              20);
        if (!large || cuda)
          add(
              fmt::format("{}_q/{}", name, size),
              [=](benchmark::State& s) { exact_q(s, backend, n, samples, precision); }, cuda ? 10 : 3);
      }
      if (!large && !cuda)
        add(
            "sincos_fhd/" + size, [=](benchmark::State& s) { sincos_fhd(s, n, samples); }, 3);
      add_timed(
          "toeplitz/" + size, [=](benchmark::State& s) { toeplitz(s, backend, n, samples); }, 20);
      for (const int iterations : {60, 4})
        add(
            fmt::format("pcg{}/{}", iterations, size),
            [=](benchmark::State& s) { pcg_of(s, backend, n, samples, iterations); }, cuda ? 20 : 3);
    }
  }
  if (available(Backend::cuda)) {
    const std::string size = "128^3x284592/cuda";
    for (const Precision precision : {Precision::exact, Precision::fast}) {
      const std::string name = precision == Precision::exact ? "" : "_fast";
      add(
          "recon" + name + "/" + size, [=](benchmark::State& s) { recon(s, Backend::cuda, 128, 284592, precision); },
          20);
      add_timed(
          "after_last" + name + "/" + size,
          [=](benchmark::State& s) { after_last(s, Backend::cuda, 128, 284592, precision); }, 7);
    }
    add(
        "recon_auto/" + size, [=](benchmark::State& s) { recon_auto(s, Backend::cuda, 128, 284592); }, 20);
    add(
        "sense30_c8/" + size, [=](benchmark::State& s) { sense30(s, Backend::cuda, 128, 284592, 8, 1); }, 10);
    std::string reason;
    if (device_count() >= 2 && can_connect_devices(&reason)) {
      for (const Precision precision : {Precision::exact, Precision::fast})
        add(
            std::string(precision == Precision::exact ? "exact" : "fast") + "_fhd/" + size + "/2gpu",
            [=](benchmark::State& s) { exact_fhd_by_two(s, 128, 284592, precision); }, 20);
      add(
          "sense30_c8/" + size + "/2gpu", [=](benchmark::State& s) { sense30(s, Backend::cuda, 128, 284592, 8, 2); },
          10);
    } else if (device_count() >= 2) {
      fmt::print("no rows of two GPUs: {}\n", reason);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
