// A Branch is one branch of a running scan's chain.
#pragma once

#include <cstdint>

#include "gadgets/api/scan.h"
#include "gadgets/engine/chain/chain.h"
#include "gadgets/engine/chain/condition.h"
#include "gadgets/shared/incoming/image_input.h"

namespace echotrain {

/// A chain that gets copies of another chain's items. Its images go to the client under series numbers of their own,
/// or, with a role, to the gadgets that ask for images of that role; this then waits for the device. Waveforms end
/// here, as they go on along the other chain.
class Branch {
 public:
  Branch(const BranchPlan& plan, const ChainBuild& making);
  Branch(const Branch&) = delete;  // the chain refers to this
  Branch& operator=(const Branch&) = delete;

  const BranchPlan& plan() const { return plan_; }
  const Condition& condition() const { return condition_; }
  Chain& chain() { return chain_; }

  void start(const protocol::Header& header, Scan& scan);
  /// Takes an image that the client sent, whose message the branch wants.
  void take(protocol::Image message);
  /// The number of frames that take() has made of images, here and in branches of this one.
  std::uint64_t frames() const { return images_.frames() + chain_.frames(); }

 private:
  void leave(Item&& item);
  void give(protocol::Image&& message);

  const BranchPlan& plan_;
  const Condition condition_;
  AnyGadget::EmitItem send_;
  Scan* scan_ = nullptr;
  ImageInput images_;
  Chain chain_;
};

}  // namespace echotrain
