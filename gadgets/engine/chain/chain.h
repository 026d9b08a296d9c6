// A chain of gadgets of one running scan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/api/any_gadget.h"
#include "gadgets/api/image_steps.h"
#include "gadgets/engine/chain/chain_plan.h"
#include "gadgets/engine/chain/gadget_clock.h"
#include "gadgets/numerics/core/progress.h"

namespace echotrain {

class Fork;

/// The inputs for making the gadgets of a tree.
struct ChainBuild {
  bool fuse = true;              ///< one gadget may stand for several
  bool cuda = false;             ///< the scan's backend is CUDA
  AnyGadget::EmitItem send;      ///< takes the images that branches have for the client
  GadgetClock* clock = nullptr;  ///< measures the gadgets, whose places it gets; null: no measurement
  std::string branch{};          ///< "branch 2: ", before the names of their places
  /// Called with each item before a gadget gets it; may be empty.
  std::function<void(const AnyGadget&, const Item&)> look{};
};

/// The fate of an image that the client sent, in a pipeline of readouts.
struct OfferResult {
  bool taken = false;   ///< by a branch
  bool goes_on = true;  ///< no branch has kept it from others
};

/// Runs items through gadgets in the order of the plan, depth first. Each of them, and each branch, may have a chain of
/// its own behind it; pause() and end() reach all of them, a branch's before those of the gadgets behind it.
class Chain {
 public:
  using Tap = std::function<void(const Item&)>;

  /// `leave` takes the items at the chain's end. `plan` must outlive this.
  Chain(const ChainPlan& plan, const ChainBuild& making, AnyGadget::EmitItem leave);
  ~Chain();
  Chain(const Chain&) = delete;  // its functions refer to it
  Chain& operator=(const Chain&) = delete;

  void start(const protocol::Header& header, Scan& scan);
  void push(Item&& item) { give(0, std::move(item)); }
  void pause();
  void end(End how);

  OfferResult offer(const protocol::Image& message);
  /// Calls `on_item` with each item that leaves the first gadget of this name, in this chain or else in a branch,
  /// before the next gadget gets it. Returns false if there is no such gadget. For chains that were made without
  /// fusing.
  bool tap(const std::string& name, const Tap& on_item);
  /// The number of the client's images that branches have made frames of.
  std::uint64_t frames() const;

 private:
  std::size_t add_fork(std::size_t first, const ChainBuild& making);
  std::size_t add_gadget(std::size_t first, const ChainBuild& making);
  void give(std::size_t gadget, Item&& item);
  /// While the result exists, the scan's thread is in this gadget, for observers of its progress.
  numerics::Progress::Stay stay_in(std::size_t gadget) const {
    return {progress_.get(), plan_.gadgets[first_of(gadget)].name};
  }

  /// While the result exists, time counts as this gadget's if it changes images.
  ImageSteps::Stay step_of(std::size_t gadget, const Item& item) const {
    const bool changes = std::holds_alternative<CoilImages>(item) && forks_[gadget] == nullptr;
    return {changes ? steps_ : nullptr, plan_.gadgets[first_of(gadget)].name};
  }
  std::size_t first_of(std::size_t gadget) const { return gadget == 0 ? 0 : last_of_[gadget - 1] + 1; }

  const ChainPlan& plan_;
  const AnyGadget::EmitItem leave_;
  std::vector<std::unique_ptr<AnyGadget>> gadgets_;
  std::vector<Fork*> forks_;               // [i]: gadget i, if it is a Fork
  std::vector<AnyGadget::EmitItem> next_;  // [i] takes the items of gadget i
  std::vector<std::size_t> last_of_;       // [i]: the last place of the plan that gadget i stands for
  std::map<std::size_t, Tap> taps_;        // by a gadget's place in the plan
  GadgetClock* const clock_;
  const std::shared_ptr<numerics::Progress> progress_ = numerics::Progress::of_thread();
  const std::function<void(const AnyGadget&, const Item&)> look_;
  std::vector<std::size_t> clock_place_;  // [i]: place of gadget i; all 0 without a clock
  ImageSteps* steps_ = nullptr;           // of the scan, once it has started
};

}  // namespace echotrain
