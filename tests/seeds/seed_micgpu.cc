// The seed's own table, reproduced: the sum of 4M numbers by kernels 1, 2, 3 and 7, beside CUB, the product's reduction
// service (numerics::sum, float64 sums) and what reading the numbers once takes at the bandwidth of a device copy; and
// its Sobel filter from global, texture and shared memory, beside the product's (numerics::sobel, root of the sum of
// squares). CPU cases run everywhere: the document's loops by one thread, and the product's by all.
// - `error`: of sums, relative, against a sum with 64 bits of mantissa; of pictures, the relative root mean square
// against
//   float64. Cases on ints and bytes are exact: 0.
// - `limit_us`: the bytes that must move, over the bandwidth measured in this run. `over_limit`: the time over it.
// - `speedup_step`: over the row before, as in the document. `seed_us`, `seed_gb_s`: what the document reports for 2^22
//   ints; it names no GPU. For Sobel's operator it reports no times.
// Differences from the document: it gives only the name of kernel 7 and the paragraphs around it; sums go down to one
// number on the GPU; inputs are taken in turn from eight copies, more than the cache holds; borders of pictures are
// replicated.
#include "tests/seeds/seed_micgpu.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/mri/images/sobel.h"
#include "tests/support/bench_resources.h"

namespace echotrain::seed {
namespace {

using numerics::Backend;
using numerics::Context;
using numerics::DeviceView;

constexpr std::int64_t kPixels = std::int64_t{kEdge} * kEdge;

struct Inputs {
  std::vector<std::int32_t> ints;
  std::vector<float> floats;
  std::vector<std::uint8_t> bytes;
  std::vector<float> picture;  // bytes as floats
  double int_sum = 0;
  long double float_sum = 0;
  std::vector<double> absolutes, roots;  // |gx| + |gy| and sqrt(gx^2 + gy^2) of the picture

  Inputs() {
    std::mt19937 random(2011);
    std::uniform_int_distribution<int> digit(0, 9), grey(0, 255);
    std::uniform_real_distribution<float> share(0, 1);
    for (std::int64_t i = 0; i < kNumbers; ++i) {
      ints.push_back(digit(random));
      floats.push_back(share(random));
      int_sum += ints.back();
      float_sum += floats.back();
    }
    for (std::int64_t i = 0; i < kPixels; ++i) bytes.push_back(static_cast<std::uint8_t>(grey(random)));
    picture.assign(bytes.begin(), bytes.end());
    const auto at = [this](int y, int x) {
      return static_cast<double>(
          bytes[static_cast<std::size_t>(std::clamp(y, 0, kEdge - 1)) * kEdge + std::clamp(x, 0, kEdge - 1)]);
    };
    for (int y = 0; y < kEdge; ++y)
      for (int x = 0; x < kEdge; ++x) {
        double across = 0, along = 0;
        for (int d = -1; d <= 1; ++d) {
          across += (2 - std::abs(d)) * (at(y + d, x + 1) - at(y + d, x - 1));
          along += (2 - std::abs(d)) * (at(y + 1, x + d) - at(y - 1, x + d));
        }
        absolutes.push_back(std::abs(across) + std::abs(along));
        roots.push_back(std::hypot(across, along) / 8);  // the product's stencils are averages
      }
  }
};

double relative_error(double got, long double truth) {
  return static_cast<double>(std::fabs((static_cast<long double>(got) - truth) / truth));
}

/// `got` against `truth`, cut at `most`.
template <class Pixel>
double picture_error(const std::vector<Pixel>& got, const std::vector<double>& truth, double most) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double right = std::min(truth[i], most), d = static_cast<double>(got[i]) - right;
    difference += d * d;
    size += right * right;
  }
  return std::sqrt(difference / size);
}

/// Median seconds of 11 runs.
double cpu_seconds_of(const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = -1; i < 11; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i >= 0) seconds.push_back(took.count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// --- the document's loops

std::int32_t plain_sum(const std::vector<std::int32_t>& v) {
  std::int32_t sum = 0;
  for (const std::int32_t value : v) sum += value;
  return sum;
}

float plain_sum(const std::vector<float>& v) {
  float sum = 0;
  for (const float value : v) sum += value;
  return sum;
}

void plain_sobel(const std::vector<float>& image, std::vector<float>& edge) {
  constexpr float kAcross[9] = {1, 0, -1, 2, 0, -2, 1, 0, -1}, kAlong[9] = {1, 2, 1, 0, 0, 0, -1, -2, -1};
  for (int y = 0; y < kEdge; ++y)
    for (int x = 0; x < kEdge; ++x) {
      float across = 0, along = 0;
      for (int n = -1; n <= 1; ++n)
        for (int m = -1; m <= 1; ++m) {
          const int row = std::clamp(y + n, 0, kEdge - 1), column = std::clamp(x + m, 0, kEdge - 1);
          const float value = image[static_cast<std::size_t>(row) * kEdge + static_cast<std::size_t>(column)];
          across += value * kAcross[(n + 1) * 3 + m + 1];
          along += value * kAlong[(n + 1) * 3 + m + 1];
        }
      edge[static_cast<std::size_t>(y) * kEdge + static_cast<std::size_t>(x)] = std::abs(across) + std::abs(along);
    }
}

// --- cases

struct Row {
  std::string name;
  double seconds = 0, error = 0;
  double bytes = 0;         ///< that must move, on a GPU
  double seed_seconds = 0;  ///< as the document reports
};

/// Cases run in order; a row's step is over the one before it of the same area.
struct Table {
  Inputs in;
  double bandwidth = 0;
  std::vector<Row> rows;
};

void add(Table& table, const Row& what, const std::function<Row()>& run) {
  benchmark::RegisterBenchmark(
      what.name.c_str(),
      [&table, what, run](benchmark::State& state) {
        Row row = run();
        for (auto _ : state) state.SetIterationTime(row.seconds);
        state.counters["error"] = row.error;
        const auto area = [](const std::string& name) { return name.substr(0, name.rfind('/')); };
        if (!table.rows.empty() && area(table.rows.back().name) == area(what.name))
          state.counters["speedup_step"] = table.rows.back().seconds / row.seconds;
        if (what.bytes > 0) {
          const double limit = what.bytes / table.bandwidth;
          state.counters["limit_us"] = limit * 1e6;
          state.counters["over_limit"] = row.seconds / limit;
          state.counters["gb_s"] = what.bytes / row.seconds / 1e9;
        }
        if (what.seed_seconds > 0) {
          state.counters["seed_us"] = what.seed_seconds * 1e6;
          state.counters["seed_gb_s"] = static_cast<double>(kNumbers) * 4 / what.seed_seconds / 1e9;
        }
        row.name = what.name;
        table.rows.push_back(row);
      })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

void add_cpu(Table& table) {
  const auto context = std::make_shared<Context>(Backend::cpu, bench_resources());
  const Inputs& in = table.in;
  add(table, {.name = "cpu/sum_ints/plain_loop"}, [&in] {
    std::int32_t sum = 0;
    const double seconds = cpu_seconds_of([&] {
      sum = plain_sum(in.ints);
      benchmark::ClobberMemory();
    });
    return Row{.seconds = seconds, .error = relative_error(sum, static_cast<long double>(in.int_sum))};
  });
  add(table, {.name = "cpu/sum_floats/plain_loop"}, [&in] {
    float sum = 0;
    const double seconds = cpu_seconds_of([&] {
      sum = plain_sum(in.floats);
      benchmark::ClobberMemory();
    });
    return Row{.seconds = seconds, .error = relative_error(static_cast<double>(sum), in.float_sum)};
  });
  add(table, {.name = "cpu/sum_floats/ours"}, [&in, context] {
    double sum = 0;
    const double seconds =
        cpu_seconds_of([&] { sum = numerics::sum(*context, DeviceView<const float>(in.floats.data(), {kNumbers})); });
    return Row{.seconds = seconds, .error = relative_error(sum, in.float_sum)};
  });
  add(table, {.name = "cpu/sobel/plain_loop"}, [&in] {
    std::vector<float> edge(static_cast<std::size_t>(kPixels));
    const double seconds = cpu_seconds_of([&] { plain_sobel(in.picture, edge); });
    return Row{.seconds = seconds, .error = picture_error(edge, in.absolutes, INFINITY)};
  });
  add(table, {.name = "cpu/sobel/ours"}, [&in, context] {
    std::vector<float> edge(static_cast<std::size_t>(kPixels));
    const numerics::Shape shape{1, kEdge, kEdge};
    const double seconds = cpu_seconds_of([&] {
      numerics::sobel(*context, DeviceView<const float>(in.picture.data(), shape),
                      DeviceView<float>(edge.data(), shape));
    });
    return Row{.seconds = seconds, .error = picture_error(edge, in.roots, INFINITY)};
  });
}

#ifdef ECHOTRAIN_HAS_CUDA
struct Kernel {
  const char* name;
  Reduction which;
  double seed_seconds;
};
constexpr Kernel kKernels[] = {
    {"one_thread", Reduction::one_thread, 0},     {"kernel_1", Reduction::divergent, 8.054e-3},
    {"kernel_2", Reduction::strided, 3.456e-3},   {"kernel_3", Reduction::sequential, 1.722e-3},
    {"kernel_7", Reduction::several, 0.268e-3},   {"cub_ints", Reduction::cub_ints, 0},
    {"cub_floats_fp32", Reduction::cub_floats, 0}};

template <class Pixel>
void add_pictures(Table& table, const std::shared_ptr<Context>& context, const std::string& type,
                  const std::vector<Pixel>& pixels, double most) {
  const auto picture = std::make_shared<GpuPicture<Pixel>>(*context, pixels);
  const double bytes = 2.0 * kPixels * sizeof(Pixel);
  for (const auto& [name, memory] : {std::pair<const char*, SobelMemory>{"global", SobelMemory::global},
                                     {"texture", SobelMemory::texture},
                                     {"shared", SobelMemory::shared}}) {
    const SobelMemory which = memory;
    add(table, {.name = "gpu/sobel_" + type + "/" + name, .bytes = bytes}, [&table, context, picture, which, most] {
      const double seconds = gpu_seconds_of(*context, [&](int copy) { picture->run(which, copy); });
      return Row{.seconds = seconds, .error = picture_error(picture->result(), table.in.absolutes, most)};
    });
  }
  if constexpr (std::is_same_v<Pixel, float>) {
    add(table, {.name = "gpu/sobel_" + type + "/ours", .bytes = bytes}, [&table, context, picture] {
      numerics::Array<float> edge = context->allocate<float>({1, kEdge, kEdge});
      const double seconds =
          gpu_seconds_of(*context, [&](int copy) { numerics::sobel(*context, picture->pixels(copy), edge.view()); });
      const numerics::HostArray<float> host = context->download<float>(edge.cview());
      const std::vector<float> got(host.data(), host.data() + host.size());
      return Row{.seconds = seconds, .error = picture_error(got, table.in.roots, INFINITY)};
    });
  }
}

void add_gpu(Table& table) {
  const auto context = std::make_shared<Context>(Backend::cuda, bench_resources());
  table.bandwidth = gpu_bandwidth(*context);
  const auto numbers = std::make_shared<GpuNumbers>(*context, table.in.ints, table.in.floats);
  constexpr double kBytes = 4.0 * kNumbers;
  for (const Kernel& kernel : kKernels)
    add(table, {.name = std::string("gpu/sum/") + kernel.name, .bytes = kBytes, .seed_seconds = kernel.seed_seconds},
        [&table, context, numbers, kernel] {
          const double seconds = gpu_seconds_of(*context, [&](int copy) { numbers->run(kernel.which, copy); });
          const long double truth =
              kernel.which == Reduction::cub_floats ? table.in.float_sum : static_cast<long double>(table.in.int_sum);
          return Row{.seconds = seconds, .error = relative_error(numbers->result(kernel.which), truth)};
        });
  add(table, {.name = "gpu/sum/ours_floats_fp64", .bytes = kBytes}, [&table, context, numbers] {
    numerics::Array<double> sum = context->allocate<double>({1});
    const double seconds =
        gpu_seconds_of(*context, [&](int copy) { numerics::sum(*context, numbers->floats(copy), sum.view()); });
    return Row{.seconds = seconds,
               .error = relative_error(context->download<double>(sum.cview()).data()[0], table.in.float_sum)};
  });
  add_pictures(table, context, "bytes", table.in.bytes, 255);
  add_pictures(table, context, "floats", table.in.picture, INFINITY);
}
#endif

int run_all(int argc, char** argv) {
  Table table;
  add_cpu(table);
#ifdef ECHOTRAIN_HAS_CUDA
  if (numerics::available(Backend::cuda)) add_gpu(table);
#endif
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  fmt::print("{}\n", numerics::describe(Backend::cpu, *bench_resources()));
  if (table.bandwidth > 0)
    fmt::print("{}, device copy {:.2f} TB/s\n", numerics::describe(Backend::cuda, *bench_resources()),
               table.bandwidth / 1e12);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace echotrain::seed

int main(int argc, char** argv) { return echotrain::seed::run_all(argc, argv); }
