// KnownTrajectories keeps the trajectories of a scan, and of earlier scans with the same header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/gridding/density_options.h"
#include "gadgets/shared/cache/trajectory_store.h"

namespace echotrain {

/// True if `raw`, [sample, component], continues a trajectory from its sample `offset` on.
bool follows(numerics::ThreadPool& threads, const KnownTrajectory& known, std::uint16_t encoding,
             numerics::HostView<const float> raw, std::int64_t offset);

class KnownTrajectories {
 public:
  /// A trajectory and its weights where this session computes.
  struct Known {
    std::shared_ptr<const KnownTrajectory> trajectory;
    Array<float> weights;  // uploaded when first used
  };

  /// Takes the trajectories of the same client's such scans from the store, and gives `scan` their positions.
  void start(const protocol::Header& header, const DensityOptions& options, Scan& scan, bool planes);
  /// The trajectory of such a frame that begins with `raw`; nullptr if there is none. raw: [sample, component].
  /// per_readout: samples of its first readouts, as for equal().
  std::shared_ptr<const KnownTrajectory> beginning(const Frame& frame, std::int64_t per_readout,
                                                   numerics::HostView<const float> raw) const;
  /// The trajectory of such a frame that equals `parts`, [sample, component], one after another; nullptr if there is
  /// none.
  std::shared_ptr<const KnownTrajectory> equal(const Frame& frame, std::int64_t per_readout,
                                               const std::vector<numerics::HostView<const float>>& parts) const;
  /// Makes a trajectory this scan's most recent one.
  Known& remember(std::shared_ptr<const KnownTrajectory> trajectory, bool is_new, bool may_recur);

 private:
  Scan* scan_ = nullptr;
  std::string owner_, key_;   // owner and key in the store
  std::vector<Known> known_;  // most recent first, bounded
  std::size_t stored_ = 0;
};

}  // namespace echotrain
