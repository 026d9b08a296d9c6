#include "tests/bench/nufft/nufft_from_host.h"

#include <cmath>
#include <numeric>
#include <semaphore>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/mri/coils/coil.h"
#include "tests/bench/nufft/nufft_copy_coils.h"
#include "tests/bench/timing.h"
#include "tests/support/bench_resources.h"

namespace echotrain::bench {
namespace {

using namespace numerics;

constexpr int kRepetitions = 20, kParts = 16;

/// Everything of one scan, on two streams: `link` copies readouts in, `compute` does the rest.
class Scan {
 public:
  Scan(const NufftCase& which, std::int64_t readouts, Backend backend)
      : link_(backend, bench_resources(), {.memory_budget = 64ull << 30}),
        compute_(backend, bench_resources(), {.memory_budget = 64ull << 30}),
        coils_(which.coils),
        readouts_(readouts) {
    const std::vector<double> k = which.trajectory();
    const auto dims = static_cast<std::int64_t>(which.image.rank());
    count_ = static_cast<std::int64_t>(k.size()) / dims;
    per_readout_ = count_ / readouts;
    plan_ = NufftPlan::make(compute_, {k.data(), {count_, dims}}, which.image, which.options);
    const auto data = nufft_data(which, k, NufftData::white, compute_.threads());
    reference_samples_ = compute_.upload<cfloat>({data.data(), {count_, coils_}});
    raw_ = link_.allocate_host<cfloat>({readouts, coils_, per_readout_});
    for (std::int64_t r = 0; r < readouts; ++r)
      for (std::int64_t c = 0; c < coils_; ++c)
        for (std::int64_t s = 0; s < per_readout_; ++s)
          raw_.data()[(r * coils_ + c) * per_readout_ + s] =
              data[static_cast<std::size_t>((r * per_readout_ + s) * coils_ + c)];
    std::vector<float> weights;
    for (std::int64_t s = 0; s < count_; ++s) {
      double square = 0;
      for (std::int64_t a = 0; a < dims; ++a) {
        const double component = k[static_cast<std::size_t>(s * dims + a)];
        square += component * component;
      }
      weights.push_back(static_cast<float>(std::pow(square, 0.5 * static_cast<double>(dims - 1))));
    }
    weights_ = compute_.upload<float>({weights.data(), {count_}});
    arrived_ = link_.allocate<cfloat>({readouts, coils_, per_readout_});
    samples_ = compute_.allocate<cfloat>({count_, coils_});
    Shape grids{coils_}, images{coils_}, image{1};
    for (const auto n : plan_->grid_shape()) grids.push_back(n);
    for (const auto n : which.image) images.push_back(n), image.push_back(n);
    grid_ = compute_.allocate<cfloat>(grids);
    images_ = compute_.allocate<cfloat>(images);
    combined_ = compute_.allocate<cfloat>(image);
    magnitude_ = compute_.allocate<float>(image);
    result_ = compute_.allocate_host<float>(image);
    link_.synchronize();
    compute_.synchronize();
  }

  void upload() {
    link_.copy<cfloat>(raw_.cview(), arrived_.view());
    link_.synchronize();
  }
  /// Goes from the readouts in host memory to the magnitudes in host memory.
  void reconstruct(int parts, bool as_they_come) {
    for (int part = 0; part < parts; ++part) {
      const auto [begin, shape] = readouts_of(part, parts);
      const std::int64_t offset = begin * coils_ * per_readout_;
      link_.copy<cfloat>(raw_.cview().part(offset, shape), arrived_.view().part(offset, shape));
      link_.on_complete([this] { there_.release(); });
    }
    if (as_they_come) compute_.clear(grid_.view());
    for (int part = 0; part < parts; ++part) {
      there_.acquire();
      const auto [begin, shape] = readouts_of(part, parts);
      const std::int64_t first = begin * per_readout_, count = shape[0] * per_readout_;
      to_sample_major(compute_, arrived_.cview().part(first * coils_, shape), samples_.view(), first);
      if (as_they_come)
        plan_->accumulate(compute_, first, samples_.cview().part(first * coils_, {count, coils_}),
                          weights_.cview().part(first, {count}), 1, grid_.view());
    }
    if (as_they_come)
      plan_->to_images(compute_, grid_.view(), images_.view());
    else
      plan_->adjoint(compute_, samples_.cview(), weights_.cview(), images_.view());
    finish();
  }
#if ECHOTRAIN_HAS_CUDA
  /// Makes ready for the two below.
  void cut_coils(const std::vector<std::int64_t>& coils_of_parts) {
    if (std::accumulate(coils_of_parts.begin(), coils_of_parts.end(), std::int64_t{0}) != coils_)
      throw std::invalid_argument("the parts' coils must add up to all");
    for (const std::int64_t coils : coils_of_parts)
      parts_.push_back({coils, link_.allocate<cfloat>({readouts_, coils, per_readout_}),
                        compute_.allocate<cfloat>({count_, coils})});
    link_.synchronize();
    compute_.synchronize();
  }
  void upload_by_coils() {
    start_uploads([] {});
    link_.synchronize();
  }
  void reconstruct_by_coils() {
    start_uploads([this] { there_.release(); });
    std::int64_t first = 0;
    for (CoilPart& part : parts_) {
      there_.acquire();
      to_sample_major(compute_, part.arrived.cview(), part.samples.view(), 0);
      Shape images{part.coils};
      for (const auto n : plan_->image_shape()) images.push_back(n);
      plan_->adjoint(compute_, part.samples.cview(), weights_.cview(),
                     images_.view().part(first * plan_->image_shape().size(), images));
      first += part.coils;
    }
    finish();
  }
#endif
  /// The same steps on samples that are on the device already.
  void reconstruct_from_device() {
    plan_->adjoint(compute_, reference_samples_.cview(), weights_.cview(), images_.view());
    finish();
  }
  std::vector<float> result() const { return {result_.data(), result_.data() + result_.size()}; }

 private:
  struct Part {
    std::int64_t begin;
    Shape shape;
  };
#if ECHOTRAIN_HAS_CUDA
  struct CoilPart {
    std::int64_t coils;
    Array<cfloat> arrived, samples;
  };
  template <class Then>
  void start_uploads(const Then& then) {
    std::int64_t first = 0;
    for (CoilPart& part : parts_) {
      copy_coils(link_, raw_.cview(), first, part.arrived.view());
      link_.on_complete(then);
      first += part.coils;
    }
  }
  std::vector<CoilPart> parts_;
#endif
  Part readouts_of(int part, int parts) const {
    const std::int64_t begin = part * readouts_ / parts, end = (part + 1) * readouts_ / parts;
    return {begin, {end - begin, coils_, per_readout_}};
  }
  void finish() {
    root_sum_of_squares(compute_, images_.cview(), combined_.view());
    component(compute_, combined_.cview(), Component::magnitude, 1, magnitude_.view());
    compute_.copy<float>(magnitude_.cview(), result_.view());
    compute_.synchronize();
  }

  std::counting_semaphore<> there_{0};  // parts that have arrived and are not taken up
  Context link_, compute_;
  std::int64_t coils_, readouts_, count_ = 0, per_readout_ = 0;
  std::shared_ptr<const NufftPlan> plan_;
  HostArray<cfloat> raw_;
  HostArray<float> result_;
  Array<cfloat> reference_samples_, arrived_, samples_, grid_, images_, combined_;
  Array<float> weights_, magnitude_;
};

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / size);
}

}  // namespace

void run_from_host(benchmark::State& state, const NufftCase& which, std::int64_t readouts, Backend backend,
                   bool as_they_come) {
  Scan scan(which, readouts, backend);
  scan.reconstruct_from_device();
  const std::vector<float> reference = scan.result();
  for (auto _ : state)
    state.SetIterationTime(median_seconds(kRepetitions, [&] { scan.reconstruct(kParts, as_they_come); }));
  state.counters["difference"] = relative_difference(scan.result(), reference);
  state.counters["upload_ms"] = 1e3 * median_seconds(kRepetitions, [&] { scan.upload(); });
  state.counters["in_turn_ms"] = 1e3 * median_seconds(kRepetitions, [&] { scan.reconstruct(1, as_they_come); });
}

#if ECHOTRAIN_HAS_CUDA
void run_from_host_by_coils(benchmark::State& state, const NufftCase& which, std::int64_t readouts,
                            const std::vector<std::int64_t>& coils_of_parts) {
  Scan scan(which, readouts, Backend::cuda);
  scan.reconstruct_from_device();
  const std::vector<float> reference = scan.result();
  scan.cut_coils(coils_of_parts);
  for (auto _ : state) state.SetIterationTime(median_seconds(kRepetitions, [&] { scan.reconstruct_by_coils(); }));
  state.counters["difference"] = relative_difference(scan.result(), reference);
  state.counters["upload_ms"] = 1e3 * median_seconds(kRepetitions, [&] { scan.upload_by_coils(); });
}
#endif

}  // namespace echotrain::bench
