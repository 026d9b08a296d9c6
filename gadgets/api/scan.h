// The Scan in which a gadget runs: its resources, facts and messages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/items.h"
#include "gadgets/api/side_images.h"
#include "gadgets/numerics/core/context.h"
#include "protocol/data/text.h"

namespace echotrain {

namespace numerics {
class Team;  // gadgets/numerics/core/team/team.h
}

/// The end of a scan: with CLOSE, or because the connection broke off.
enum class End { complete, truncated };

/// The counts of a scan, for the log and for metrics.
struct ScanNumbers {
  std::uint64_t plans_made = 0, plans_reused = 0;          ///< gridding plans made, and frames that reused one
  std::uint64_t operators_made = 0, operators_reused = 0;  ///< likewise operators F^H W F
  std::uint64_t weights_made = 0, weights_reused = 0;      ///< likewise weights that unmix coils (grappa, sense)
  double weights_ms = 0;                                   ///< time to make these, in all
  std::uint64_t frames_refused = 0;                        ///< frames that gave no image, with a warning
  std::uint64_t frames_dropped = 0;                        ///< frames left out because newer ones waited already
  std::uint64_t frames_in_parts = 0;                       ///< frames gridded as their readouts came
  double plan_ms = 0;                                      ///< time to make plans, in all
  std::uint64_t images_not_finite = 0, images_saturated = 0, images_all_zero = 0;  ///< images that have such pixels
};

/// The ways in which the data of a frame may reach a gadget, from least to most. Each gadget declares the most that it
/// can take; the pipeline chooses once, before start(), the most that all gadgets of its chain can take
/// (gadgets/engine/chain/delivery.h).
enum class Delivery {
  frames,  ///< Samples come as whole frames. Readouts come in batches; each frame of a sliding window comes with all of
           ///< its readouts.
  parts,   ///< Samples may come in parts as their readouts come, except in frames of a sliding window
  windows  ///< as `parts`; a frame of a sliding window comes with only the readouts that entered since the previous
           ///< frame, and all but the last of these come before the last has arrived
};

/// A Scan gives gadgets the services and facts of the scan they run in. Confined to the pipeline's thread.
class Scan {
 public:
  using Notify = std::function<void(protocol::Level, const std::string&)>;
  Scan(numerics::Context& context, config::TrajectoryUnit unit, Notify notify, ReadAsset read_asset = nullptr,
       Delivery chosen = Delivery::frames, numerics::Team* devices = nullptr)
      : compute(context),
        team(devices),
        trajectory_unit(unit),
        delivery(chosen),
        side_images(context, std::move(read_asset)),
        notify_(std::move(notify)) {}

  numerics::Context& compute;
  numerics::Team* const team;  ///< several devices, the first of which is `compute`; null: only one device
  const config::TrajectoryUnit trajectory_unit;
  const Delivery delivery;  ///< delivery of this scan's data
  /// Coil maps and references. A gadget asks for them in start().
  SideImages side_images;
  ScanNumbers numbers;
  /// If true, more readouts wait already, and gadgets skip expensive diagnostics.
  bool behind = false;

  /// The trajectories that this scan probably has: those of earlier scans with such a header, most likely first. The
  /// gadget that knows them adds them in its start(); gadgets after it prepare plans for them in theirs.
  const std::vector<std::shared_ptr<const SamplePositions>>& likely_positions() const { return likely_positions_; }
  void add_likely_positions(std::shared_ptr<const SamplePositions> positions) {
    likely_positions_.push_back(std::move(positions));
  }

  /// Sends a line to the client and the log, each text at most once per scan.
  void info(const std::string& text) { notify_(protocol::Level::info, text); }
  void warn(const std::string& text) { notify_(protocol::Level::warning, text); }

 private:
  Notify notify_;
  std::vector<std::shared_ptr<const SamplePositions>> likely_positions_;
};

}  // namespace echotrain
