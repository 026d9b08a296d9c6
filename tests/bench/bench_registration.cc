// The bench measures registration of breathing: 30 images and one image of 192 x 160 to one reference, with the
// endpoint error in the body beside the time.
//   MOTION/IMAGES/cpu|cuda
//   --images FILE: only writes the image and its reference, float32, for peers/registration_by_simpleitk.py
// On a GPU a time is that of one call in a row of many.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/numerics/mri/registration/registration.h"
#include "tests/bench/machine.h"
#include "tests/support/bench_resources.h"
#include "tests/support/moving_torso.h"

namespace echotrain::bench {
namespace {

using namespace numerics;
using testing::MovingTorso;

constexpr std::int64_t kNy = MovingTorso::kNy, kNx = MovingTorso::kNx, kSize = kNy * kNx;

/// One of some images that are displaced by up to 8 voxels, the last one most.
std::vector<float> moving_image(std::int64_t image, std::int64_t images) {
  const double peak = 8 * static_cast<double>(image + 1) / static_cast<double>(images);
  return testing::torso_image(MovingTorso::breathing(peak), 20, static_cast<unsigned>(image));
}
std::vector<float> reference_image() { return testing::torso_image({}, 20, 99); }

/// Medians and 95th percentiles, over the voxels of the body in the last image, of which the motion is the largest.
void add_errors(benchmark::State& state, Context& context, const Array<float>& fields, std::int64_t images) {
  const auto host = context.download<float>(fields.cview());
  const float* last = host.data() + 2 * (images - 1) * kSize;
  const auto truth = MovingTorso::breathing(8);
  std::vector<double> errors;
  for (std::int64_t i = 0; i < kSize; ++i) {
    const auto x = static_cast<double>(i % kNx), y = static_cast<double>(i / kNx);
    if (MovingTorso::inside(x, y, 80, 96, 68, 86) < 0.5) continue;
    // Images are displaced and the reference is not: where an image moves by u(p), the field is -u(p + field).
    const double fx = static_cast<double>(last[i]), fy = static_cast<double>(last[kSize + i]);
    const auto u = truth(x + fx, y + fy);
    errors.push_back(std::hypot(fx + u.x, fy + u.y));
  }
  std::sort(errors.begin(), errors.end());
  state.counters["median_error"] = errors[errors.size() / 2];
  state.counters["error_95"] = errors[errors.size() * 95 / 100];
}

void measure(benchmark::State& state, Motion motion, std::int64_t images, Backend backend) {
  Context context(backend, bench_resources());
  std::vector<float> values;
  for (std::int64_t i = 0; i < images; ++i) {
    const std::vector<float> one = moving_image(i, images);
    values.insert(values.end(), one.begin(), one.end());
  }
  const std::vector<float> still = reference_image();
  const auto from = context.upload<float>({values.data(), {images, kNy, kNx}});
  const auto reference = context.upload<float>({still.data(), {kNy, kNx}});
  auto fields = context.allocate<float>({images, 2, kNy, kNx});
  const int in_a_row = context.cuda() ? 20 : 1;
  const auto run = [&] {
    register_images(context, from.cview(), reference.cview(), {.motion = motion}, fields.view());
  };
  run();
  context.synchronize();
  while (state.KeepRunningBatch(in_a_row)) {
    for (int i = 0; i < in_a_row; ++i) run();
    context.synchronize();
  }
  if (motion != Motion::rigid) add_errors(state, context, fields, images);
}

}  // namespace
}  // namespace echotrain::bench

int main(int argc, char** argv) {
  using namespace echotrain::bench;
  if (argc == 3 && std::string(argv[1]) == "--images") {
    std::ofstream file(argv[2], std::ios::binary);
    for (const auto& image : {moving_image(0, 1), reference_image()})
      file.write(reinterpret_cast<const char*>(image.data()),
                 static_cast<std::streamsize>(image.size() * sizeof(float)));
    return file.flush() ? 0 : 1;
  }
  std::vector<Backend> backends{Backend::cpu};
  if (echotrain::numerics::available(Backend::cuda)) backends.push_back(Backend::cuda);
  const std::pair<const char*, Motion> motions[] = {
      {"rigid", Motion::rigid}, {"fast", Motion::fast}, {"robust", Motion::robust}};
  for (const auto& [name, motion] : motions)
    for (const std::int64_t images : {1, 30})
      for (const Backend backend : backends)
        benchmark::RegisterBenchmark(
            fmt::format("{}/{}/{}", name, images, to_string(backend)).c_str(),
            [motion = motion, images, backend](benchmark::State& state) { measure(state, motion, images, backend); })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  add_machine();
  benchmark::RunSpecifiedBenchmarks();
}
