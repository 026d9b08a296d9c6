// The scan in which a gadget runs: what it computes with, what it may ask and whom it tells.
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
class Team;  // gadgets/numerics/team/team.h
}

/// What the gadgets of a scan counted, for the log.
struct ScanNumbers {
  std::uint64_t plans_made = 0, plans_reused = 0;          ///< gridding plans made, and frames that found theirs
  std::uint64_t operators_made = 0, operators_reused = 0;  ///< the same for F^H F
  std::uint64_t frames_in_parts = 0;                       ///< frames gridded as their readouts came
  double plan_ms = 0;                                      ///< making plans, in all
};

/// What a gadget may ask of the scan it runs in. Confined to the pipeline's thread.
class Scan {
 public:
  using Notify = std::function<void(protocol::Level, const std::string&)>;
  Scan(numerics::Context& context, config::TrajectoryUnit unit, Notify notify, ReadAsset read_asset = nullptr)
      : compute(context),
        trajectory_unit(unit),
        side_images(context, std::move(read_asset)),
        notify_(std::move(notify)) {}

  numerics::Context& compute;
  numerics::Team* team = nullptr;  ///< of several devices, `compute` being its first; null: there is one
  const config::TrajectoryUnit trajectory_unit;
  /// Set at start() by the gadget that turns a stack's third axis into planes: gadgets after it see 2D data.
  bool stacked = false;
  /// Set at start() by a gadget that takes Samples in parts as they come; without it they come as whole frames.
  bool takes_parts = false;
  /// The same for what enters a sliding window; without it each of its frames comes whole.
  bool takes_windows = false;
  /// Set at start() by the gadget that makes Samples of Readouts, if it needs no other readout for each.
  bool weighs_apart = false;
  /// Of a sliding window's frame only those Readouts come that have entered since the frame before it; what came before
  /// its last one comes before that has come.
  bool moves_windows() const { return takes_windows && weighs_apart; }
  /// Trajectories that this scan probably has: those of scans with such a header. Set by the gadget that knows them,
  /// for those after it to prepare plans by.
  std::vector<std::shared_ptr<const SamplePositions>> likely_positions;
  /// Coil maps and references. A gadget says at start() what it wants.
  SideImages side_images;
  ScanNumbers numbers;

  /// A line for the client and the log. Each text is sent at most once per scan.
  void info(const std::string& text) { notify_(protocol::Level::info, text); }
  void warn(const std::string& text) { notify_(protocol::Level::warning, text); }

 private:
  Notify notify_;
};

}  // namespace echotrain
