#include "gadgets/gridding/density_compensation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/density/density.h"
#include "gadgets/numerics/density/density_pipe_menon.h"
#include "gadgets/numerics/density/density_voronoi.h"
#include "gadgets/numerics/layout/layout.h"
#include "gadgets/numerics/reduce/reductions.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {
namespace {

double sum_of(numerics::ThreadPool& threads, const std::vector<float>& weights) {
  return numerics::on_host::sum(threads, {weights.data(), {static_cast<std::int64_t>(weights.size())}});
}

using numerics::View;

constexpr double kLargest = 0.5005;                  // cycles/pixel; a hair beyond the edge is rounding in the sender
constexpr std::uint64_t kKnownBytes = 256ull << 20;  // per session, beside what the store holds
constexpr std::size_t kUploaded = 4;                 // trajectories whose weights stay where the session computes

/// Volume of the disc or ball that the samples reach.
double support_volume(const std::vector<double>& coordinates, int dims) {
  double largest = 0;
  for (std::size_t s = 0; s + static_cast<std::size_t>(dims) <= coordinates.size();
       s += static_cast<std::size_t>(dims)) {
    double r2 = 0;
    for (int a = 0; a < dims; ++a)
      r2 += coordinates[s + static_cast<std::size_t>(a)] * coordinates[s + static_cast<std::size_t>(a)];
    if (std::isfinite(r2)) largest = std::max(largest, r2);
  }
  const double r = std::sqrt(largest);
  return dims == 3 ? 4.0 / 3.0 * std::numbers::pi * r * r * r : std::numbers::pi * r * r;
}

/// Everything that makes two scans of one kind have one trajectory, but the trajectory.
std::string store_key(const protocol::Header& header, const DensityCompensation::Options& options, const Scan& scan,
                      bool planes) {
  std::string key = fmt::format("{} {} {} {} {} {}", options.method, options.share, options.normalize,
                                options.iterations, static_cast<int>(scan.trajectory_unit), planes);
  for (const auto& encoding : header.encodings) {
    key += fmt::format(" / {} {} {}", static_cast<int>(encoding.trajectory), encoding.acceleration[0],
                       encoding.acceleration[1]);
    for (const auto& space : {encoding.encoded, encoding.recon})
      for (std::size_t a = 0; a < 3; ++a) key += fmt::format(" {} {}", space.matrix[a], space.fov_mm[a]);
    for (const auto& limit : {encoding.kspace_encoding_step_1, encoding.kspace_encoding_step_2})
      if (limit) key += fmt::format(" {}..{}", limit->minimum, limit->maximum);
  }
  return key;
}

/// Whether `raw`, [sample, component], continues a trajectory from its sample `offset` on.
bool follows(const KnownTrajectory& known, std::uint16_t encoding, View<const float> raw, std::int64_t offset) {
  const std::int64_t components = raw.shape()[1];
  return known.encoding == encoding && known.components == components &&
         offset + raw.shape()[0] <= known.positions->count() &&
         std::memcmp(known.raw.data() + offset * components, raw.data(),
                     static_cast<std::size_t>(raw.size()) * sizeof(float)) == 0;
}

[[noreturn]] void refuse_weights() {
  throw ClientError(
      "the density weights sum to nothing: all samples lie at one point, or the weights sent with the data are zero");
}

View<const float> trajectory_of(const Readouts& readouts) {
  const auto& shape = readouts.trajectory.shape();
  return {readouts.trajectory.data(), {shape[0] * shape[1], shape[2]}};
}

}  // namespace

Parameters<DensityCompensation::Options> DensityCompensation::parameters() {
  return Parameters<Options>()
      .choice("method", &Options::method, {"from_data", "ramp", "pipe_menon", "voronoi", "none"},
              "from_data: the trajectory's last component is the weight (not its square root), used as it is. ramp: "
              "analytic, from each sample's shell (radial, spiral, koosh-ball). pipe_menon: iterative, for any "
              "trajectory. voronoi: areas of the samples' cells (2D). none: every sample counts 1")
      .choice("share", &Options::share, {"gaps", "equal"},
              "ramp only; how readouts share a shell. gaps: straight 2D readouts by the angles to their neighbours. "
              "equal: all the same, so that a readout's weights do not depend on the others: for sliding windows, "
              "together with frame: {readouts: N}")
      .integer("iterations", &Options::iterations, 1, 100, "pipe_menon only; the best iterate is taken")
      .choice(
          "normalize", &Options::normalize, {"none", "area"},
          "area: rescales the weights so that they sum to the area (volume) of the disc (ball) that the samples reach");
}

void DensityCompensation::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  key_ = store_key(header, options_, scan, planes_);
  for (auto& trajectory : scan.compute.resources().get<TrajectoryStore>().find(key_)) {
    scan.add_likely_positions(trajectory->positions);
    known_.push_back({std::move(trajectory), {}});
  }
  for (const auto& encoding : header.encodings) {
    using protocol::Trajectory;
    if (encoding.trajectory == Trajectory::cartesian)
      throw ClientError(
          "this pipeline grids non-Cartesian data, but the header's trajectory is 'cartesian'; use cartesian_2d");
    if (options_.method == "ramp" && encoding.trajectory == Trajectory::epi)
      throw ClientError(
          "density compensation 'ramp' suits readouts through the centre of k-space, but the header's trajectory is "
          "'epi'");
    Space space;
    const ImageGeometry geometry = image_geometry(encoding);
    space.dims = planes_ ? 2 : geometry.dims;
    space.voxel_ratio = geometry.voxel_ratio;
    space.to_cycles_per_pixel = to_cycles_per_pixel(encoding, scan.trajectory_unit);
    for (std::size_t a = 0; a < 3; ++a) {
      space.matrix[a] = encoding.encoded.matrix[a];
      space.pixel_m[a] = encoding.encoded.fov_mm[a] / space.matrix[a] / 1000;
    }
    if (options_.method == "voronoi" && space.dims != 2)
      throw ClientError(
          "density compensation 'voronoi' is for 2D data, but the header's encoding is 3D; use ramp or pipe_menon");
    spaces_.push_back(space);
  }
}

void DensityCompensation::check(const Readouts& readouts, const Space& space) const {
  const std::int64_t have = readouts.trajectory ? readouts.trajectory.shape()[2] : 0;
  if (have < space.dims)
    throw ClientError(
        fmt::format("readouts come with {} trajectory dimensions, but a {}D encoding needs {} [cycles/pixel]", have,
                    space.dims, space.dims));
  if (options_.method == "from_data" && have != space.dims + 1)
    throw ClientError(fmt::format(
        "density compensation 'from_data' needs {} trajectory dimensions, the last one the weight, but the data "
        "has {}; use method: ramp",
        space.dims + 1, have));
}

/// Whether a readout's weights depend on nothing but itself. `counted`: the frame rule says how many make a frame.
bool DensityCompensation::weights_per_readout(const Options& options, bool counted) {
  if (options.normalize != "none") return false;
  if (options.method == "ramp") return options.share == "equal" && counted;
  return options.method == "from_data" || options.method == "none";
}

void DensityCompensation::process(Readouts&& readouts, const Emit<Samples>& emit) {
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  const std::shared_ptr<const Frame> frame = readouts.frame;
  if (frame->window != 0 && scan_->delivery == Delivery::windows) return give_moved(readouts, emit);
  const bool first = readouts.first, last = readouts.last;
  Open& open = open_[frame->id];
  if (!readouts.heads.empty()) {
    check(readouts, spaces_.at(frame->key.encoding));
    open.readouts += readouts.data.shape()[0];
    readouts.heads = {};  // only what the session's budget counts is kept
    // The readouts of a window's frame come all at once; there is nothing to do before.
    if (scan_->delivery != Delivery::frames && frame->window == 0 && !(first && last)) give_part(open, readouts, emit);
    open.batches.push_back(std::move(readouts));
  } else if (last && open.in_parts && !open.batches.empty()) {
    give_part(open, readouts, emit);
  }
  if (!last) return;
  const Open whole = std::move(open);
  open_.erase(frame->id);
  if (whole.batches.empty()) return;
  if (!whole.in_parts) {
    give_whole(whole, frame, emit);
  } else {
    ++scan_->numbers.frames_in_parts;
    if (!whole.expected) known_for(whole.batches, *frame);  // the next frame may repeat it
  }
}

/// The trajectory that begins as these readouts do.
std::shared_ptr<const KnownTrajectory> DensityCompensation::expect(const Readouts& first) const {
  const View<const float> raw = trajectory_of(first);
  for (const Known& known : known_)
    if (follows(*known.trajectory, first.frame->key.encoding, raw, 0)) return known.trajectory;
  return nullptr;
}

void DensityCompensation::give_part(Open& open, const Readouts& readouts, const Emit<Samples>& emit) {
  const std::shared_ptr<const Frame>& frame = readouts.frame;
  const bool starts = open.given == 0;
  if (starts) {
    open.expected = expect(readouts);
    open.in_parts = open.expected || weights_per_readout(options_, frame->expected_readouts > 0);
  }
  if (!open.in_parts) return;
  const std::int64_t count = readouts.trajectory ? readouts.trajectory.shape()[0] * readouts.trajectory.shape()[1] : 0;
  Samples out;
  out.frame = frame;
  out.first = starts;
  out.last = readouts.last;
  if (open.expected) {
    const std::int64_t total = open.expected->positions->count();
    const bool as_expected =
        (count == 0 || follows(*open.expected, frame->key.encoding, trajectory_of(readouts), open.given)) &&
        (!readouts.last || open.given + count == total);
    if (!as_expected) {  // the frame is given whole at its end
      open.in_parts = false;
      open.expected = nullptr;
      return;
    }
    Known& known = remember(open.expected, false, true);
    out.part = Samples::Part::next;
    out.positions = open.expected->positions;
    out.offset = open.given;
    out.weights =
        Array<float>(std::shared_ptr<void>(known.weights.memory(), known.weights.data() + open.given), {count});
    open.weights_sum = 1;  // they were summed when they were made
  } else {
    Weighted weighted;
    if (count > 0) weighted = weigh(trajectory_of(readouts), readouts.trajectory.shape()[1], *frame);
    open.dropped += weighted.dropped;
    open.largest = std::max(open.largest, weighted.largest);
    if (readouts.last) judge_dropped(open.dropped, open.given + count, open.largest, spaces_.at(frame->key.encoding));
    if (!weighted.positions) weighted.positions = std::make_shared<SamplePositions>();
    open.weights_sum += sum_of(scan_->compute.threads(), weighted.positions->weights);
    out.part = Samples::Part::loose;
    out.positions = weighted.positions;
    out.weights = scan_->compute.upload<float>({weighted.positions->weights.data(), {count}});
  }
  if (count > 0) {
    const auto& shape = readouts.data.shape();
    out.data = scan_->compute.allocate<cfloat>({count, shape[1]});
    numerics::to_sample_major(scan_->compute, readouts.data.view(), out.data.view(), 0);
  }
  open.given += count;
  if (out.last && !(std::abs(open.weights_sum) > 0)) refuse_weights();  // before an image is made of nothing
  emit(std::move(out));
}

void DensityCompensation::give_whole(const Open& open, const std::shared_ptr<const Frame>& frame,
                                     const Emit<Samples>& emit) {
  const auto& shape = open.batches.front().data.shape();
  Samples out;
  out.frame = frame;
  out.data = scan_->compute.allocate<cfloat>({open.readouts * shape[2], shape[1]});
  std::int64_t at = 0;
  for (const Readouts& batch : open.batches) {
    numerics::to_sample_major(scan_->compute, batch.data.view(), out.data.view(), at);
    at += batch.data.shape()[0] * shape[2];
  }
  const Known& known = known_for(open.batches, *frame);
  out.positions = known.trajectory->positions;
  out.weights = known.weights;
  emit(std::move(out));
}

/// Gives readouts that have entered a window.
void DensityCompensation::give_moved(const Readouts& readouts, const Emit<Samples>& emit) {
  const std::shared_ptr<const Frame>& frame = readouts.frame;
  const Space& space = spaces_.at(frame->key.encoding);
  check(readouts, space);
  const auto& shape = readouts.data.shape();
  const std::int64_t count = shape[0] * shape[2];
  const Weighted weighted = weigh(trajectory_of(readouts), shape[2], *frame);
  Open& open = open_[frame->id];
  open.given += count;
  open.dropped += weighted.dropped;
  open.largest = std::max(open.largest, weighted.largest);
  if (readouts.last) {
    const Open all = std::move(open);
    open_.erase(frame->id);
    if (frame->window_begin == 0)
      judge_dropped(all.dropped, all.given, all.largest, space);
    else
      warn_of_dropped(all.dropped, all.given);
  }
  Samples out;
  out.frame = frame;
  out.part = Samples::Part::moved;
  out.readouts = shape[0];
  out.first = readouts.first;
  out.last = readouts.last;
  out.data = scan_->compute.allocate<cfloat>({count, shape[1]});
  numerics::to_sample_major(scan_->compute, readouts.data.view(), out.data.view(), 0);
  out.positions = weighted.positions;
  out.weights = scan_->compute.upload<float>({weighted.positions->weights.data(), {count}});
  emit(std::move(out));
}

DensityCompensation::Known& DensityCompensation::known_for(const std::vector<Readouts>& batches, const Frame& frame) {
  auto made = std::make_shared<KnownTrajectory>();
  made->encoding = frame.key.encoding;
  made->per_readout = batches.front().data.shape()[2];
  made->components = batches.front().trajectory.shape()[2];
  for (const Readouts& batch : batches)
    made->raw.insert(made->raw.end(), batch.trajectory.data(), batch.trajectory.data() + batch.trajectory.size());
  const View<const float> raw(made->raw.data(),
                              {static_cast<std::int64_t>(made->raw.size()) / made->components, made->components});
  for (const Known& known : known_)
    if (known.trajectory->raw.size() == made->raw.size() && follows(*known.trajectory, frame.key.encoding, raw, 0))
      return remember(known.trajectory, false, true);
  Weighted weighted = weigh(raw, made->per_readout, frame);
  judge_dropped(weighted.dropped, raw.shape()[0], weighted.largest, spaces_.at(frame.key.encoding));
  const double sum = sum_of(scan_->compute.threads(), weighted.positions->weights);
  if (!(std::abs(sum) > 0) || !std::isfinite(sum)) refuse_weights();
  if (options_.normalize == "area") {
    const auto factor =
        static_cast<float>(support_volume(weighted.positions->coordinates, weighted.positions->dims) / sum);
    for (float& w : weighted.positions->weights) w *= factor;
  }
  const std::vector<double>& k = weighted.positions->coordinates;
  weighted.positions->digest =
      numerics::trajectory_digest({k.data(), {weighted.positions->count(), weighted.positions->dims}});
  made->positions = weighted.positions;
  made->dropped = weighted.dropped;
  return remember(std::move(made), true, frame.window == 0);
}

/// Makes a trajectory this session's most recent one.
DensityCompensation::Known& DensityCompensation::remember(std::shared_ptr<const KnownTrajectory> trajectory,
                                                          bool is_new, bool may_recur) {
  if (is_new && may_recur && stored_ < TrajectoryStore::kPerKey) {  // the first ones are what the next scan may repeat
    ++stored_;
    scan_->compute.resources().get<TrajectoryStore>().add(key_, trajectory);
  }
  auto at = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.trajectory == trajectory; });
  if (at == known_.end()) at = known_.insert(known_.end(), {std::move(trajectory), {}});
  std::rotate(known_.begin(), at, at + 1);
  std::uint64_t bytes = 0;
  std::size_t kept = 0;
  while (kept < std::min(known_.size(), TrajectoryStore::kPerKey) &&
         (kept == 0 || bytes + known_[kept].trajectory->bytes() <= kKnownBytes))
    bytes += known_[kept++].trajectory->bytes();
  known_.resize(kept);
  if (known_.size() > kUploaded) known_[kUploaded].weights = {};
  Known& known = known_.front();
  if (!known.weights) {
    const auto& weights = known.trajectory->positions->weights;
    known.weights = scan_->compute.upload<float>({weights.data(), {static_cast<std::int64_t>(weights.size())}});
  }
  warn_of_dropped(known.trajectory->dropped, known.trajectory->positions->count());
  return known;
}

/// The unit whose edge of k-space the numbers could just have.
std::string DensityCompensation::likely_unit(double largest, const Space& space) {
  const auto dims = static_cast<std::ptrdiff_t>(space.dims);
  const double n = *std::max_element(space.matrix.begin(), space.matrix.begin() + dims);
  const double pixel_m = *std::min_element(space.pixel_m.begin(), space.pixel_m.begin() + dims);
  std::vector<std::pair<double, std::string>> edges = {
      {std::numbers::pi, "radians_per_pixel"}, {0.5 * n, "cycles_per_fov"}, {0.5 / pixel_m, "cycles_per_m"}};
  std::sort(edges.begin(), edges.end());
  for (const auto& [edge, unit] : edges)
    if (largest <= 1.01 * edge) return unit;
  return edges.back().second;
}

/// Which samples no image voxel can hold; how many lie beyond k-space's edge, and the largest component in the data's
/// numbers.
std::vector<bool> DensityCompensation::outside(const std::vector<double>& coordinates, const Space& space,
                                               std::int64_t& dropped, double& largest) {
  const auto dims = static_cast<std::size_t>(space.dims);
  const std::size_t total = coordinates.size() / dims;
  std::vector<bool> out(total);
  for (std::size_t s = 0; s < total; ++s) {
    double k = 0;
    bool beyond_image = false;  // what an image of coarser voxels cannot hold would wrap into it
    for (std::size_t a = 0; a < dims; ++a) {
      const double component = std::abs(coordinates[s * dims + a]);
      k = std::max(k, component);
      beyond_image |= component * space.voxel_ratio[a] > kLargest;
      largest = std::max(largest, component / space.to_cycles_per_pixel[a]);
    }
    out[s] = k > kLargest || beyond_image;
    dropped += k > kLargest ? 1 : 0;
  }
  return out;
}

/// Of a frame's samples. ClientError when most are dropped, else a warning.
void DensityCompensation::judge_dropped(std::int64_t dropped, std::int64_t total, double largest, const Space& space) {
  if (2 * dropped > total)
    throw ClientError(fmt::format(
        "{} of {} samples lie beyond 0.5 cycles/pixel (largest {:.4g} in the data's numbers): the trajectory "
        "is likely in {}; set the pipeline's trajectory_unit",
        dropped, total, largest, likely_unit(largest, space)));
  warn_of_dropped(dropped, total);
}

void DensityCompensation::warn_of_dropped(std::int64_t dropped, std::int64_t total) {
  if (dropped > 0 && !std::exchange(warned_, true))
    scan_->warn(fmt::format("{} of {} samples of a frame lie beyond 0.5 cycles/pixel and are dropped", dropped, total));
}

/// Positions and weights of readouts: `raw` is [sample, component], as it came.
DensityCompensation::Weighted DensityCompensation::weigh(View<const float> raw, std::int64_t per_readout,
                                                         const Frame& frame) {
  const Space& space = spaces_.at(frame.key.encoding);
  const auto dims = static_cast<std::size_t>(space.dims);
  const std::int64_t total = raw.shape()[0], components = raw.shape()[1];
  Weighted out;
  out.positions = std::make_shared<SamplePositions>();
  out.positions->dims = space.dims;
  out.positions->encoding = frame.key.encoding;
  std::vector<double>& coordinates = out.positions->coordinates;
  coordinates.resize(static_cast<std::size_t>(total) * dims);
  for (std::int64_t s = 0; s < total; ++s)
    for (std::size_t a = 0; a < dims; ++a)
      coordinates[static_cast<std::size_t>(s) * dims + a] =
          static_cast<double>(raw[s * components + static_cast<std::int64_t>(a)]) * space.to_cycles_per_pixel[a];

  const std::vector<bool> unusable = outside(coordinates, space, out.dropped, out.largest);
  if (options_.method == "from_data") {
    out.positions->weights.resize(static_cast<std::size_t>(total));
    for (std::int64_t s = 0; s < total; ++s)
      out.positions->weights[static_cast<std::size_t>(s)] = raw[s * components + space.dims];
  } else {
    out.positions->weights =
        computed_weights({coordinates.data(), {total / per_readout, per_readout, space.dims}}, unusable, frame);
  }
  for (std::int64_t s = 0; s < total; ++s)
    if (unusable[static_cast<std::size_t>(s)]) {
      out.positions->weights[static_cast<std::size_t>(s)] = 0;
      std::fill_n(coordinates.begin() + s * space.dims, dims, std::numeric_limits<double>::quiet_NaN());
    }
  return out;
}

/// coordinates: [readout, sample, dims].
std::vector<float> DensityCompensation::computed_weights(View<const double> coordinates,
                                                         const std::vector<bool>& unusable, const Frame& frame) {
  const auto dims = static_cast<int>(coordinates.shape()[2]);
  const std::int64_t total = coordinates.shape()[0] * coordinates.shape()[1];
  const double k_max = kLargest * std::sqrt(static_cast<double>(dims));
  if (options_.method == "none") return std::vector<float>(static_cast<std::size_t>(total), 1.0f);
  if (options_.method == "ramp") {
    if (options_.share == "gaps") return numerics::ramp_density(coordinates, k_max);
    const std::int64_t readouts = frame.expected_readouts > 0 ? frame.expected_readouts : coordinates.shape()[0];
    std::vector<float> weights;
    for (std::int64_t r = 0; r < coordinates.shape()[0]; ++r) {
      const std::vector<float>& spoke = spoke_weights(coordinates.slice(r), k_max);
      for (const float w : spoke) weights.push_back(w / static_cast<float>(readouts));
    }
    return weights;
  }
  try {
    if (options_.method == "voronoi")
      return numerics::voronoi_density(scan_->compute.threads(), coordinates.reshaped({total, dims}), k_max);
    // Pipe and Menon's weights do not know how much k-space there is; the disc or ball of the samples is taken.
    std::vector<double> usable(coordinates.data(), coordinates.data() + coordinates.size());
    for (std::int64_t s = 0; s < total; ++s)
      if (unusable[static_cast<std::size_t>(s)])
        std::fill_n(usable.begin() + s * dims, dims, std::numeric_limits<double>::quiet_NaN());
    const Space& space = spaces_.at(frame.key.encoding);
    numerics::Shape image;
    for (int a = dims; a-- > 0;) image.push_back(static_cast<std::int64_t>(space.matrix[static_cast<std::size_t>(a)]));
    numerics::Context& compute = scan_->compute;
    const auto plan = numerics::NufftPlan::make(compute, {usable.data(), {total, dims}}, image);
    const auto result = numerics::pipe_menon_density(compute, *plan, {}, static_cast<int>(options_.iterations),
                                                     support_volume(usable, dims));
    const auto host = compute.download<float>(result.weights.view());
    scan_->info(
        fmt::format("density compensation: Pipe and Menon's residual went from {:.2g} to {:.2g} in {} iterations",
                    result.residuals.front(), result.residuals[static_cast<std::size_t>(result.best)], result.best));
    return {host.data(), host.data() + host.size()};
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("density compensation '{}': {}", options_.method, error.what()));
  }
}

/// The ramp of one readout, as if it were the only one. A readout that is another one rotated has the same weights,
/// which are worked out once. coordinates: [sample, dims].
const std::vector<float>& DensityCompensation::spoke_weights(View<const double> coordinates, double k_max) {
  constexpr double kSame = 1e-7;  // cycles/pixel: trajectories come in fp32
  const std::int64_t samples = coordinates.shape()[0], dims = coordinates.shape()[1];
  std::vector<double> radii(static_cast<std::size_t>(samples));
  for (std::int64_t s = 0; s < samples; ++s) {
    double square = 0;
    for (std::int64_t a = 0; a < dims; ++a) square += coordinates[s * dims + a] * coordinates[s * dims + a];
    radii[static_cast<std::size_t>(s)] = std::sqrt(square);
  }
  const bool rotated =
      radii.size() == template_radii_.size() && std::equal(radii.begin(), radii.end(), template_radii_.begin(),
                                                           [](double a, double b) { return std::abs(a - b) <= kSame; });
  if (!rotated) {
    template_weights_ = numerics::ramp_density(coordinates.reshaped({1, samples, dims}), k_max, false);
    template_radii_ = std::move(radii);
  }
  return template_weights_;
}

}  // namespace echotrain
