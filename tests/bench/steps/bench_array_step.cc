// The time that a Python function on arrays costs beyond its own: k-space of 16 coils and 256^2, y = 2 x.
//
//   bench_array_step PYTHON MODULES [FRAMES]
//
// MODULES: a folder with modules/double.py of this folder and, unless PYTHON has it, the package echotrain. `in_place`
// writes to item.empty(); `plain` gives an array that numpy makes. The function's time is that of the computation
// alone, taken in its process. `upstream`: the k-space was made in the memory that the step lends, as cartesian_kspace
// does; else it is copied.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "gadgets/shared/program/item_memory.h"
#include "gadgets/steps/arrays/array_step.h"
#include "tests/support/resources.h"

namespace {

using namespace echotrain;
using Clock = std::chrono::steady_clock;

struct Times {
  std::vector<double> function_ms, beyond_ms;
};

double part(std::vector<double> values, double of) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(of * static_cast<double>(values.size())))];
}

Times run(const StepSettings& settings, const std::string& function, bool upstream, int frames) {
  auto resources = test_resources();
  resources->get<StepSettings>() = settings;
  numerics::Context compute(numerics::Backend::cpu, resources);
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel,
            [](protocol::Level, const std::string& text) { fmt::print(stderr, "{}\n", text); });
  ArrayStep<KSpace, KSpace> step({.module = "double", .function = function, .takes = "KSpace", .gives = "KSpace"});
  step.start({}, scan);
  Times times;
  constexpr int kWarm = 20;
  for (int i = 0; i < kWarm + frames; ++i) {
    const numerics::Shape shape{16, 1, 256, 256};
    KSpace kspace{std::make_shared<Frame>(), {}, {1, 256, 256}, {1, 256, 256}, nullptr, nullptr};
    kspace.data = upstream ? allocate_item<cfloat>(compute, shape) : compute.allocate<cfloat>(shape);
    std::fill_n(kspace.data.data(), shape.size(), cfloat(1, static_cast<float>(i)));
    const auto begin = Clock::now();
    step.process(std::move(kspace), [&](KSpace&& out) {
      const double all = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
      if (out.data.data()[shape.size() - 1] != cfloat(2, static_cast<float>(2 * i))) std::abort();
      if (i < kWarm) return;
      times.function_ms.push_back(std::stod(out.frame->notes.at("ns")) * 1e-6);
      times.beyond_ms.push_back(all - times.function_ms.back());
    });
  }
  step.finish(End::complete, [](KSpace&&) {});
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return fmt::print(stderr, "usage: bench_array_step PYTHON MODULES [FRAMES]\n"), 2;
  StepSettings settings;
  settings.python = argv[1];
  settings.modules = argv[2];
  const int frames = argc > 3 ? std::atoi(argv[3]) : 500;
  fmt::print("{:10} {:10} {:>14} {:>12} {:>12}   [ms]\n", "result", "k-space", "function p50", "beyond p50", "p99");
  for (const char* function : {"in_place", "plain"})
    for (const bool upstream : {true, false}) {
      const Times times = run(settings, function, upstream, frames);
      fmt::print("{:10} {:10} {:14.3f} {:12.3f} {:12.3f}\n", function, upstream ? "upstream" : "copied",
                 part(times.function_ms, 0.5), part(times.beyond_ms, 0.5), part(times.beyond_ms, 0.99));
    }
  return 0;
}
