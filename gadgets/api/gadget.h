// The whole API that a gadget author needs. A gadget is written once, for both backends, in one pair of files:
//
//   /// Convolves weighted samples onto an oversampled Cartesian grid.
//   class Gridding final : public Gadget<Samples, Grid> {
//    public:
//     struct Options { std::int64_t kernel_width = 5; };
//     static constexpr std::string_view kName = "gridding";
//     static constexpr std::string_view kSummary = "Convolves weighted samples onto an oversampled grid.";
//     static Parameters<Options> parameters();
//     explicit Gridding(Options options);
//     void start(const protocol::Header&, Session&) override;   // before data: checks, plans
//     void process(Samples&&, const Emit<Grid>&) override;      // the work
//     void finish(End, const Emit<Grid>&) override;             // the scan has ended
//   };
//
// and added to gadgets/builtin.cc, or to a plugin (gadgets/api/plugin.h). Gadgets of one session run on one thread, in
// pipeline order: emit() calls the next gadget directly. GPU work is asynchronous; a gadget never waits for it.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/items.h"
#include "gadgets/api/parameters.h"
#include "gadgets/api/side_images.h"
#include "gadgets/numerics/core/context.h"
#include "protocol/data/header.h"
#include "protocol/data/text.h"

namespace echotrain {

namespace numerics {
class Team;
}

/// The sender's fault: wrong data for this pipeline. Ends the session; the text goes to the client.
class ClientError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
using numerics::ResourceError;

/// How a scan ended: with CLOSE, or because the connection broke off.
enum class End { complete, truncated };

/// What a gadget may ask of the session it runs in.
class Session {
 public:
  using Notify = std::function<void(protocol::Level, const std::string&)>;
  Session(numerics::Context& context, config::TrajectoryUnit unit, Notify notify, ReadAsset read_asset = nullptr)
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
  /// Numbers for the log.
  struct Numbers {
    std::uint64_t plans_made = 0, plans_reused = 0;          ///< gridding plans made, and frames that found theirs
    std::uint64_t operators_made = 0, operators_reused = 0;  ///< the same for F^H F
    std::uint64_t frames_in_parts = 0;                       ///< frames gridded as their readouts came
    double plan_ms = 0;                                      ///< making plans, in all
  } numbers;

  /// A line for the client and the log. Each text is sent at most once per session.
  void info(const std::string& text) { notify_(protocol::Level::info, text); }
  void warn(const std::string& text) { notify_(protocol::Level::warning, text); }

 private:
  Notify notify_;
};

/// Hands an item on. Call it any number of times.
template <class Out>
using Emit = std::function<void(Out&&)>;

/// The type-erased face of a gadget, for the pipeline.
class AnyGadget {
 public:
  using EmitItem = std::function<void(Item&&)>;
  virtual ~AnyGadget() = default;
  virtual ItemType takes() const = 0;
  virtual ItemType gives() const = 0;
  /// Called once before data. Throws ClientError when the measurement does not suit this gadget.
  virtual void start(const protocol::Header& header, Session& session) = 0;
  /// Takes `item` if it is of its input type; any other item passes by to the next gadget.
  virtual void push(Item&& item, const EmitItem& next) = 0;
  /// What had come is taken.
  virtual void pause(const EmitItem& next) = 0;
  virtual void end(End how, const EmitItem& next) = 0;
};

template <class In, class Out>
class Gadget : public AnyGadget {
 public:
  using Input = In;
  using Output = Out;
  ItemType takes() const final { return item_type<In>; }
  ItemType gives() const final { return item_type<Out>; }

  void start(const protocol::Header& /*header*/, Session& /*session*/) override {}
  virtual void process(In&& item, const Emit<Out>& emit) = 0;
  /// All readouts that were at hand have been taken. Gives what was held only to be worked on with others.
  virtual void rest(const Emit<Out>& /*emit*/) {}
  /// Gives what is still held. Frames closed by the end of the scan arrive through process() before this.
  virtual void finish(End /*how*/, const Emit<Out>& /*emit*/) {}
  /// Side items: what neither is the input nor comes from it (waveforms, images of the client). Kept (true) or passed
  /// by.
  virtual bool take_aside(Item& /*item*/, const Emit<Out>& /*emit*/) { return false; }

  void push(Item&& item, const EmitItem& next) final {
    const Emit<Out> emit = [&next](Out&& out) { next(Item(std::move(out))); };
    if (auto* in = std::get_if<In>(&item)) {
      process(std::move(*in), emit);
    } else if (!take_aside(item, emit)) {
      next(std::move(item));
    }
  }
  void pause(const EmitItem& next) final {
    rest([&next](Out&& out) { next(Item(std::move(out))); });
  }
  void end(End how, const EmitItem& next) final {
    finish(how, [&next](Out&& out) { next(Item(std::move(out))); });
  }
};

}  // namespace echotrain
