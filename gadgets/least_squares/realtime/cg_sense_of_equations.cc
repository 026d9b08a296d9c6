#include "gadgets/least_squares/realtime/cg_sense_of_equations.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gadgets/least_squares/coil_maps_gadget.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/inverse/operators/normal_operator.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"

namespace echotrain {
namespace {

// Places of k-space that were sampled less densely than this part of the mean have less weight, and those never sampled
// have none; places of mean density lose 1 %.
constexpr double kLeastDensity = 0.1;
// Frames without the middle of k-space may have hardly any signal.
constexpr double kMostUnlikeLines = 1e6;

numerics::Shape of_items(std::int64_t items, const numerics::Shape& image) {
  numerics::Shape out{items};
  for (const auto extent : image) out.push_back(extent);
  return out;
}

}  // namespace

CgSenseOfEquations::Series::Series(Scan& scan, const numerics::Shape& extents, const numerics::FixedCgOptions& options)
    : solver(scan.compute, extents, options),
      like(scan, kMostUnlikeLines),
      image(extents),
      scale(scan.compute.zeros<float>({1})) {}

void CgSenseOfEquations::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

CgSenseOfEquations::Series& CgSenseOfEquations::series_of(const NormalEquations& equations) {
  const numerics::Shape& image = equations.matrix->image();
  FrameKey key = equations.frame->key;
  key.repetition = key.phase = 0;
  auto found = series_.find(key);
  if (found == series_.end()) {
    const numerics::FixedCgOptions solver{
        .iterations = static_cast<int>(options_.iterations), .previous = options_.lambda, .size = options_.tikhonov};
    found = series_.try_emplace(key, *scan_, image, solver).first;
  }
  if (!(found->second.image == image))
    throw ClientError(fmt::format("cg_sense_realtime: a frame has a matrix of {}, but the frames before had {}",
                                  image.text(), found->second.image.text()));
  return found->second;
}

void CgSenseOfEquations::begin_mean(Series& series, const numerics::Shape& right) {
  const std::int64_t coils = right[0];
  require_coils_for_maps(kName, coils);
  numerics::Context& compute = scan_->compute;
  const numerics::Shape all{coils + 1, right[1], right[2], right[3]};
  series.next = compute.allocate<cfloat>(all);
  series.mean = compute.zeros<cfloat>(all);
  series.maps = compute.allocate<cfloat>(right);
  // The point lies in the middle, so that its k-space, as middle_of_kspace() makes it, is 1 everywhere.
  series.point = compute.zeros<cfloat>({right[1], right[2], right[3]});
  const std::int64_t middle = ((right[1] / 2) * right[2] + right[2] / 2) * right[3] + right[3] / 2;
  const auto value = static_cast<cfloat>(static_cast<float>(series.point.size()));
  compute.copy<cfloat>(numerics::HostView<const cfloat>(&value, {1}), series.point.view().part(middle, {1}));
  const Array<cfloat> ones = middle_of_kspace(
      compute, Array<cfloat>(series.point.memory(), {1, right[1], right[2], right[3]}), options_.calibration);
  series.ones = Array<cfloat>(ones.memory(), {ones.shape()[1], ones.shape()[2], ones.shape()[3]});
}

void CgSenseOfEquations::add_to_mean(Series& series, const NormalEquations& equations, double share) {
  numerics::Context& compute = scan_->compute;
  const auto& n = equations.right.shape();
  if (!series.mean) begin_mean(series, n);
  if (series.mean.shape()[0] != n[0] + 1)
    throw ClientError(fmt::format("cg_sense_realtime: the number of channels changes within a scan, from {} to {}",
                                  series.mean.shape()[0] - 1, n[0]));
  compute.copy<cfloat>(equations.right.cview(), series.next.view().part(0, n));
  const numerics::Shape one = of_items(1, series.image);
  equations.matrix->apply(compute, series.point.cview().reshaped(one), series.next.view().slice(n[0]).reshaped(one));
  series.like.add_to_mean(series.next.cview(), series.mean.view());
  series.density += share * (equations.matrix->diagonal() - series.density);
}

void CgSenseOfEquations::make_maps(Series& series) {
  numerics::Context& compute = scan_->compute;
  const Array<cfloat> middle = middle_of_kspace(compute, series.mean, options_.calibration);
  const auto& n = middle.shape();
  const std::int64_t coils = n[0] - 1;
  const numerics::Shape block{n[1], n[2], n[3]}, of_coils{coils, n[1], n[2], n[3]};
  // Each coil's k-space k is divided by the density D, as conj(D) k / (|D|^2 + least^2).
  Array<cfloat> densities = compute.allocate<cfloat>({2, coils, n[1], n[2], n[3]});
  Array<cfloat> data = compute.zeros<cfloat>({2, coils, n[1], n[2], n[3]});
  compute.copy<cfloat>(middle.cview().part(0, of_coils), data.view().slice(0));
  for (std::int64_t c = 0; c < coils; ++c)
    compute.copy<cfloat>(middle.cview().slice(coils), densities.view().slice(0).slice(c));
  const auto least = static_cast<float>(kLeastDensity * series.density);
  const auto floor = densities.view().slice(1);
  for (std::int64_t c = 0; c < coils; ++c) compute.copy<cfloat>(series.ones.cview(), floor.slice(c));
  numerics::scale_lines(compute, {&least, {1}}, floor.reshaped({coils * n[1] * n[2], 1, n[3]}));
  Array<cfloat> even = compute.allocate<cfloat>(of_coils);
  numerics::combine(compute, densities.cview(), data.cview(), even.view().reshaped({1, coils, n[1], n[2], n[3]}));
  adaptive_maps_of_middle(compute, std::move(even), static_cast<int>(options_.block), 0, series.maps);
}

/// Holds an operator: caches drop operators that nobody holds, and nobody waits here for the device, which still reads
/// it.
void CgSenseOfEquations::hold(std::shared_ptr<const numerics::NormalOperator> matrix) {
  while (!in_use_.empty() && *in_use_.front().done) in_use_.pop_front();
  auto done = std::make_shared<std::atomic<bool>>(false);
  in_use_.push_back({std::move(matrix), done});
  scan_->compute.on_complete([done = std::move(done)] { *done = true; });
}

void CgSenseOfEquations::process(NormalEquations&& equations, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  if (equations.sets != 1)
    throw ClientError(
        "cg_sense_realtime: it solves for one image, but coil_maps gives two sets of maps; use pcg, or its sets: 1");
  Series& series = series_of(equations);
  ++series.frames;
  const auto& n = equations.right.shape();
  const numerics::Shape one{1, n[1], n[2], n[3]};
  const auto right = series.solver.right().reshaped(one);
  const bool given = static_cast<bool>(equations.maps);
  const double share = 1 / static_cast<double>(std::min(series.frames, options_.average));
  series.like.take(equations.right.cview(), share);
  series.like.forget(series.solver);
  if (given) {
    compute.copy<cfloat>(equations.right.cview(), right);
  } else {
    add_to_mean(series, equations, share);
    if (series.frames <= options_.average) make_maps(series);
    numerics::combine(compute, series.maps.cview(), equations.right.cview(), right, /*divide=*/false);
  }
  const Array<cfloat>& maps = given ? equations.maps : series.maps;
  const auto of_coils = maps.cview().reshaped(of_items(maps.shape()[0], series.image));
  if (const double largest = equations.matrix->largest(); largest != series.on_device) {
    const auto value = static_cast<float>(largest);
    compute.copy<float>(numerics::HostView<const float>(&value, {1}), series.scale.view());
    series.on_device = largest;
  }
  series.solver.solve(
      compute,
      [&](numerics::DeviceView<const cfloat> x, numerics::DeviceView<cfloat> y) {
        equations.matrix->apply_sense(compute, of_coils, x, y);
      },
      series.scale.cview(), /*may_record=*/false);  // the next frame has another operator
  Array<cfloat> out = compute.allocate<cfloat>(one);
  compute.copy<cfloat>(series.solver.image().reshaped(one), out.view());
  hold(equations.matrix);
  emit({equations.frame, std::move(out)});
  if (!given && series.frames > options_.average && maps_are_due(series.frames, options_.average, options_.refresh))
    make_maps(series);
  series.like.tell();
}

void CgSenseOfEquations::finish(End /*how*/, const Emit<CoilImages>& /*emit*/) {
  for (auto& [key, series] : series_) series.like.tell_at_end();
}

}  // namespace echotrain
