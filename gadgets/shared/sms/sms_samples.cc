#include "gadgets/shared/sms/sms_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <utility>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/mri/density/density.h"

namespace echotrain {
namespace {

constexpr double kLargest = 0.5005;  // cycles/pixel; a hair beyond the edge is rounding in the sender

/// The ramps of readouts, each as if it were the only one; rotated copies of the previous one have the same ramp.
class Ramps {
 public:
  /// positions: [sample, 2], cycles/pixel of the encoded matrix.
  const std::vector<float>& of(const std::vector<double>& positions) {
    constexpr double kSame = 1e-7;  // trajectories come in fp32
    std::vector<double> radii;
    for (std::size_t s = 0; 2 * s < positions.size(); ++s)
      radii.push_back(std::hypot(positions[2 * s], positions[2 * s + 1]));
    bool same = radii.size() == radii_.size();
    for (std::size_t s = 0; same && s < radii.size(); ++s) same = std::abs(radii[s] - radii_[s]) <= kSame;
    if (!same) {
      const auto samples = static_cast<std::int64_t>(radii.size());
      weights_ = numerics::ramp_density(numerics::HostView<const double>(positions.data(), {1, samples, 2}),
                                        kLargest * std::numbers::sqrt2, /*by_angle=*/false);
      radii_ = std::move(radii);
    }
    return weights_;
  }

 private:
  std::vector<double> radii_;
  std::vector<float> weights_;
};

}  // namespace

cfloat SmsEncoding::factor(std::int64_t m, std::int64_t n) const {
  const double turns = static_cast<double>(m * n % slices) / static_cast<double>(slices);
  return cfloat(std::polar(1.0, (negative ? -2 : 2) * std::numbers::pi * turns));
}

void SmsFrame::add(Readouts&& readouts, const SmsEncoding& encoding, bool from_data, numerics::Context& compute) {
  if (readouts.heads.empty()) return;
  const std::int64_t have = readouts.trajectory ? readouts.trajectory.shape()[2] : 0;
  if (from_data ? have != 3 : have < 2)
    throw ClientError(fmt::format(
        "{}: readouts come with {} trajectory dimensions, but {} are needed [{}]", gadget_, have, from_data ? 3 : 2,
        from_data ? "kx, ky, and the weight, as `weights: from_data` says" : "kx and ky in the plane of the slices"));
  if (!empty() && readouts.data.shape()[1] != coils())
    throw ClientError(
        fmt::format("the number of channels changes within a scan, from {} to {}", coils(), readouts.data.shape()[1]));
  std::vector<std::uint16_t>& phases = phases_.emplace_back();
  for (const auto& head : readouts.heads) {
    phases.push_back(static_cast<std::uint16_t>(encoding.phase_of(head)));
    largest_counter_ = std::max(largest_counter_, encoding.counter_of(head));
  }
  decltype(readouts.heads)().swap(readouts.heads);  // keeps only memory that the session's budget counts
  compute.check_stop();
  batches_.push_back(std::move(readouts));
}

std::vector<SmsSamples> SmsFrame::sorted(const Space& space, std::int64_t slices, numerics::Context& compute,
                                         SmsTally& tally) const {
  std::vector<SmsSamples> out(static_cast<std::size_t>(slices));
  const auto of_phase = [&](std::uint16_t phase) -> SmsSamples& { return out[phase]; };
  std::int64_t samples = 0;
  for (std::size_t b = 0; b < batches_.size(); ++b)
    for (const std::uint16_t phase : phases_[b]) {
      of_phase(phase).count += batches_[b].data.shape()[2];
      samples += batches_[b].data.shape()[2];
    }
  numerics::MemoryShare(compute.account())
      .grow_to(static_cast<std::uint64_t>(samples) * (2 * sizeof(double) + sizeof(float)));  // makes room for it
  std::vector<std::vector<double>> coordinates(out.size());
  std::vector<std::vector<float>> weights(out.size());
  for (std::size_t n = 0; n < out.size(); ++n) {
    if (out[n].count > 0) out[n].data = compute.allocate<cfloat>({out[n].count, coils()});
    coordinates[n].reserve(static_cast<std::size_t>(2 * out[n].count));
    weights[n].reserve(static_cast<std::size_t>(out[n].count));
  }
  Ramps ramps;
  std::vector<double> positions;
  for (std::size_t b = 0; b < batches_.size(); ++b) {
    const Readouts& batch = batches_[b];
    const std::int64_t per_readout = batch.data.shape()[2], components = batch.trajectory.shape()[2];
    const auto readouts = static_cast<std::int64_t>(phases_[b].size());
    for (std::int64_t begin = 0, end = 0; begin < readouts; begin = end) {  // runs of one phase
      const std::uint16_t phase = phases_[b][static_cast<std::size_t>(begin)];
      while (end < readouts && phases_[b][static_cast<std::size_t>(end)] == phase) ++end;
      const auto first = static_cast<std::int64_t>(weights[phase].size());
      numerics::to_sample_major(
          compute, batch.data.cview().part(begin * coils() * per_readout, {end - begin, coils(), per_readout}),
          of_phase(phase).data.view(), first);
      for (std::int64_t r = begin; r < end; ++r) {
        compute.check_stop();
        const float* raw = batch.trajectory.data() + r * per_readout * components;
        positions.clear();
        for (std::int64_t s = 0; s < per_readout; ++s)
          for (std::size_t a = 0; a < 2; ++a)
            positions.push_back(static_cast<double>(raw[s * components + static_cast<std::int64_t>(a)]) *
                                space.to_cycles_per_pixel[a]);
        const std::vector<float>* ramp = space.from_data ? nullptr : &ramps.of(positions);
        for (std::size_t s = 0; s < static_cast<std::size_t>(per_readout); ++s) {
          bool outside = false;
          for (std::size_t a = 0; a < 2; ++a) {
            const double k = positions[2 * s + a], of_image = k * space.voxel_ratio[a];
            outside |= !(std::abs(k) <= kLargest && std::abs(of_image) <= kLargest);  // also if it is not a number
            coordinates[phase].push_back(of_image);
          }
          tally.beyond += outside ? 1 : 0;
          if (outside)
            for (std::size_t a = 0; a < 2; ++a)
              coordinates[phase][coordinates[phase].size() - 1 - a] = std::numeric_limits<double>::quiet_NaN();
          const float weight = ramp ? (*ramp)[s] : raw[static_cast<std::int64_t>(s) * components + 2];
          weights[phase].push_back(outside ? 0.0f : weight);
          tally.weight += static_cast<double>(weights[phase].back());
        }
      }
    }
  }
  tally.samples = samples;
  for (std::size_t n = 0; n < out.size(); ++n) {
    if (out[n].count == 0) continue;
    ++tally.numbers;
    out[n].coordinates = compute.upload<double>({coordinates[n].data(), {out[n].count, 2}});
    out[n].weights = compute.upload<float>({weights[n].data(), {out[n].count}});
  }
  return out;
}

}  // namespace echotrain
