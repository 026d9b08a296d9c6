#include "gadgets/encoding/parallel_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "gadgets/encoding/calibration_maps.h"
#include "gadgets/numerics/mri/parallel/noise_gain.h"
#include "gadgets/numerics/mri/parallel/unfold.h"
#include "gadgets/numerics/mri/parallel/unmixing.h"

namespace echotrain {
namespace {

using numerics::Context;
using numerics::LineGeometry;
using numerics::Shape;

template <class T>
std::uint64_t size_of(const Array<T>& array) {
  return static_cast<std::uint64_t>(array.size()) * sizeof(T);
}

/// Joins conj(u) with the maps where corrections need them.
Array<cfloat> joined(Context& context, const Array<cfloat>& u, const Array<cfloat>& maps) {
  const Shape& n = u.shape();
  Array<cfloat> both = context.allocate<cfloat>({2 * n[0], n[1], n[2], n[3]});
  context.copy<cfloat>(u.view(), both.view().part(0, n));
  context.copy<cfloat>(maps.view(), both.view().part(n.size(), n));
  return both;
}

/// Makes the weights of a kind of frames.
class Making {
 public:
  Making(Context& context, const WeightsOptions& options, const Calibration& calibration, const SampledLines& lines,
         const LineGeometry& geometry)
      : context_(context),
        options_(options),
        calibration_(calibration),
        lines_(lines),
        lattice_{lines.step[0], lines.step[1], lines.shift, lines.origin[0], lines.origin[1]},
        rows_(numerics::plan_rows(lattice_, lines.extents[1], lines.extents[0], lines.came)) {
    made_.coils = calibration.data.shape()[0];
    made_.geometry = geometry;
  }

  Weights run() {
    const auto put_back = std::count(rows_.kind.begin(), rows_.kind.end(), numerics::RowPlan::put_back);
    if (put_back > 0)
      for (const std::uint8_t kind : rows_.kind)
        made_.on_lattice.push_back(kind == numerics::RowPlan::on_lattice ? 1.0f : 0.0f);
    if (options_.method == WeightsOptions::Method::unfold)
      unfold();
    else
      grappa();
    if (!options_.coil_images) plan_lines(made_);
    return std::move(made_);
  }

 private:
  void grappa() {
    const numerics::GrappaKernels kernels =
        numerics::fit_grappa(context_, calibration_.data.view(), lattice_, options_.kernel, rows_);
    made_.residual = kernels.residual;
    made_.hybrid = numerics::hybrid_kernels(context_, kernels, made_.geometry);
    if (options_.coil_images) {
      made_.rows = numerics::plan_filling(context_, kernels, made_.hybrid, rows_);
      return;
    }
    const Array<cfloat> maps = adaptive_maps_of(context_, calibration_, made_.geometry);
    Array<cfloat> u = numerics::unmixing(context_, kernels, made_.hybrid, maps.view(), made_.geometry);
    // The corrections come last, as they are the host's work: a GPU goes on meanwhile.
    made_.rows = numerics::plan_corrections(context_, kernels, made_.hybrid, rows_, made_.geometry);
    if (options_.noise) noise(u, maps, &made_.hybrid, &made_.rows);
    made_.factors = made_.corrected() ? joined(context_, u, maps) : std::move(u);
  }

  void unfold() {
    const Array<cfloat> maps = options_.espirit ? espirit_maps_of(context_, calibration_, made_.geometry, options_.sets)
                                                : adaptive_maps_of(context_, calibration_, made_.geometry);
    const std::int64_t sets = maps.shape()[0] / made_.coils;
    const auto of_set = [&](std::int64_t i) {
      return numerics::unfold(context_, maps.view(), lattice_, made_.geometry, options_.lambda, sets, i);
    };
    if (sets > 1) {
      auto second = std::make_shared<Weights>();
      second->coils = made_.coils;
      second->geometry = made_.geometry;
      second->on_lattice = made_.on_lattice;
      second->factors = of_set(1);
      plan_lines(*second);
      made_.second = std::move(second);
    }
    made_.factors = of_set(0);
    if (options_.noise && sets > 1)
      made_.no_noise = "where the object folds, the image joins those of two sets of coil maps; `sets: 1` has one";
    else if (options_.noise)
      noise(made_.factors, maps, nullptr, nullptr);
  }

  void plan_lines(Weights& of) const {
    of.lines = numerics::plan_line_unmixing(context_, lattice_, rows_, of.geometry, of.rows, of.factors, of.scale());
    if (of.lines.made() && !context_.cuda()) of.factors = {};
  }

  void noise(const Array<cfloat>& u, const Array<cfloat>& maps, const numerics::HybridKernels* hybrid,
             const numerics::LineCorrections* rows) {
    numerics::NoiseGain gain;
    try {
      gain = numerics::noise_gain(context_, u.view(), maps.view(), hybrid, rows, rows_, made_.geometry,
                                  lines_.last_x - lines_.first_x);
    } catch (const std::invalid_argument& error) {  // voxels larger than encoded
      made_.no_noise = error.what();
      return;
    }
    const Shape& image = made_.geometry.image;
    auto g = context_.allocate_host<cfloat>({1, image[0], image[1], image[2]});
    auto per_deviation = context_.allocate_host<cfloat>(g.shape());
    double sum = 0;
    std::int64_t count = 0;
    for (std::int64_t v = 0; v < image.size(); ++v) {
      const float deviation = gain.deviation.data()[v];
      g.data()[v] = gain.g.data()[v];
      per_deviation.data()[v] = deviation > 0 ? 1 / deviation : 0.0f;
      if (!(deviation > 0)) continue;
      sum += static_cast<double>(gain.g.data()[v]);
      ++count;
    }
    made_.mean_g = count > 0 ? sum / static_cast<double>(count) : 0;
    made_.g = context_.place<cfloat>(g);
    made_.per_deviation = context_.place<cfloat>(per_deviation);
  }

  Context& context_;
  const WeightsOptions& options_;
  const Calibration& calibration_;
  const SampledLines& lines_;
  numerics::Lattice lattice_;
  numerics::RowPlan rows_;
  Weights made_;
};

}  // namespace

std::uint64_t Weights::bytes() const {
  return (second ? second->bytes() : 0) + size_of(factors) + size_of(hybrid.values) + lines.bytes() +
         size_of(rows.own) + size_of(rows.first) + size_of(rows.terms) + size_of(g) + size_of(per_deviation) +
         (on_lattice.size() + rows.rows.size()) * sizeof(float);
}

bool ParallelWeights::Entry::same(const Entry& other) const {
  const SampledLines &a = lines, &b = other.lines;
  return calibration == other.calibration && a.step == b.step && a.shift == b.shift && a.origin == b.origin &&
         a.first_x == b.first_x && a.last_x == b.last_x && geometry.encoded == other.geometry.encoded &&
         geometry.padded == other.geometry.padded && geometry.image == other.geometry.image && a.came == b.came;
}

ParallelWeights::Found ParallelWeights::of(const Calibration& calibration, const SampledLines& lines,
                                           const LineGeometry& geometry) {
  Entry wanted{calibration.id, calibration.key, lines, geometry, nullptr};
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Entry& entry) { return entry.same(wanted); });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    const bool reused = !std::exchange(found->early, false);
    if (reused) ++scan_->numbers.weights_reused;
    return {found->weights, reused};
  }
  const auto missed = [&](const Entry& entry) { return entry.early && entry.of == wanted.of; };
  if (kept_.remove_if(missed) > 0) prepares_ = false;
  // Encoding spaces that share a block have copies of it, each for its own matrix.
  kept_.remove_if([&](const Entry& entry) {
    return entry.of == wanted.of && entry.calibration != wanted.calibration &&
           entry.geometry.encoded == geometry.encoded && entry.geometry.padded == geometry.padded;
  });
  try {
    add(calibration, wanted);
  } catch (const numerics::ResourceError&) {
    if (kept_.empty()) throw;
    kept_.clear();
    add(calibration, std::move(wanted));
  }
  return {kept_.front().weights, false};
}

void ParallelWeights::prepare(const Calibration& calibration, const SampledLines& lines, const LineGeometry& geometry) {
  Entry wanted{calibration.id, calibration.key, lines, geometry, nullptr, true};
  const auto of_block = [&](const Entry& entry) { return entry.calibration == wanted.calibration; };
  if (!prepares_ || std::any_of(kept_.begin(), kept_.end(), of_block)) return;
  try {
    add(calibration, std::move(wanted));
  } catch (const numerics::ResourceError&) {  // the frame may find more memory
    prepares_ = false;
  }
}

void ParallelWeights::add(const Calibration& calibration, Entry wanted) {
  const auto begin = std::chrono::steady_clock::now();
  wanted.weights = make(calibration, wanted);
  scan_->numbers.weights_ms +=
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  ++scan_->numbers.weights_made;
  kept_.push_front(std::move(wanted));
  std::uint64_t sum = 0;
  for (auto entry = kept_.begin(); entry != kept_.end();) {
    sum += entry->bytes();
    entry = entry != kept_.begin() && sum > options_.most_bytes ? kept_.erase(entry) : std::next(entry);
  }
}

std::shared_ptr<const Weights> ParallelWeights::make(const Calibration& calibration, const Entry& entry) const {
  auto made = std::make_shared<Weights>();
  try {
    *made = Making(scan_->compute, options_, calibration, entry.lines, entry.geometry).run();
  } catch (const std::invalid_argument& error) {
    *made = Weights{};
    made->problem = error.what();
  }
  return made;
}

}  // namespace echotrain
