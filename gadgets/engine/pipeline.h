// A Pipeline is a checked chain of gadgets with its branches, and one scan running through it. It needs no server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/errors.h"
#include "gadgets/api/items.h"
#include "gadgets/api/registry.h"
#include "gadgets/api/scan.h"
#include "protocol/data/messages.h"

namespace echotrain {

class AnyGadget;    // gadgets/api/gadget.h
struct ChainPlan;   // gadgets/engine/chain/chain_plan.h
struct FrameTimes;  // gadgets/engine/chain/gadget_clock.h

/// A pipeline file whose gadgets exist, whose parameters are right and whose types fit together.
class PipelinePlan {
 public:
  /// Checks a pipeline. Throws config::ConfigError with file:line:column when something does not fit. Reads no data and
  /// makes no plan.
  static std::shared_ptr<const PipelinePlan> check(config::PipelineSpec spec,
                                                   const Registry& registry = Registry::builtin());

  const config::PipelineSpec& spec() const { return spec_; }
  /// The chain and its branches, as checked.
  const ChainPlan& chain() const { return *chain_; }
  /// Item types along the chain, entrance first: one more than gadgets and branches.
  const std::vector<ItemType>& types() const;
  /// True if it works on images of the client, so that it needs no measurement's header.
  bool takes_images() const;
  /// Tells why a scan of so many readouts and images of the client gives no result here, and what to do; empty if it
  /// may give one.
  std::string misfit(std::uint64_t readouts, std::uint64_t images) const;
  /// The way in which the data of frames reach these gadgets.
  Delivery delivery() const { return delivery_; }
  /// Describes the plan: one line per gadget: "gridding: Samples -> Grid"; one per branch, with its gadgets below it;
  /// and one per group of gadgets that run as one. Then, if the file has one, the chain for accelerated scans.
  std::string describe() const;
  /// The chain that a scan with this header runs through: the file's chain `accelerated`, if it has one and the header
  /// announces R > 1, else this.
  const PipelinePlan& chain_for(const protocol::Header& header) const;
  /// The file's chain `accelerated`; null if it has none.
  const PipelinePlan* accelerated() const { return accelerated_.get(); }

 private:
  friend class Pipeline;
  config::PipelineSpec spec_;
  std::shared_ptr<const ChainPlan> chain_;
  Delivery delivery_ = Delivery::frames;
  std::shared_ptr<const PipelinePlan> accelerated_;  ///< null: there is no other chain
};

/// Chooses the backend for `spec`: the pipeline's own choice beats `server_choice`; automatic takes CUDA if it works.
/// Throws ResourceError, naming the reason, when an explicit choice is not available.
numerics::Backend choose_backend(const config::PipelineSpec& spec, config::BackendChoice server_choice);

/// The receivers of a pipeline's results.
struct PipelineSink {
  /// Takes an image whose pixels are complete. May be called on a thread other than the pipeline's, and until
  /// Pipeline::wait() has returned. Must not block for long and must not throw.
  std::function<void(protocol::Image&&, const ImageTimes&)> image;
  /// Takes a line for the client; called on the pipeline's thread.
  std::function<void(protocol::Level, const std::string&)> text;
};

/// The observers of a running scan. Both are called on the pipeline's thread, and either may be empty.
struct PipelineObserver {
  /// Called after a push in which images left, with the time that the thread spent in each place since images left
  /// before, and the names of the places (GadgetClock), which stay the same once the scan has started.
  std::function<void(const FrameTimes&, const std::vector<std::string>&)> frame;
  /// Called with each item before a gadget gets it.
  std::function<void(const AnyGadget&, const Item&)> item;
};

/// Counts of a finished or running scan.
struct PipelineCounts {
  std::uint64_t readouts = 0, waveforms = 0, images_in = 0, images_out = 0, frames = 0, late_readouts = 0;
  ScanNumbers work;
};

/// One scan, through the plan's chain for its header. Confined to one thread; throws ClientError, ResourceError, or any
/// exception of a bug.
class Pipeline {
 public:
  /// `read_asset` reads the files that pipelines may name; without it there are none. `team`: devices that gadgets may
  /// share their work with, the first of which is `compute`; it must outlive this.
  Pipeline(std::shared_ptr<const PipelinePlan> plan, numerics::Context& compute, PipelineSink sink,
           ReadAsset read_asset = nullptr, numerics::Team* team = nullptr);
  ~Pipeline();

  /// Checks the measurement against every gadget. Call it before any data.
  void start(const protocol::Header& header);
  /// Takes batches in order of arrival, or an empty one (ScanEnvironment). Acquisitions must have passed
  /// protocol::AcquisitionCheck. `waiting`: number of later readouts that will be pushed, too; these may be worked on
  /// together. Not given, as for files: no frame is left out by `when_behind: drop_oldest`.
  void push(std::vector<protocol::Acquisition>&& readouts, std::optional<std::int64_t> waiting = std::nullopt);
  /// Takes an image that a gadget has asked for (coil maps, a reference), or one that the pipeline or a branch of it
  /// works on.
  void push(protocol::Image&& image);
  void push(protocol::Waveform&& waveform);
  /// Ends the scan: closes open frames (complete) or drops partial ones (truncated). Throws ClientError when all of a
  /// complete scan was of a kind that the pipeline leaves out.
  void finish(End how);
  /// Waits until all images have been given to the sink, and reports their bad pixels. Throws ResourceError when the
  /// device failed.
  void wait();

  const PipelineCounts& counts() const;

  /// Calls `tap` with every item that leaves gadget `name`, passed on or made there, before the next gadget gets it. Of
  /// several gadgets of that name, the chain's first one is meant, else the first one of a branch. Returns false if no
  /// chain of the pipeline has one. For `echotrain recon --save-after`. Call it before start(): tapped gadgets are not
  /// fused with others, and frames come whole.
  bool tap(const std::string& name, std::function<void(const Item&)> tap);
  /// Sets observers. Call it before start(). It does not change the pipeline's work.
  void watch(PipelineObserver watch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain
