// A RankedPipeline runs on several ranks at once: rank 0 gives all of them the scan, each runs the same gadgets, and
// gadgets that can divide their work (fhd with method: exact, pcg) do so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/core/team/ranks.h"
#include "gadgets/numerics/core/team/team.h"

namespace echotrain {

/// Rank 0's handle on the other ranks, each of which runs follow().
class Followers {
 public:
  explicit Followers(numerics::Ranks& ranks) : ranks_(ranks) {}
  /// Lets the others return from follow(). Returns false when they are in the middle of a scan and cannot be told.
  bool dismiss();
  int size() const { return ranks_.size(); }

 private:
  friend class RankedPipeline;
  void send(std::vector<std::byte>&& step) { numerics::broadcast(ranks_, step, 0); }
  numerics::Ranks& ranks_;
  bool busy_ = false;
};

/// A scan, run by rank 0 and its followers. Functions are as Pipeline's; those that wait for another rank throw
/// ResourceError when it has failed. Without followers it behaves as a Pipeline.
class RankedPipeline {
 public:
  /// `followers` may be null. Arguments as Pipeline's. Throws ResourceError when the ranks cannot work together.
  RankedPipeline(Followers* followers, const std::shared_ptr<const PipelinePlan>& plan, numerics::Context& compute,
                 PipelineSink sink, ReadAsset read_asset = nullptr);

  void start(const protocol::Header& header);
  void push(std::vector<protocol::Acquisition>&& readouts);
  void push(protocol::Image&& image);
  void push(protocol::Waveform&& waveform);
  void finish(End how);
  /// Waits as Pipeline::wait() does. After finish() it also waits for the followers; they can then begin another scan.
  void wait();
  const PipelineCounts& counts() const { return pipeline_->counts(); }
  bool tap(const std::string& name, std::function<void(const Item&)> tap);

 private:
  Followers* followers_;
  std::optional<numerics::Team> team_;
  std::vector<std::string> taps_;
  std::optional<Pipeline> pipeline_;
  bool finished_ = false;
};

/// Takes part in scan after scan until rank 0 dismisses this rank; for all ranks but the first. Throws any error that
/// ends the scan or keeps this rank from taking part in it: the caller must then tell the other ranks.
void follow(numerics::Ranks& ranks, const std::shared_ptr<numerics::Resources>& resources);

}  // namespace echotrain
