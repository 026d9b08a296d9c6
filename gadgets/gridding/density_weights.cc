#include "gadgets/gridding/density_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/mri/density/density.h"
#include "gadgets/numerics/mri/density/density_pipe_menon.h"
#include "gadgets/numerics/mri/density/density_voronoi.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain {

using numerics::HostView;

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

WeightedSamples DensityWeights::weigh(HostView<const float> raw, std::int64_t per_readout, const Frame& frame,
                                      const SampleSpace& space) {
  const auto dims = static_cast<std::size_t>(space.dims);
  const std::int64_t total = raw.shape()[0], components = raw.shape()[1];
  WeightedSamples out;
  out.positions = std::make_shared<SamplePositions>();
  out.positions->dims = space.dims;
  out.positions->encoding = frame.key.encoding;
  std::vector<double>& coordinates = out.positions->coordinates;
  coordinates.resize(static_cast<std::size_t>(total) * dims);
  numerics::StopCheck check_stop(scan_->compute.stop_token());
  for (std::int64_t s = 0; s < total; ++s, check_stop())
    for (std::size_t a = 0; a < dims; ++a)
      coordinates[static_cast<std::size_t>(s) * dims + a] =
          static_cast<double>(raw[s * components + static_cast<std::int64_t>(a)]) * space.to_cycles_per_pixel[a];

  scan_->compute.check_stop();
  const std::vector<bool> unusable = outside(coordinates, space, out.dropped, out.largest);
  if (options_.method == "from_data") {
    out.positions->weights.resize(static_cast<std::size_t>(total));
    for (std::int64_t s = 0; s < total; ++s)
      out.positions->weights[static_cast<std::size_t>(s)] = raw[s * components + space.dims];
  } else {
    out.positions->weights =
        computed_weights({coordinates.data(), {total / per_readout, per_readout, space.dims}}, unusable, frame, space);
  }
  for (std::int64_t s = 0; s < total; ++s)
    if (unusable[static_cast<std::size_t>(s)]) {
      out.positions->weights[static_cast<std::size_t>(s)] = 0;
      std::fill_n(coordinates.begin() + s * space.dims, dims, std::numeric_limits<double>::quiet_NaN());
    }
  return out;
}

/// Computes the weights. coordinates: [readout, sample, dims].
std::vector<float> DensityWeights::computed_weights(HostView<const double> coordinates,
                                                    const std::vector<bool>& unusable, const Frame& frame,
                                                    const SampleSpace& space) {
  const auto dims = static_cast<int>(coordinates.shape()[2]);
  const std::int64_t total = coordinates.shape()[0] * coordinates.shape()[1];
  const double k_max = kLargestComponent * std::sqrt(static_cast<double>(dims));
  if (options_.method == "none") return std::vector<float>(static_cast<std::size_t>(total), 1.0f);
  if (options_.method == "ramp") {
    if (options_.share == "gaps") return numerics::ramp_density(coordinates, k_max, true, scan_->compute.stop_token());
    const std::int64_t readouts = frame.expected_readouts > 0 ? frame.expected_readouts : coordinates.shape()[0];
    std::vector<float> weights;
    for (std::int64_t r = 0; r < coordinates.shape()[0]; ++r) {
      scan_->compute.check_stop();
      const std::vector<float>& spoke = spoke_weights(coordinates.slice(r), k_max);
      for (const float w : spoke) weights.push_back(w / static_cast<float>(readouts));
    }
    return weights;
  }
  try {
    if (options_.method == "voronoi")
      return numerics::voronoi_density(scan_->compute.threads(), coordinates.reshaped({total, dims}), k_max);
    std::vector<double> usable(coordinates.data(), coordinates.data() + coordinates.size());
    for (std::int64_t s = 0; s < total; ++s)
      if (unusable[static_cast<std::size_t>(s)])
        std::fill_n(usable.begin() + s * dims, dims, std::numeric_limits<double>::quiet_NaN());
    numerics::Shape image;
    for (int a = dims; a-- > 0;) image.push_back(static_cast<std::int64_t>(space.matrix[static_cast<std::size_t>(a)]));
    numerics::Context& compute = scan_->compute;
    const auto plan = numerics::NufftPlan::make(compute, {usable.data(), {total, dims}}, image);
    const auto result = numerics::pipe_menon_density(compute, *plan, {}, static_cast<int>(options_.iterations));
    const auto host = compute.download<float>(result.weights.view());
    scan_->info(
        fmt::format("density compensation: Pipe and Menon's residual went from {:.2g} to {:.2g} in {} iterations",
                    result.residuals.front(), result.residuals[static_cast<std::size_t>(result.best)], result.best));
    return {host.data(), host.data() + host.size()};
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("density compensation '{}': {}", options_.method, error.what()));
  }
}

/// Computes the ramp of one readout, as if it were the only one. Readouts that are rotated copies of each other have
/// the same weights, which are computed once. coordinates: [sample, dims].
const std::vector<float>& DensityWeights::spoke_weights(HostView<const double> coordinates, double k_max) {
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
