#include "gadgets/gridding/density_compensation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {
namespace {

double sum_of(numerics::ThreadPool& threads, const std::vector<float>& weights) {
  return numerics::on_host::sum(threads, {weights.data(), {static_cast<std::int64_t>(weights.size())}});
}

using numerics::HostView;

[[noreturn]] void refuse_weights() {
  throw ClientError(
      "the density weights sum to nothing: all samples lie at one point, or the weights sent with the data are zero");
}

/// Merges `timing`, in which all readouts so far agree, with that of these readouts.
void add_timing(const Readouts& readouts, SampleTiming& timing) {
  for (const auto& head : readouts.heads) {
    const SampleTiming own{.interval_s = 1e-6 * static_cast<double>(head.sample_time_us),
                           .per_readout = readouts.data.shape()[2],
                           .center = head.center_sample};
    if (timing.per_readout == 0) timing = own;
    if (!(timing == own)) timing.interval_s = -1;
  }
}

HostView<const float> trajectory_of(const Readouts& readouts) {
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
  known_.start(header, options_, scan, planes_);
  weights_.start(scan);
  dropped_.start(scan);
  for (const auto& encoding : header.encodings) {
    using protocol::Trajectory;
    if (encoding.trajectory == Trajectory::cartesian)
      throw ClientError(
          "this pipeline grids non-Cartesian data, but the header's trajectory is 'cartesian'; use cartesian_2d");
    if (options_.method == "ramp" && encoding.trajectory == Trajectory::epi)
      throw ClientError(
          "density compensation 'ramp' suits readouts through the centre of k-space, but the header's trajectory is "
          "'epi'");
    const SampleSpace space = sample_space(encoding, scan, planes_);
    if (options_.method == "voronoi" && space.dims != 2)
      throw ClientError(
          "density compensation 'voronoi' is for 2D data, but the header's encoding is 3D; use ramp or pipe_menon");
    if (encoding.encoded.matrix[2] == 1 && encoding.recon.matrix[2] > 1)
      scan.warn(fmt::format("the header's recon space has {} planes along z, its encoded space one: images have one",
                            encoding.recon.matrix[2]));
    spaces_.push_back(space);
  }
}

namespace {
// Working memory for the weights [bytes per sample].
constexpr std::uint64_t kWorkBytes = 32, kVoronoiBytes = 400;
}  // namespace

void DensityCompensation::check(const Readouts& readouts, const SampleSpace& space) const {
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

/// True if a readout's weights depend on it alone. `counted`: the frame rule fixes the number of readouts in a frame.
bool DensityCompensation::weights_per_readout(const Options& options, bool counted) {
  if (options.normalize != "none") return false;
  if (options.method == "ramp") return options.share == "equal" && counted;
  return options.method == "from_data" || options.method == "none";
}

void DensityCompensation::process(Readouts&& readouts, const Emit<Samples>& emit) {
  note_unused_calibration(readouts, *scan_);
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  const std::shared_ptr<const Frame> frame = readouts.frame;
  if (frame->window != 0 && scan_->delivery == Delivery::windows) return give_moved(readouts, emit);
  const bool first = readouts.first, last = readouts.last;
  Open& open = open_[frame->id];
  if (!readouts.heads.empty()) {
    check(readouts, spaces_.at(frame->key.encoding));
    open.readouts += readouts.data.shape()[0];
    add_timing(readouts, open.timing);
    decltype(readouts.heads)().swap(readouts.heads);  // keeps only memory that the session's budget counts
    // The readouts of a window's frame come all at once, so no work can be done ahead.
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
    if (!whole.expected) known_for(whole.batches, *frame);  // the next frame may have the same trajectory
  }
}

void DensityCompensation::give_part(Open& open, const Readouts& readouts, const Emit<Samples>& emit) {
  const std::shared_ptr<const Frame>& frame = readouts.frame;
  // This is decided once: later readouts may begin a shorter trajectory.
  const bool starts = open.batches.empty();
  if (starts) {
    open.expected = known_.beginning(*frame, readouts.data.shape()[2], trajectory_of(readouts));
    open.in_parts = open.expected || weights_per_readout(options_, frame->expected_readouts > 0);
  }
  if (!open.in_parts) return;
  const std::int64_t count = readouts.trajectory ? readouts.trajectory.shape()[0] * readouts.trajectory.shape()[1] : 0;
  Samples out;
  out.frame = frame;
  out.first = starts;
  out.last = readouts.last;
  out.timing = open.timing;
  out.first_readout = open.timing.per_readout > 0 ? open.given / open.timing.per_readout : 0;
  if (open.expected) {
    const std::int64_t total = open.expected->positions->count();
    const bool as_expected = (count == 0 || follows(scan_->compute.threads(), *open.expected, frame->key.encoding,
                                                    trajectory_of(readouts), open.given)) &&
                             (!readouts.last || open.given + count == total);
    if (!as_expected) {  // the frame is given whole at its end
      open.in_parts = false;
      open.expected = nullptr;
      return;
    }
    KnownTrajectories::Known& known = remember(open.expected, false, true);
    out.part = Samples::Part::next;
    out.positions = open.expected->positions;
    out.offset = open.given;
    out.weights =
        Array<float>(std::shared_ptr<void>(known.weights.memory(), known.weights.data() + open.given), {count});
    open.weights_sum = 1;  // stands for a sum that was checked when the weights were made
  } else {
    const SampleSpace& space = spaces_.at(frame->key.encoding);
    WeightedSamples weighted;
    if (count > 0) weighted = weights_.weigh(trajectory_of(readouts), readouts.trajectory.shape()[1], *frame, space);
    open.dropped += weighted.dropped;
    open.largest = std::max(open.largest, weighted.largest);
    if (readouts.last) dropped_.judge(open.dropped, open.given + count, open.largest, space);
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
  if (out.last && !(std::abs(open.weights_sum) > 0)) refuse_weights();  // zero weights make no image
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
  const KnownTrajectories::Known& known = known_for(open.batches, *frame);
  out.positions = known.trajectory->positions;
  out.weights = known.weights;
  out.timing = open.timing;
  out.first_readout = frame->window_begin;
  emit(std::move(out));
}

/// Passes on readouts that have entered a window.
void DensityCompensation::give_moved(const Readouts& readouts, const Emit<Samples>& emit) {
  const std::shared_ptr<const Frame>& frame = readouts.frame;
  const SampleSpace& space = spaces_.at(frame->key.encoding);
  check(readouts, space);
  const auto& shape = readouts.data.shape();
  const std::int64_t count = shape[0] * shape[2];
  const WeightedSamples weighted = weights_.weigh(trajectory_of(readouts), shape[2], *frame, space);
  Open& open = open_[frame->id];
  add_timing(readouts, open.timing);
  const SampleTiming timing = open.timing;
  open.given += count;
  open.dropped += weighted.dropped;
  open.largest = std::max(open.largest, weighted.largest);
  if (readouts.last) {
    const Open all = std::move(open);
    open_.erase(frame->id);
    if (frame->window_begin == 0)
      dropped_.judge(all.dropped, all.given, all.largest, space);
    else
      dropped_.warn(all.dropped, all.given);
  }
  Samples out;
  out.frame = frame;
  out.part = Samples::Part::moved;
  out.readouts = shape[0];
  out.timing = timing;
  out.first = readouts.first;
  out.last = readouts.last;
  out.data = scan_->compute.allocate<cfloat>({count, shape[1]});
  numerics::to_sample_major(scan_->compute, readouts.data.view(), out.data.view(), 0);
  out.positions = weighted.positions;
  out.weights = scan_->compute.upload<float>({weighted.positions->weights.data(), {count}});
  emit(std::move(out));
}

KnownTrajectories::Known& DensityCompensation::known_for(const std::vector<Readouts>& batches, const Frame& frame) {
  std::vector<HostView<const float>> parts;
  for (const Readouts& batch : batches) parts.push_back(trajectory_of(batch));
  const std::int64_t per_readout = batches.front().data.shape()[2];
  if (auto known = known_.equal(frame, per_readout, parts)) return remember(std::move(known), false, true);
  auto made = std::make_shared<KnownTrajectory>();
  made->encoding = frame.key.encoding;
  made->per_readout = per_readout;
  made->expected_readouts = frame.expected_readouts;
  made->components = batches.front().trajectory.shape()[2];
  std::int64_t points = 0;
  for (const auto& part : parts) points += part.size();
  // Pays for the trajectory as it came, and its positions and weights, which later scans may use; and, for a while, for
  // the memory to compute them.
  const auto count = static_cast<std::uint64_t>(points / made->components);
  const std::shared_ptr<numerics::MemoryAccount>& account = scan_->compute.account();
  const auto paid = std::make_shared<numerics::MemoryShare>(account);
  paid->grow_to(static_cast<std::uint64_t>(points) * (sizeof(float) + sizeof(double)) + count * sizeof(float));
  made->paid = paid;
  numerics::MemoryShare work(account);
  work.grow_to(count * (options_.method == "voronoi" ? kVoronoiBytes : kWorkBytes));
  const numerics::HeapScope paid_here(nullptr);
  made->raw.reserve(static_cast<std::size_t>(points));
  for (const auto& part : parts) {
    scan_->compute.check_stop();
    made->raw.insert(made->raw.end(), part.data(), part.data() + part.size());
  }
  const HostView<const float> raw(made->raw.data(),
                                  {static_cast<std::int64_t>(made->raw.size()) / made->components, made->components});
  const SampleSpace& space = spaces_.at(frame.key.encoding);
  WeightedSamples weighted = weights_.weigh(raw, made->per_readout, frame, space);
  dropped_.judge(weighted.dropped, raw.shape()[0], weighted.largest, space);
  const double sum = sum_of(scan_->compute.threads(), weighted.positions->weights);
  if (!(std::abs(sum) > 0) || !std::isfinite(sum)) refuse_weights();
  if (options_.normalize == "area") {
    const auto factor =
        static_cast<float>(support_volume(weighted.positions->coordinates, weighted.positions->dims) / sum);
    for (float& w : weighted.positions->weights) w *= factor;
  }
  scan_->compute.check_stop();
  const std::vector<double>& k = weighted.positions->coordinates;
  weighted.positions->digest =
      numerics::trajectory_digest({k.data(), {weighted.positions->count(), weighted.positions->dims}});
  made->positions = weighted.positions;
  made->dropped = weighted.dropped;
  return remember(std::move(made), true, frame.window == 0);
}

KnownTrajectories::Known& DensityCompensation::remember(std::shared_ptr<const KnownTrajectory> trajectory, bool is_new,
                                                        bool may_recur) {
  KnownTrajectories::Known& known = known_.remember(std::move(trajectory), is_new, may_recur);
  dropped_.warn(known.trajectory->dropped, known.trajectory->positions->count());
  return known;
}

}  // namespace echotrain
