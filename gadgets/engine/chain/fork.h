// A Fork is the place in a chain where branches leave it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/api/any_gadget.h"
#include "gadgets/engine/chain/branch.h"

namespace echotrain {

/// Neighbouring branches of a chain, as one gadget that changes no items: each item goes to the branches that take it,
/// in the order of the file, before it goes on. A branch with pass_on: false keeps its items from the branches behind
/// it and from the chain. The last taker gets the item itself, the others copies.
class Fork final : public AnyGadget {
 public:
  /// `ends`: no gadget of the chain takes the items that the branches leave. `type`: the type of the items.
  Fork(std::vector<std::unique_ptr<Branch>> branches, ItemType type, bool ends);

  ItemType takes() const override { return type_; }
  ItemType gives() const override { return type_; }
  void start(const protocol::Header& header, Scan& scan) override;
  void push(Item&& item, const EmitItem& next) override;
  void pause(const EmitItem& next) override;
  void end(End how, const EmitItem& next) override;

  /// Gives an image that the client sent, in a pipeline of readouts, to the branches that take it.
  OfferResult offer(const protocol::Image& message);
  bool tap(const std::string& name, const Chain::Tap& on_item);
  std::uint64_t frames() const;
  /// The header for gadgets behind the fork: without encoding spaces all of whose readouts branches keep.
  protocol::Header left_of(const protocol::Header& header) const;

 private:
  void tell_left_out(const Item& item);

  std::vector<std::unique_ptr<Branch>> branches_;
  const ItemType type_;
  const bool ends_;
  Scan* scan_ = nullptr;
  std::vector<Branch*> takers_;  // takers of one item; a member to reuse its memory
  bool left_out_ = false;        // the warning was given
};

}  // namespace echotrain
