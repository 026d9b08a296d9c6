#include "gadgets/least_squares/fhd.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/transforms/off_resonance/off_resonance_normal.h"
#include "gadgets/shared/cache/plan_cache.h"

namespace echotrain {
namespace {

GriddingOptions gridding_options(const Fhd::Options& options) {
  GriddingOptions out;
  out.dimensions = options.dimensions;
  out.accuracy = options.accuracy;
  out.any_trajectory = options.method == "auto";
  return out;
}

}  // namespace

Parameters<Fhd::Options> Fhd::parameters() {
  return Parameters<Options>()
      .integer("dimensions", &Options::dimensions, 2, 3,
               "dimensions of the encoding; a scan with another number is refused at its header")
      .choice(
          "method", &Options::method, {"nufft", "exact", "auto"},
          "nufft: fast, to `accuracy` on average over trajectories. exact: every voxel from every sample, to rounding "
          "(about 1e-6). auto: the NUFFT, with the same bits however samples come, where its error is at most "
          "`accuracy` for any trajectory, else exact; a line to the client says which")
      .number("accuracy", &Options::accuracy, 1e-7, 0.1,
              "methods nufft and auto; relative RMS error of F^H d and F^H F")
      .choice(
          "voxel", &Options::voxel, {"delta", "box"},
          "box not with method nufft, and with auto it takes exact; what an image value stands for: a point, or the "
          "voxel's box")
      .choice(
          "precision", &Options::precision, {"exact", "fast"},
          "method exact only; exact: relative error below 5e-6. fast: below 4e-4 in about two thirds of the time on "
          "CUDA; the error found at some voxels is in the image's attribute fhd_error, unless several GPUs share the "
          "work. On the CPU the same as exact")
      .flag("off_resonance", &Options::off_resonance,
            "not with method exact; true: F has the phase that a field which is off adds while samples are taken, so "
            "that the solver removes its blur")
      .group("field", &Options::field, field_parameters());
}

Fhd::Fhd(Options options) : options_(std::move(options)), gridder_(gridding_options(options_)), field_(options_.field) {
  if (options_.off_resonance && options_.method == "exact")
    throw std::invalid_argument("off_resonance: true needs method: nufft");
  if (!options_.off_resonance && !options_.field.file.empty())
    throw std::invalid_argument("field names a file, but off_resonance is false");
  if (options_.method == "nufft" && options_.voxel != "delta")
    throw std::invalid_argument("voxel: box needs method: exact");
  if (options_.method != "exact" && options_.precision != "exact")
    throw std::invalid_argument("precision: fast needs method: exact; the NUFFT has an accuracy instead");
  if (options_.off_resonance && options_.voxel != "delta")
    throw std::invalid_argument("off_resonance: true needs voxel: delta");
}

void Fhd::choose_method() {
  exact_ = options_.method == "exact";
  if (options_.method != "auto") return;
  if (options_.off_resonance) return scan_->info("fhd: by the NUFFT, which off_resonance: true needs");
  if (options_.voxel == "box") {
    exact_ = true;
    return scan_->info("fhd: sums are exact, which voxel: box needs");
  }
  std::vector<std::string> chosen;
  for (const ImageGeometry& geometry : geometries_) {
    const numerics::Shape image = geometry.extents(), lags = numerics::lag_image(image);
    const numerics::NufftLoad load{scan_->compute.backend()};
    const auto of_image = numerics::options_within(options_.accuracy, image, load),
               of_lags = numerics::options_within(options_.accuracy, lags, load);
    if (!of_image || !of_lags) {
      exact_ = true;
      return scan_->info(
          fmt::format("fhd: sums are exact, as no NUFFT has an error of at most {:.1e} for an image of {}",
                      options_.accuracy, image.text()));
    }
    const double error = std::max(numerics::largest_error(*of_image, image), numerics::largest_error(*of_lags, lags));
    chosen.push_back(fmt::format("fhd: by the NUFFT of width {} at oversampling {}, whose error is at most {:.1e}",
                                 of_image->kernel_width, of_image->oversampling, error));
  }
  waits_ = true;
  for (const std::string& line : chosen) scan_->info(line);
}

void Fhd::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) geometries_.push_back(image_geometry(encoding));
  choose_method();
  if (!exact_) gridder_.start(header, scan);
  for (std::size_t i = 0; i < geometries_.size(); ++i) {
    const protocol::Encoding& encoding = header.encodings[i];
    constexpr std::int64_t kLongest = 2048;
    for (const auto extent : geometries_[i].image)
      if (exact_ && extent > kLongest)
        throw ClientError(fmt::format("fhd: method exact is for images of up to {} voxels an axis, not {}; use nufft",
                                      kLongest, extent));
    if (geometries_[i].dims != options_.dimensions)
      throw ClientError(fmt::format(
          "this pipeline reconstructs {}D data, but the header's encoded matrix is {} x {} x {}", options_.dimensions,
          encoding.encoded.matrix[0], encoding.encoded.matrix[1], encoding.encoded.matrix[2]));
  }
  if (options_.off_resonance) return field_.start(scan);  // F^H F depends on the map, which is not known yet
  if (!exact_) choose_gridding();
  // Guesses the most recent trajectory of such scans; the guess is checked against the data when they come.
  if (scan.likely_positions().empty()) return;
  const auto& likely = scan.likely_positions().front();
  if (likely->dims != options_.dimensions || likely->encoding >= geometries_.size()) return;
  const OperatorRequest guess = request(likely, likely->encoding);
  constexpr double kMostWork = 1e12;  // multiplications that a guess may cost: a few seconds
  if (exact_ && static_cast<double>(likely->count()) * static_cast<double>(guess.image.size()) * 8 > kMostWork) return;
  try {
    const auto found = scan.compute.resources().get<OperatorCache>().get(scan.compute, guess);
    scan.numbers.plan_ms += found.made_ms;
    scan.numbers.operators_made += found.reused ? 0 : 1;
  } catch (const ResourceError&) {          // a guess must not end a scan
  } catch (const std::invalid_argument&) {  // the scan's own data are checked when they come
  }
}

/// Chooses Q's gridding before the data come, so that the first frame does not wait for it.
void Fhd::choose_gridding() {
  try {
    for (std::size_t i = 0; i < geometries_.size(); ++i) {
      const OperatorRequest what = request(nullptr, static_cast<std::uint16_t>(i));
      of_lags_.push_back(gridding_of(what.method, what.image, scan_->compute.backend()));
    }
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("fhd: {}", error.what()));
  }
}

OperatorRequest Fhd::request(std::shared_ptr<const SamplePositions> positions, std::uint16_t encoding) const {
  const ImageGeometry& geometry = geometries_.at(encoding);
  OperatorRequest out;
  out.positions = std::move(positions);
  out.voxel_ratio = geometry.voxel_ratio;
  out.image = geometry.extents();
  out.method.exact = exact_;
  out.method.basis = options_.voxel == "box" ? numerics::VoxelBasis::box : numerics::VoxelBasis::delta;
  out.method.precision = options_.precision == "fast" ? numerics::Precision::fast : numerics::Precision::exact;
  out.method.accuracy = options_.accuracy;
  out.method.any_trajectory = !exact_ && options_.method == "auto";
  if (encoding < of_lags_.size()) out.gridding = of_lags_[encoding];
  out.store = &scan_->compute.resources().get<PointSpreadStore>();
  return out;
}

void Fhd::process(Samples&& samples, const Emit<NormalEquations>& emit) {
  numerics::Context& compute = scan_->compute;
  std::shared_ptr<const Frame> frame = samples.frame;
  Open& open = open_[frame->id];
  if (samples.first) open = {};
  if (!open.power) open.power = compute.zeros<double>({1});
  if (samples.data.size() > 0) {
    open.coils = samples.data.shape()[1];
    numerics::add_weighted_power(compute, samples.data.view(), samples.weights.view(), open.power.view());
  }
  if (samples.part == Samples::Part::loose) {
    if (!open.loose) open.loose = std::make_shared<SamplePositions>();
    open.loose->dims = options_.dimensions == 3 ? 3 : 2;
    open.loose->coordinates.insert(open.loose->coordinates.end(), samples.positions->coordinates.begin(),
                                   samples.positions->coordinates.end());
    open.loose->weights.insert(open.loose->weights.end(), samples.positions->weights.begin(),
                               samples.positions->weights.end());
  } else {
    open.positions = samples.positions;
  }
  if (options_.off_resonance) open.field = field_.of_frame(samples, geometries_.at(frame->key.encoding).extents());
  const bool last = samples.last;
  Array<cfloat> right;
  if (last && open.loose) {
    open.loose->digest =
        numerics::trajectory_digest({open.loose->coordinates.data(), {open.loose->count(), open.loose->dims}});
    open.positions = open.loose;
  }
  if (exact_) {
    add_exactly(open, samples);
    if (last) {
      right = compute.allocate<cfloat>(geometries_.at(frame->key.encoding).extents(open.coils));
      open.sum->get(compute, right.view());
      if (const auto error = open.sum->sampled_error(compute, right.view()))
        frame = with_notes(*frame, {{"fhd_error", fmt::format("{:.2g}", *error)}});
    }
  } else if (auto joined = waits_ ? join_parts(open, std::move(samples)) : std::move(samples)) {
    if (auto image = add_gridded(open, std::move(*joined))) right = std::move(*image);
    if (last && open.field)
      frame = with_notes(*frame, {{"off_resonance_segments", std::to_string(open.field->segments())},
                                  {"off_resonance_error", fmt::format("{:.1e}", open.field->error())}});
  }
  if (!last) return;
  Open whole = std::move(open);
  open_.erase(frame->id);
  give(std::move(whole), right, frame, emit);
}

/// Joins the parts into the whole frame, once its last samples have come.
std::optional<Samples> Fhd::join_parts(Open& open, Samples&& samples) {
  if (samples.part == Samples::Part::whole) return std::move(samples);
  numerics::Context& compute = scan_->compute;
  if (samples.data.size() > 0) {
    if (!open.parts.empty() && open.parts.front().data.shape()[1] != open.coils)
      throw ClientError(fmt::format("the number of channels changes within a scan, from {} to {}",
                                    open.parts.front().data.shape()[1], open.coils));
    open.parts.push_back({std::move(samples.data), std::move(samples.weights)});
  }
  if (!samples.last) return std::nullopt;
  const std::int64_t count = open.positions->count(), coils = open.coils;
  samples.data = compute.allocate<cfloat>({count, coils});
  samples.weights = compute.allocate<float>({count});
  std::int64_t at = 0;
  for (const Part& part : open.parts) {
    const std::int64_t n = part.data.shape()[0];
    compute.copy<cfloat>(part.data.cview(), samples.data.view().part(at * coils, {n, coils}));
    compute.copy<float>(part.weights.cview(), samples.weights.view().part(at, {n}));
    at += n;
  }
  open.parts.clear();
  samples.part = Samples::Part::whole;
  samples.positions = open.positions;
  samples.offset = 0;
  samples.first = true;
  return std::move(samples);
}

/// Returns F^H W d of the frame once all of its samples have come.
std::optional<Array<cfloat>> Fhd::add_gridded(const Open& open, Samples&& samples) {
  numerics::Context& compute = scan_->compute;
  const ImageGeometry& geometry = geometries_.at(samples.frame->key.encoding);
  const std::int64_t segments = open.field ? open.field->segments() : 1;
  if (open.field && samples.data.size() > 0) {
    Array<cfloat> split = compute.allocate<cfloat>({samples.data.shape()[0], segments * open.coils});
    open.field->split(compute, ScanFieldMap::first_sample(samples), samples.data.view(), split.view());
    samples.data = std::move(split);
  }
  auto gridded = gridder_.add(std::move(samples));
  if (!gridded) return std::nullopt;
  Array<cfloat> right = compute.allocate<cfloat>(geometry.extents(segments * open.coils));
  gridded->plan->to_images(compute, gridded->grid.view(), right.view());
  if (!open.field) return right;
  gridded->grid = {};
  Array<cfloat> joined = compute.allocate<cfloat>(geometry.extents(open.coils));
  open.field->gather(compute, right.view(), joined.view());
  return joined;
}

void Fhd::add_exactly(Open& open, const Samples& samples) {
  numerics::Context& compute = scan_->compute;
  const std::uint16_t encoding = samples.frame->key.encoding;
  const OperatorRequest what = request(nullptr, encoding);
  if (!open.sum)
    open.sum = std::make_unique<numerics::SplitAdjoint>(compute, scan_->team, what.image, open.coils, what.method.basis,
                                                        what.method.precision);
  if (samples.data.size() == 0) return;
  const int dims = samples.positions->dims;
  const std::int64_t count = samples.data.shape()[0];
  const std::vector<double> coordinates =
      image_coordinates(compute.threads(), *samples.positions, what.voxel_ratio, samples.offset, count);
  open.sum->add(compute, {coordinates.data(), {count, dims}}, samples.data.view(),
                {samples.positions->weights.data() + samples.offset, {count}});
}

std::shared_ptr<const numerics::NormalOperator> Fhd::matrix_of(const Open& open, std::uint16_t encoding) {
  try {
    const auto found =
        scan_->compute.resources().get<OperatorCache>().get(scan_->compute, request(open.positions, encoding));
    ScanNumbers& numbers = scan_->numbers;
    numbers.plan_ms += found.made_ms;
    ++(found.reused ? numbers.operators_reused : numbers.operators_made);
    return found.object;
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("fhd: {}", error.what()));
  }
}

/// Makes F^H W F with the field's phase. It depends on the slice, so no other scan can use it.
std::shared_ptr<const numerics::NormalOperator> Fhd::corrected(const Open& open, std::uint16_t encoding) {
  const auto found = std::find_if(corrected_.begin(), corrected_.end(), [&](const Corrected& each) {
    return each.field == open.field && same_positions(*each.positions, *open.positions) &&
           each.positions->weights == open.positions->weights;
  });
  if (found != corrected_.end()) {
    corrected_.splice(corrected_.begin(), corrected_, found);
    ++scan_->numbers.operators_reused;
    return corrected_.front().matrix;
  }
  const OperatorRequest what = request(open.positions, encoding);
  const SamplePositions& positions = *open.positions;
  const auto began = std::chrono::steady_clock::now();
  numerics::MemoryShare(scan_->compute.account()).grow_to(work_bytes(positions));  // makes room for it
  const std::vector<double> coordinates =
      image_coordinates(scan_->compute.threads(), positions, what.voxel_ratio, 0, positions.count());
  numerics::Shape lags;
  for (const auto e : what.image) lags.push_back(2 * e);
  numerics::OffResonanceNormal::Options options;
  options.accuracy = options_.field.accuracy;
  constexpr std::size_t kMostKept = 256;
  constexpr std::uint64_t kMostBytes = 1ull << 30;
  std::uint64_t bytes = 0;
  for (const Corrected& each : corrected_) bytes += each.matrix->bytes();
  while (!corrected_.empty() && (corrected_.size() >= kMostKept || bytes > kMostBytes)) {
    bytes -= corrected_.back().matrix->bytes();
    corrected_.pop_back();
  }
  try {
    options.nufft = numerics::options_for_accuracy(options_.accuracy, lags, {scan_->compute.backend()});
    corrected_.push_front(
        {open.positions, open.field,
         std::make_shared<const numerics::OffResonanceNormal>(
             scan_->compute, numerics::HostView<const double>(coordinates.data(), {positions.count(), positions.dims}),
             numerics::HostView<const float>(positions.weights.data(), {positions.count()}), open.field, options)});
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("fhd: {}", error.what()));
  }
  scan_->numbers.plan_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  ++scan_->numbers.operators_made;
  return corrected_.front().matrix;
}

/// The sum of the weights.
double Fhd::weight_of(const std::shared_ptr<const SamplePositions>& positions) {
  if (summed_.lock() == positions) return weight_;
  const std::vector<float>& weights = positions->weights;
  weight_ =
      numerics::on_host::sum(scan_->compute.threads(), {weights.data(), {static_cast<std::int64_t>(weights.size())}});
  summed_ = positions;
  return weight_;
}

void Fhd::give(Open&& open, const Array<cfloat>& right, const std::shared_ptr<const Frame>& frame,
               const Emit<NormalEquations>& emit) {
  const auto matrix = open.field ? corrected(open, frame->key.encoding) : matrix_of(open, frame->key.encoding);
  const ImageGeometry& geometry = geometries_.at(frame->key.encoding);
  NormalEquations out;
  out.frame = frame;
  out.right =
      right.reshaped({open.coils, geometry.dims == 3 ? geometry.image[0] : 1, geometry.image[1], geometry.image[2]});
  out.matrix = matrix;
  out.power = open.power;
  out.weight = weight_of(open.positions);
  out.coils = open.coils;
  emit(std::move(out));
}

}  // namespace echotrain
