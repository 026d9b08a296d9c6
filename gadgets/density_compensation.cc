#include "gadgets/density_compensation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "gadgets/measurement.h"
#include "gadgets/numerics/density.h"
#include "gadgets/numerics/layout.h"

namespace echotrain {
namespace {

constexpr double kLargest = 0.5005;  // cycles/pixel; a hair beyond the edge is rounding in the sender
constexpr std::size_t kKnownTrajectories = 4;

/// Volume of the disc or ball that the samples reach.
double support_volume(const std::vector<double>& coordinates, int dims) {
  double largest = 0;
  for (std::size_t s = 0; s + static_cast<std::size_t>(dims) <= coordinates.size();
       s += static_cast<std::size_t>(dims)) {
    double r2 = 0;
    for (int a = 0; a < dims; ++a)
      r2 += coordinates[s + static_cast<std::size_t>(a)] * coordinates[s + static_cast<std::size_t>(a)];
    largest = std::max(largest, r2);
  }
  const double r = std::sqrt(largest);
  return dims == 3 ? 4.0 / 3.0 * std::numbers::pi * r * r * r : std::numbers::pi * r * r;
}

}  // namespace

Parameters<DensityCompensation::Options> DensityCompensation::parameters() {
  return Parameters<Options>()
      .choice("method", &Options::method, {"from_data", "ramp", "none"},
              "from_data: the trajectory's last component is the weight, used as it is. ramp: analytic, from each "
              "sample's shell "
              "(radial, spiral, koosh-ball). none: every sample counts 1")
      .choice(
          "normalize", &Options::normalize, {"none", "area"},
          "area: rescales the weights so that they sum to the area (volume) of the disc (ball) that the samples reach");
}

void DensityCompensation::start(const protocol::Header& header, Session& session) {
  session_ = &session;
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
    space.dims = session.stacked ? 2 : geometry.dims;
    space.voxel_ratio = geometry.voxel_ratio;
    for (std::size_t a = 0; a < 3; ++a) {
      space.matrix[a] = encoding.encoded.matrix[a];
      space.pixel_m[a] = encoding.encoded.fov_mm[a] / space.matrix[a] / 1000;
      switch (session.trajectory_unit) {
        case config::TrajectoryUnit::cycles_per_pixel:
          break;
        case config::TrajectoryUnit::cycles_per_fov:
          space.to_cycles_per_pixel[a] = 1 / space.matrix[a];
          break;
        case config::TrajectoryUnit::radians_per_pixel:
          space.to_cycles_per_pixel[a] = 0.5 / std::numbers::pi;
          break;
        case config::TrajectoryUnit::cycles_per_m:
          space.to_cycles_per_pixel[a] = space.pixel_m[a];
          break;
      }
    }
    spaces_.push_back(space);
  }
}

void DensityCompensation::process(Readouts&& readouts, const Emit<Samples>& emit) {
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  const std::shared_ptr<Frame> frame = readouts.frame;
  const bool last = readouts.last;
  const Space& space = spaces_.at(frame->key.encoding);
  Buffer& buffer = open_[frame->id];
  if (!readouts.heads.empty()) {
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
    buffer.readouts += readouts.data.shape()[0];
    readouts.heads = {};  // only what the session's budget counts is kept
    buffer.batches.push_back(std::move(readouts));
  }
  if (!last) return;
  const Buffer whole = std::move(buffer);
  open_.erase(frame->id);
  if (!whole.batches.empty()) emit(gather(whole, space, frame));
}

Samples DensityCompensation::gather(const Buffer& buffer, const Space& space, const std::shared_ptr<Frame>& frame) {
  const auto& shape = buffer.batches.front().data.shape();
  const std::int64_t coils = shape[1], per_readout = shape[2], total = buffer.readouts * per_readout;
  const auto dims = static_cast<std::size_t>(space.dims);

  Samples out;
  out.frame = frame;
  out.data = session_->compute.allocate<cfloat>({total, coils});
  std::vector<double> coordinates(static_cast<std::size_t>(total) * dims);
  std::vector<float> data_weights;
  if (options_.method == "from_data") data_weights.resize(static_cast<std::size_t>(total));

  std::int64_t at = 0;
  for (const Readouts& batch : buffer.batches) {
    numerics::to_sample_major(session_->compute, batch.data.view(), out.data.view(), at);
    const auto stride = static_cast<std::size_t>(batch.trajectory.shape()[2]);
    const std::int64_t count = batch.data.shape()[0] * per_readout;
    const float* from = batch.trajectory.data();
    for (std::int64_t s = 0; s < count; ++s, from += stride, ++at) {
      for (std::size_t a = 0; a < dims; ++a)
        coordinates[static_cast<std::size_t>(at) * dims + a] =
            static_cast<double>(from[a]) * space.to_cycles_per_pixel[a];
      if (!data_weights.empty()) data_weights[static_cast<std::size_t>(at)] = from[dims];
    }
  }
  Known known = weigh(std::move(coordinates), std::move(data_weights), frame->key.encoding, per_readout);
  out.positions = known.positions;
  out.weights = known.weights;
  return out;
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

/// Which samples no image voxel can hold. ClientError when most are.
std::vector<bool> DensityCompensation::outside(const std::vector<double>& coordinates, const Space& space) {
  const auto dims = static_cast<std::size_t>(space.dims);
  const std::size_t total = coordinates.size() / dims;
  std::vector<bool> out(total);
  std::size_t dropped = 0;
  double largest = 0;  // in the data's numbers
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
  if (2 * dropped > total)
    throw ClientError(fmt::format(
        "{} of {} samples lie beyond 0.5 cycles/pixel (largest {:.4g} in the data's numbers): the trajectory "
        "is likely in {}; set the pipeline's trajectory_unit",
        dropped, total, largest, likely_unit(largest, space)));
  if (dropped > 0 && !std::exchange(warned_, true))
    session_->warn(
        fmt::format("{} of {} samples of a frame lie beyond 0.5 cycles/pixel and are dropped", dropped, total));
  return out;
}

DensityCompensation::Known DensityCompensation::weigh(std::vector<double> coordinates, std::vector<float> data_weights,
                                                      std::uint16_t encoding, std::int64_t samples_per_readout) {
  const Space& space = spaces_.at(encoding);
  const auto dims = static_cast<std::size_t>(space.dims);
  const auto total = static_cast<std::int64_t>(coordinates.size() / dims);
  const std::uint64_t digest = numerics::trajectory_digest({coordinates.data(), {total, space.dims}});
  std::uint64_t weights_digest = 0;
  if (!data_weights.empty()) {
    const std::vector<double> exact(data_weights.begin(), data_weights.end());
    weights_digest = numerics::trajectory_digest({exact.data(), {total, 1}});
  }
  for (std::size_t i = 0; i < known_.size(); ++i)
    if (known_[i].encoding == encoding && known_[i].positions->digest == digest &&
        known_[i].weights_digest == weights_digest) {
      std::rotate(known_.begin(), known_.begin() + static_cast<std::ptrdiff_t>(i),
                  known_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return known_.front();
    }

  const std::vector<bool> unusable = outside(coordinates, space);
  const numerics::View<const double> by_readout(coordinates.data(),
                                                {total / samples_per_readout, samples_per_readout, space.dims});
  std::vector<float> weights;
  if (options_.method == "ramp")
    weights = numerics::ramp_density(by_readout, kLargest * std::sqrt(static_cast<double>(dims)));
  else if (options_.method == "from_data")
    weights = std::move(data_weights);
  else
    weights.assign(static_cast<std::size_t>(total), 1.0f);
  for (std::int64_t s = 0; s < total; ++s)
    if (unusable[static_cast<std::size_t>(s)]) {
      weights[static_cast<std::size_t>(s)] = 0;
      std::fill_n(coordinates.begin() + s * space.dims, dims, 0.0);
    }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(std::abs(sum) > 0) || !std::isfinite(sum))
    throw ClientError(
        "the density weights sum to nothing: all samples lie at one point, or the weights sent with the data are zero");
  if (options_.normalize == "area") {
    const auto factor = static_cast<float>(support_volume(coordinates, space.dims) / sum);
    for (float& w : weights) w *= factor;
  }

  auto positions = std::make_shared<SamplePositions>();
  positions->dims = space.dims;
  positions->coordinates = std::move(coordinates);
  positions->digest = digest;
  Known known{encoding, positions, weights_digest, session_->compute.upload<float>({weights.data(), {total}})};
  known_.insert(known_.begin(), known);
  if (known_.size() > kKnownTrajectories) known_.pop_back();
  return known;
}

}  // namespace echotrain
