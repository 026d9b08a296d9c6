#include "gadgets/gridding/known_trajectories.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "gadgets/numerics/core/resources.h"
#include "gadgets/shared/program/scan_environment.h"

namespace echotrain {
namespace {

constexpr std::uint64_t kKnownBytes = 256ull << 20;  // per session, in addition to the store
constexpr std::size_t kUploaded = 4;                 // trajectories whose weights stay on the session's device

/// Compares floats bit by bit. Where they differ, mostly the first ones do.
bool same_floats(numerics::ThreadPool& threads, const float* a, const float* b, std::int64_t n) {
  constexpr std::int64_t kWorthSharing = 1 << 18, kAtOnce = 1 << 16;
  const auto same = [&](std::int64_t begin, std::int64_t end) {
    return std::memcmp(a + begin, b + begin, static_cast<std::size_t>(end - begin) * sizeof(float)) == 0;
  };
  if (n < kWorthSharing) return same(0, n);
  if (!same(0, kAtOnce)) return false;
  std::atomic<bool> all = true;
  threads.parallel_for(n - kAtOnce, kAtOnce, [&](std::int64_t begin, std::int64_t end) {
    if (all && !same(kAtOnce + begin, kAtOnce + end)) all = false;
  });
  return all;
}

/// The key of scans that are expected to share a trajectory.
std::string store_key(const protocol::Header& header, const DensityOptions& options, const Scan& scan, bool planes) {
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

/// True if the weights of such a frame's samples are those of `known` where their positions are the same.
bool weighed_alike(const KnownTrajectory& known, const Frame& frame, std::int64_t per_readout) {
  return known.per_readout == per_readout && known.expected_readouts == frame.expected_readouts;
}

}  // namespace

bool follows(numerics::ThreadPool& threads, const KnownTrajectory& known, std::uint16_t encoding,
             numerics::HostView<const float> raw, std::int64_t offset) {
  const std::int64_t components = raw.shape()[1];
  return known.encoding == encoding && known.components == components &&
         offset + raw.shape()[0] <= known.positions->count() &&
         same_floats(threads, known.raw.data() + offset * components, raw.data(), raw.size());
}

void KnownTrajectories::start(const protocol::Header& header, const DensityOptions& options, Scan& scan, bool planes) {
  scan_ = &scan;
  owner_ = scan.compute.cache<ScanEnvironment>().owner;
  key_ = store_key(header, options, scan, planes);
  for (auto& trajectory : scan.compute.resources().get<TrajectoryStore>().find(owner_, key_)) {
    scan.add_likely_positions(trajectory->positions);
    known_.push_back({std::move(trajectory), {}});
  }
}

std::shared_ptr<const KnownTrajectory> KnownTrajectories::beginning(const Frame& frame, std::int64_t per_readout,
                                                                    numerics::HostView<const float> raw) const {
  for (const Known& known : known_)
    if (weighed_alike(*known.trajectory, frame, per_readout) &&
        follows(scan_->compute.threads(), *known.trajectory, frame.key.encoding, raw, 0))
      return known.trajectory;
  return nullptr;
}

std::shared_ptr<const KnownTrajectory> KnownTrajectories::equal(
    const Frame& frame, std::int64_t per_readout, const std::vector<numerics::HostView<const float>>& parts) const {
  std::int64_t samples = 0;
  for (const auto& part : parts) samples += part.shape()[0];
  for (const Known& known : known_) {
    if (known.trajectory->positions->count() != samples || !weighed_alike(*known.trajectory, frame, per_readout))
      continue;
    std::int64_t at = 0;
    const bool same = std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
      return follows(scan_->compute.threads(), *known.trajectory, frame.key.encoding, part,
                     std::exchange(at, at + part.shape()[0]));
    });
    if (same) return known.trajectory;
  }
  return nullptr;
}

KnownTrajectories::Known& KnownTrajectories::remember(std::shared_ptr<const KnownTrajectory> trajectory, bool is_new,
                                                      bool may_recur) {
  if (is_new && may_recur && stored_ < TrajectoryStore::kPerKey) {  // the next scan may repeat the first ones
    ++stored_;
    scan_->compute.resources().get<TrajectoryStore>().add(owner_, key_, trajectory,
                                                          scan_->compute.cache<ScanEnvironment>().client);
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
  return known;
}

}  // namespace echotrain
