// The bench measures the receive field of a slice of 256 x 256, and the division of images by it.
//   first/prescan|n4/cpu|cuda    from the image (and the prescan of 16 coils and 2 of the body, 32 x 32) to the field
//   there later/cpu|cuda               a further image; on a GPU, of many in a row
// Asked: first 150 ms on two cores and 3 ms on a GPU, later 0.3 ms and 0.03 ms.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/mri/intensity/bias_field.h"
#include "gadgets/numerics/mri/intensity/field_division.h"
#include "gadgets/shared/prescan/receive_field.h"
#include "tests/bench/machine.h"
#include "tests/support/bench_resources.h"

namespace echotrain::bench {
namespace {

using namespace numerics;

constexpr std::int64_t kSize = 256;

/// A disc with structure, brighter on one side, and noise.
Array<cfloat> slice(Context& context) {
  std::mt19937 random(1);
  std::normal_distribution<float> noise(0, 0.02f);
  std::vector<cfloat> values;
  for (std::int64_t y = 0; y < kSize; ++y)
    for (std::int64_t x = 0; x < kSize; ++x) {
      const float u = static_cast<float>(x) / 128 - 1, v = static_cast<float>(y) / 128 - 1;
      const float object = std::hypot(u, v) < 0.8f ? 0.6f + 0.3f * std::tanh(4 * std::sin(9 * u) * std::cos(7 * v)) : 0;
      values.emplace_back(object * std::exp(0.6f * u - 0.4f * v * v) + noise(random), noise(random));
    }
  return context.upload<cfloat>({values.data(), {1, 1, kSize, kSize}});
}

PrescanVolume volume(int coils) {
  PrescanVolume out;
  out.fov_mm = {256, 256, 5};
  out.coils = coils;
  out.n = {1, 32, 32};
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (std::int64_t c = 0; c < coils; ++c)
    for (int y = -16; y < 16; ++y)
      for (int x = -16; x < 16; ++x) {
        const float envelope = std::exp(-0.02f * static_cast<float>(x * x + y * y));
        out.kspace.emplace_back(envelope * normal(random), envelope * normal(random));
      }
  return out;
}

void first_by_prescan(benchmark::State& state, Backend backend) {
  Context context(backend, bench_resources());
  PrescanRecord record;
  record.places.push_back({volume(16), volume(2)});
  std::vector<std::size_t> coils;
  for (std::size_t c = 0; c < 16; ++c) coils.push_back(c);
  for (auto _ : state) {
    HostArray<float> values = context.allocate_host<float>({1, kSize, kSize});
    const ReceiveField field(context, record, coils, {});
    std::string why_not;
    if (!field.at(context.threads(), {{}, {256, 256, 5}, {1, kSize, kSize}}, values.view(), why_not))
      state.SkipWithError(why_not.c_str());
    const Array<float> placed = context.place<float>(values);
    context.synchronize();
  }
}

void first_by_n4(benchmark::State& state, Backend backend) {
  Context context(backend, bench_resources());
  const Array<cfloat> image = slice(context);
  for (auto _ : state) {
    Array<float> magnitude = context.allocate<float>(image.shape());
    component(context, image.cview(), Component::magnitude, 1, magnitude.view());
    Array<float> field = context.allocate<float>({1, kSize, kSize});
    state.counters["iterations"] =
        static_cast<double>(bias_field(context, magnitude.view().reshaped(field.shape()), {}, field.view()).iterations);
    context.synchronize();
  }
}

void later(benchmark::State& state, Backend backend) {
  Context context(backend, bench_resources());
  const Array<cfloat> image = slice(context);
  const std::vector<float> ones(kSize * kSize, 1);
  const Array<float> field = context.upload<float>({ones.data(), {1, kSize, kSize}});
  Array<cfloat> to = context.allocate<cfloat>(image.shape());
  const int in_a_row = context.cuda() ? 100 : 1;
  while (state.KeepRunningBatch(in_a_row)) {
    for (int i = 0; i < in_a_row; ++i) divide_by_field(context, image.cview(), field.cview(), 0.05f, to.view());
    context.synchronize();
  }
}

}  // namespace
}  // namespace echotrain::bench

int main(int argc, char** argv) {
  using namespace echotrain::bench;
  std::vector<Backend> backends{Backend::cpu};
  if (available(Backend::cuda)) backends.push_back(Backend::cuda);
  for (const Backend backend : backends) {
    const std::string on = std::string("/") + to_string(backend);
    const auto add = [&](const char* name, auto what) {
      benchmark::RegisterBenchmark((name + on).c_str(), what, backend)->UseRealTime()->Unit(benchmark::kMillisecond);
    };
    add("first/prescan", first_by_prescan);
    add("first/n4", first_by_n4);
    add("later", later);
  }
  benchmark::Initialize(&argc, argv);
  add_machine();
  benchmark::RunSpecifiedBenchmarks();
}
