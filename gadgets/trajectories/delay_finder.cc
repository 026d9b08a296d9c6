#include "gadgets/trajectories/delay_finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace echotrain {
namespace {

constexpr double kWidestGap = 40 * std::numbers::pi / 180;
constexpr std::int64_t kMostSpokes = 128, kMostChannels = 32;  // the most that an estimate uses
constexpr std::int64_t kFewestSpokes = 13;                     // at the end of a frame
constexpr std::int64_t kMostTimesWanted = 16;                  // readouts tested, in multiples of those wanted
constexpr std::int64_t kLookAgain = 8;                         // spokes between two tests

/// The channels with most power, at most kMostChannels, in their order.
std::vector<std::int64_t> strongest(const std::vector<double>& power) {
  std::vector<std::int64_t> order(power.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return power[static_cast<std::size_t>(a)] > power[static_cast<std::size_t>(b)];
  });
  order.resize(std::min<std::size_t>(order.size(), kMostChannels));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

bool DelayFinder::counts(const Spoke& spoke, const FrameKey& key) const {
  return first_ && *first_ == anatomy_of(key) && std::abs(spoke.step - step_) < 0.01 * step_ &&
         std::abs(spoke.z) < 0.5 * spoke.step;
}

void DelayFinder::add(const Readouts& readouts, const TrajectorySpace& space) {
  for (std::size_t i = 0; i < readouts.heads.size() && !full_; ++i) {
    full_ = ++readouts_ >= kMostTimesWanted * wanted_;
    const auto spoke = readouts.trajectory ? spoke_of(readouts, i, space) : std::nullopt;
    if (!spoke || std::abs(spoke->z) >= 0.5 * spoke->step) continue;
    if (!first_) {
      first_ = anatomy_of(readouts.frame->key);
      step_ = spoke->step;
    }
    if (!counts(*spoke, readouts.frame->key)) continue;
    angles_.push_back(std::atan2(spoke->direction[1], spoke->direction[0]));
    if (spokes() >= wanted_ && (spokes() - wanted_) % kLookAgain == 0)
      full_ = full_ || go_round(method_ == "cross_correlation");
  }
}

bool DelayFinder::enough(bool frame_ends) const {
  return full_ ||
         (frame_ends && spokes() >= std::min(kFewestSpokes, wanted_) && go_round(method_ == "cross_correlation"));
}

bool DelayFinder::go_round(bool opposed) const {
  const double turn = opposed ? 2 * std::numbers::pi : std::numbers::pi;
  std::vector<double> angles;
  for (const double a : angles_) angles.push_back(a - turn * std::floor(a / turn));
  if (angles.size() < 3) return false;
  std::sort(angles.begin(), angles.end());
  double widest = angles.front() + turn - angles.back();
  for (std::size_t i = 0; i + 1 < angles.size(); ++i) widest = std::max(widest, angles[i + 1] - angles[i]);
  return widest <= kWidestGap;
}

/// Spokes with their samples, all of the same length about k = 0.
numerics::Spokes DelayFinder::with_samples(Scan& scan, const TrajectorySpace& space,
                                           const std::vector<const Readouts*>& held) const {
  struct Candidate {
    const Readouts* batch;
    std::size_t i;
    Spoke spoke;
  };
  std::vector<Candidate> candidates;
  for (const Readouts* batch : held)
    for (std::size_t i = 0; i < batch->heads.size(); ++i)
      if (const auto spoke =
              static_cast<std::int64_t>(candidates.size()) < spokes() ? spoke_of(*batch, i, space) : std::nullopt;
          spoke && counts(*spoke, batch->frame->key))
        candidates.push_back({batch, i, *spoke});
  if (static_cast<std::int64_t>(candidates.size()) > kMostSpokes) {
    std::vector<Candidate> some;  // evenly spaced in time: linear orders go round only in all of them
    for (std::size_t k = 0; k < static_cast<std::size_t>(kMostSpokes); ++k)
      some.push_back(candidates[k * candidates.size() / static_cast<std::size_t>(kMostSpokes)]);
    candidates = std::move(some);
  }
  numerics::Spokes out;
  if (candidates.empty()) return out;
  const auto& shape = candidates.front().batch->data.shape();
  const std::int64_t all = shape[1];
  out.samples = candidates.front().spoke.end - candidates.front().spoke.begin;
  std::erase_if(candidates, [&](const Candidate& p) {
    return p.spoke.end - p.spoke.begin != out.samples || p.batch->data.shape()[1] != all;
  });
  std::vector<HostArray<cfloat>> samples;  // samples of the batches, [readout, channel, sample]
  std::vector<std::pair<const Readouts*, std::size_t>> of_batch;
  for (const Candidate& p : candidates) {
    if (of_batch.empty() || of_batch.back().first != p.batch) {
      of_batch.emplace_back(p.batch, samples.size());
      samples.push_back(scan.compute.place_on_host(p.batch->data));
    }
  }
  scan.compute.synchronize();
  const auto line = [&](const Candidate& p, std::int64_t channel) {
    const auto found =
        std::find_if(of_batch.begin(), of_batch.end(), [&](const auto& b) { return b.first == p.batch; });
    const std::int64_t length = p.batch->data.shape()[2];
    return samples[found->second].data() + (static_cast<std::int64_t>(p.i) * all + channel) * length + p.spoke.begin;
  };
  std::vector<double> power(static_cast<std::size_t>(all));
  for (const Candidate& p : candidates)
    for (std::int64_t c = 0; c < all; ++c) {
      const cfloat* value = line(p, c);
      for (std::int64_t s = 0; s < out.samples; ++s) power[static_cast<std::size_t>(c)] += std::norm(value[s]);
    }
  const std::vector<std::int64_t> channels = strongest(power);
  out.channels = static_cast<std::int64_t>(channels.size());
  const std::size_t values = candidates.size() * static_cast<std::size_t>(out.samples * out.channels);
  out.data.resize(values);
  cfloat* to = out.data.data();
  for (const Candidate& p : candidates) {
    scan.compute.check_stop();
    out.directions.push_back(p.spoke.direction);
    out.first.push_back(p.spoke.first);
    for (std::int64_t c = 0; c < out.channels; ++c) {
      const cfloat* value = line(p, channels[static_cast<std::size_t>(c)]);
      for (std::int64_t s = 0; s < out.samples; ++s) to[s * out.channels + c] = value[s];
    }
    to += out.samples * out.channels;
  }
  return out;
}

DelayFinder::Found DelayFinder::find(Scan& scan, const TrajectorySpace& space,
                                     const std::vector<const Readouts*>& held) const {
  Found out;
  out.method = method_;
  if (spokes() < 3) {
    out.warning =
        "trajectory_correction: the trajectory is kept as it came: its readouts are no spokes through the centre of "
        "k-space (straight, evenly sampled, on both sides of it); use method: given or girf";
    return out;
  }
  const numerics::Spokes asked = with_samples(scan, space, held);
  out.spokes = asked.count();
  const auto between = [&] { scan.compute.check_stop(); };
  numerics::DelayEstimate estimate;
  if (method_ == "cross_correlation") {
    estimate = go_round(true) ? numerics::cross_correlation(asked, between)
                              : numerics::DelayEstimate{{}, "spokes do not oppose each other", 0};
    if (!estimate.delays) {
      out.warning =
          fmt::format("trajectory_correction: cross_correlation cannot tell the delays ({}); ring is used instead",
                      estimate.reason);
      out.method = "ring";
    }
  }
  if (out.method == "ring") estimate = numerics::ring(asked, between);
  out.mismatch = estimate.mismatch;
  if (estimate.delays)
    out.delays = estimate.delays->rounded();
  else
    out.warning =
        fmt::format("trajectory_correction: the trajectory is kept as it came; {} spokes do not tell delays: {}",
                    out.spokes, estimate.reason);
  return out;
}

}  // namespace echotrain
