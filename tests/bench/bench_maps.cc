// The bench measures operations on elements (gadgets/numerics/core/map.cuh), small ones and large ones, on each
// backend: two builds of it say what a change of these operations costs, and whether their results have the same bits.
//   OPERATION/small|large/cpu|cuda
// `digest` is a hash of the first result's bytes, cut to 48 bits: equal digests are equal bits. On a GPU a time is that
// of one operation in a row of many. tests/bench/alternate.py runs two builds by turns.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/layout/rearrange.h"
#include "gadgets/numerics/core/layout/running_mean.h"
#include "gadgets/numerics/inverse/nlinv/frame_median.h"
#include "gadgets/numerics/inverse/solver/regularizer.h"
#include "gadgets/numerics/inverse/sparse/differences.h"
#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"
#include "gadgets/numerics/mri/coils/coil_regions.h"
#include "gadgets/numerics/mri/coils/compression.h"
#include "gadgets/numerics/mri/epi/line_changes.h"
#include "gadgets/numerics/mri/field/unwarp.h"
#include "gadgets/numerics/mri/ultrasound/plane_wave.h"
#include "gadgets/numerics/transforms/partial/partial_fourier.h"
#include "gadgets/numerics/transforms/partial/window.h"
#include "tests/bench/machine.h"
#include "tests/support/bench_resources.h"

namespace echotrain::bench {
namespace {

using numerics::Array;
using numerics::Backend;
using numerics::cdouble;
using numerics::cfloat;
using numerics::Context;
using numerics::Shape;

/// An operation with its data, and the digest of what it leaves.
struct Work {
  std::function<void()> run;
  std::function<std::uint64_t()> digest;
};

/// Data of one case, the same in each run.
struct Data {
  Context& context;
  const bool large;
  std::mt19937 random{1};

  std::int64_t n() const { return large ? 256 : 61; }  // extent of an image
  std::int64_t coils() const { return large ? 16 : 4; }
  Shape images() const { return {coils(), 1, n(), n()}; }

  Array<cfloat> numbers(Shape shape, float size = 1) {
    std::normal_distribution<float> normal(0, size);
    std::vector<cfloat> values(static_cast<std::size_t>(shape.size()));
    for (cfloat& v : values) v = {normal(random), normal(random)};
    return context.upload<cfloat>({values.data(), shape});
  }
  Array<float> reals(Shape shape, float size = 1) {
    std::normal_distribution<float> normal(0, size);
    std::vector<float> values(static_cast<std::size_t>(shape.size()));
    for (float& v : values) v = normal(random);
    return context.upload<float>({values.data(), shape});
  }
  /// Numbers of modulus 1, which leave the size of what they multiply.
  Array<cfloat> phases(Shape shape) {
    std::uniform_real_distribution<float> turns(0, 1);
    std::vector<cfloat> values(static_cast<std::size_t>(shape.size()));
    for (cfloat& v : values) v = std::polar(1.0f, 2 * std::numbers::pi_v<float> * turns(random));
    return context.upload<cfloat>({values.data(), shape});
  }
  template <class T>
  Work work(Array<T> result, std::function<void(numerics::DeviceView<T>)> run) {
    return {[result, run]() mutable { run(result.view()); },
            [result, &context = context]() mutable {
              const auto host = context.download<T>(result.cview());
              std::uint64_t hash = 14695981039346656037ull;  // FNV-1a
              const auto* bytes = reinterpret_cast<const unsigned char*>(host.data());
              for (std::size_t i = 0; i < static_cast<std::size_t>(host.size()) * sizeof(T); ++i)
                hash = (hash ^ bytes[i]) * 1099511628211ull;
              return hash;
            }};
  }
};

using Make = std::function<Work(Data&)>;
struct Case {
  std::string name;
  Make make;
};

Work rearranged(Data& d, const numerics::Rearrangement& how) {
  const auto from = d.numbers(d.images());
  return d.work<cfloat>(d.context.allocate<cfloat>(d.images()),
                        [&d, from, how](auto to) { numerics::rearrange(d.context, from.cview(), how, to); });
}

Work regularized(Data& d, const std::function<std::shared_ptr<const numerics::Regularizer>(const Shape&)>& make) {
  const std::int64_t n = d.large ? 64 : 16;
  const Shape image{n, n, n}, batch{1, n, n, n};
  const auto regularizer = make(image);
  const auto x = d.numbers(batch, 1e-3f);
  return d.work<cfloat>(d.numbers(batch),
                        [&d, regularizer, x](auto y) { regularizer->add(d.context, 1e-3f, x.cview(), y); });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, Make make) { all.push_back({std::move(name), std::move(make)}); };

  add("rearrange_flip", [](Data& d) { return rearranged(d, {{0, 1, 2}, {0, d.n() - 1, d.n() - 1}, {1, -1, -1}}); });
  add("rearrange_turn", [](Data& d) { return rearranged(d, {{0, 2, 1}, {0, 0, 0}, {1, 1, 1}}); });
  add("add_to_mean", [](Data& d) {
    const auto next = d.numbers(d.images());
    return d.work<cfloat>(d.numbers(d.images()),
                          [&d, next](auto mean) { add_to_mean(d.context, next.cview(), 0.2f, mean); });
  });
  add("add_like_frame", [](Data& d) {
    const auto next = d.numbers(d.images());
    auto like = d.context.zeros<numerics::FrameLikeness>({1});
    const std::vector<double> usual{2.0};
    const auto of_frame = d.context.upload<double>({usual.data(), {1}});
    return d.work<cfloat>(d.numbers(d.images()), [&d, next, like, of_frame](auto mean) mutable {
      take_frame(d.context, of_frame.cview(), 8, 0.2f, like.view());
      add_to_mean(d.context, next.cview(), like.cview(), mean);
    });
  });
  add("median_of_5_frames", [](Data& d) {
    std::vector<Array<cfloat>> frames;
    for (int f = 0; f < 5; ++f) frames.push_back(d.numbers({d.n(), d.n()}));
    return d.work<cfloat>(d.context.allocate<cfloat>({d.n(), d.n()}), [&d, frames](auto to) {
      std::vector<numerics::DeviceView<const cfloat>> views;
      for (const auto& frame : frames) views.push_back(frame.cview());
      median_of_frames(d.context, views, to);
    });
  });
  add("unwarp", [](Data& d) {
    const auto from = d.numbers(d.images());
    const auto shift = d.reals({1, d.n(), d.n()}, 2);
    return d.work<cfloat>(d.context.allocate<cfloat>(d.images()),
                          [&d, from, shift](auto to) { unwarp(d.context, from.cview(), shift.cview(), true, to); });
  });
  add("cut_region", [](Data& d) {
    const auto from = d.numbers(d.images());
    const std::int64_t n = d.n() - 6;
    std::array<std::vector<double>, 3> factors;
    factors[0] = {0.7};
    for (std::int64_t i = 0; i < n; ++i) factors[1].push_back(std::cos(0.01 * static_cast<double>(i)));
    factors[2] = factors[1];
    return d.work<cfloat>(d.context.allocate<cfloat>({d.coils(), 1, n, n}), [&d, from, factors](auto to) {
      cut_region(d.context, from.cview(), {0, 3, 2}, factors, to);
    });
  });
  add("unit_maps", [](Data& d) {
    const auto from = d.numbers(d.images());
    return d.work<cfloat>(d.context.allocate<cfloat>({d.coils(), 1, d.n() - 5, d.n() - 6}),
                          [&d, from](auto to) { unit_maps(d.context, from.cview(), to); });
  });
  for (const bool turned : {false, true})
    add(turned ? "change_lines_turned" : "change_lines", [turned](Data& d) {
      const std::int64_t lines = d.n() / 2;
      const auto from = d.numbers({lines, d.coils(), d.n()});
      const auto phases = d.phases({2, d.coils(), d.n()});
      std::vector<numerics::LineChange> changes;
      for (std::int64_t i = 0; i < lines; ++i)
        changes.push_back(
            {static_cast<std::int32_t>(i % 2), turned ? 1 : 0, std::polar(1.0f, 0.1f * static_cast<float>(i))});
      return d.work<cfloat>(d.context.allocate<cfloat>(from.shape()), [&d, from, phases, changes](auto to) {
        change_lines(d.context, {changes.data(), {static_cast<std::int64_t>(changes.size())}}, phases.cview(),
                     from.cview(), to);
      });
    });
  add("take_band", [](Data& d) {
    const std::int64_t elements = d.large ? 128 : 32, waves = d.large ? 5 : 1, bins = d.large ? 2048 : 512;
    const auto spectra = d.numbers({elements, waves, bins});
    std::vector<double> advances;
    for (std::int64_t i = 0; i < waves * elements; ++i) advances.push_back(1e-6 * std::sin(static_cast<double>(i)));
    const auto there = d.context.upload<double>({advances.data(), {waves, elements}});
    return d.work<cfloat>(d.context.allocate<cfloat>({waves, bins / 3, elements + 32}),
                          [&d, spectra, there](auto band) {
                            take_band(d.context, spectra.cview(), there.cview(), {7, 1e6, 5e3}, band);
                          });
  });
  add("multiply", [](Data& d) {
    const auto factors = d.phases(d.images());
    return d.work<cfloat>(d.numbers(d.images()),
                          [&d, factors](auto data) { multiply(d.context, factors.cview(), data); });
  });
  for (const bool magnitudes : {false, true})
    add(magnitudes ? "mean_of_magnitudes" : "mean_of_channels", [magnitudes](Data& d) {
      const auto from = d.numbers(d.images());
      return d.work<cfloat>(d.context.allocate<cfloat>({1, 1, d.n(), d.n()}), [&d, from, magnitudes](auto to) {
        mean_of_channels(d.context, from.cview(), magnitudes, to);
      });
    });
  add("log_compress", [](Data& d) {
    const auto from = d.numbers(d.images());
    return d.work<cfloat>(d.context.allocate<cfloat>(d.images()),
                          [&d, from](auto to) { log_compress(d.context, from.cview(), 3.0f, 60.0f, to); });
  });
  add("multiply_axes", [](Data& d) {
    std::array<std::vector<float>, 3> factors;
    for (std::int64_t i = 0; i < d.n(); ++i) factors[1].push_back(i % 2 == 0 ? 2.0f : 0.5f);
    factors[2] = std::vector<float>(static_cast<std::size_t>(d.n()), 1.0f);
    return d.work<cfloat>(d.numbers(d.images()), [&d, factors](auto data) { multiply_axes(d.context, data, factors); });
  });
  add("homodyne", [](Data& d) {
    return d.work<cfloat>(d.numbers(d.images()), [&d, n = d.n()](auto data) {
      homodyne(d.context, data, {{0, n / 2 - n / 8, 0}, {1, n, n}}, 1);
    });
  });
  add("pocs", [](Data& d) {
    return d.work<cfloat>(d.numbers(d.images()), [&d, n = d.n()](auto data) {
      pocs(d.context, data, {{0, n / 2 - n / 8, 0}, {1, n, n}}, 2, 4);
    });
  });
  for (const bool space : {true, false}) {
    const auto axes = space ? numerics::DifferenceAxes::space() : numerics::DifferenceAxes::time();
    const std::string along = space ? "space" : "time";
    const auto shape = [](const Data& d) { return Shape{d.coils(), d.large ? 8 : 2, d.n() / 2, d.n() / 2}; };
    const auto shapes = [shape, axes](const Data& d) {
      const Shape s = shape(d);
      return Shape{count(axes, s), s[0], s[1], s[2], s[3]};
    };
    add("differences_" + along, [=](Data& d) {
      const auto x = d.numbers(shape(d));
      return d.work<cfloat>(d.context.allocate<cfloat>(shapes(d)),
                            [&d, x, axes](auto to) { differences(d.context, axes, x.cview(), to); });
    });
    add("differences_adjoint_" + along, [=](Data& d) {
      const auto of = d.numbers(shapes(d));
      return d.work<cfloat>(d.context.allocate<cfloat>(shape(d)),
                            [&d, of, axes](auto to) { differences_adjoint(d.context, axes, of.cview(), to); });
    });
  }
  add("tikhonov", [](Data& d) { return regularized(d, numerics::tikhonov); });
  add("smoothness", [](Data& d) {
    return regularized(d, [](const Shape& image) { return numerics::smoothness(image, {2.0, 1.0, 1.5}); });
  });
  add("edge_stencil", [](Data& d) {
    return regularized(d, [&](const Shape& n) { return edge_stencil(d.context, d.reals({3, n[0], n[1], n[2]})); });
  });
  add("stencil_diagonal", [](Data& d) {
    const std::int64_t n = d.large ? 64 : 16;
    const auto regularizer = edge_stencil(d.context, d.reals({3, n, n, n}));
    return d.work<float>(d.context.allocate<float>({n, n, n}),
                         [&d, regularizer](auto to) { regularizer->diagonal(d.context, to); });
  });
  add("root_sum_of_squares", [](Data& d) {
    const auto from = d.numbers(d.images());
    return d.work<cfloat>(d.context.allocate<cfloat>({1, 1, d.n(), d.n()}),
                          [&d, from](auto to) { root_sum_of_squares(d.context, from.cview(), to); });
  });
  for (const bool each : {false, true})
    add(each ? "compress_by_each" : "compress", [each](Data& d) {
      const std::int64_t kept = d.coils() / 2, samples = 2 * d.n() - 3;
      const auto matrix = d.numbers(each ? Shape{kept, d.coils(), samples} : Shape{kept, d.coils()});
      const auto data = d.numbers({d.n() / 4, d.coils(), samples});
      return d.work<cfloat>(d.context.allocate<cfloat>({d.n() / 4, kept, samples}),
                            [&d, matrix, data](auto to) { compress(d.context, matrix.cview(), data.cview(), to); });
    });
  add("add_coil_grams", [](Data& d) {
    const auto data = d.numbers({8, d.coils(), d.n()});
    return d.work<cdouble>(d.context.zeros<cdouble>({d.coils(), d.coils(), d.n()}),
                           [&d, data](auto grams) { add_coil_grams(d.context, data.cview(), grams); });
  });
  for (const bool divide : {false, true})
    add(divide ? "combine_divided" : "combine", [divide](Data& d) {
      const auto maps = d.numbers(d.images()), images = d.numbers(d.images());
      return d.work<cfloat>(d.context.allocate<cfloat>({1, 1, d.n(), d.n()}), [&d, maps, images, divide](auto to) {
        combine(d.context, maps.cview(), images.cview(), to, divide);
      });
    });
  return all;
}

void measure(benchmark::State& state, const Case& what, bool large, Backend backend) {
  Context context(backend, bench_resources());
  Data data{context, large};
  const Work work = what.make(data);
  work.run();
  state.counters["digest"] = static_cast<double>(work.digest() & ((1ull << 48) - 1));
  const int in_a_row = context.cuda() ? 100 : 1;
  while (state.KeepRunningBatch(in_a_row)) {
    for (int i = 0; i < in_a_row; ++i) work.run();
    context.synchronize();
  }
}

}  // namespace
}  // namespace echotrain::bench

int main(int argc, char** argv) {
  using namespace echotrain::bench;
  std::vector<Backend> backends{Backend::cpu};
  if (echotrain::numerics::available(Backend::cuda)) backends.push_back(Backend::cuda);
  for (const Case& what : cases())
    for (const bool large : {false, true})
      for (const Backend backend : backends)
        benchmark::RegisterBenchmark(
            fmt::format("{}/{}/{}", what.name, large ? "large" : "small", to_string(backend)).c_str(),
            [what, large, backend](benchmark::State& state) { measure(state, what, large, backend); })
            ->UseRealTime();
  benchmark::Initialize(&argc, argv);
  add_machine();
  benchmark::RunSpecifiedBenchmarks();
}
