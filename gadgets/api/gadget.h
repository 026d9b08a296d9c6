// The API of gadgets, all that a gadget's author needs. A gadget is written once, for both backends, in one pair of
// files:
//
//   /// Convolves weighted samples onto an oversampled Cartesian grid.
//   class Gridding final : public Gadget<Samples, Grid> {
//    public:
//     struct Options { std::int64_t kernel_width = 5; };
//     static constexpr std::string_view kName = "gridding";
//     static constexpr std::string_view kSummary = "Convolves weighted samples onto an oversampled grid.";
//     static Parameters<Options> parameters();
//     explicit Gridding(Options options);
//     void start(const protocol::Header&, Scan&) override;      // before data: checks, plans
//     void process(Samples&&, const Emit<Grid>&) override;      // the work
//     void finish(End, const Emit<Grid>&) override;             // the scan has ended
//   };
//
// and added to gadgets/builtin, or to a plugin (gadgets/api/plugin.h). Gadgets of one scan run on one thread, in
// pipeline order: emit() calls the next gadget directly. GPU work is asynchronous; a gadget never waits for it.
#pragma once

#include <string_view>
#include <utility>
#include <variant>

#include "gadgets/api/any_gadget.h"
#include "gadgets/api/errors.h"
#include "gadgets/api/items.h"
#include "gadgets/api/parameters.h"
#include "gadgets/api/scan.h"
#include "protocol/data/header.h"

namespace echotrain {

template <class In, class Out>
class Gadget : public AnyGadget {
 public:
  using Input = In;
  using Output = Out;
  /// The way in which data may reach this gadget. A gadget that can take more than whole frames redeclares this, or, if
  /// that depends on its options, has a static function `Delivery delivery(const Options&)`.
  static constexpr Delivery kDelivery = Delivery::frames;
  ItemType takes() const final { return item_type<In>; }
  ItemType gives() const final { return item_type<Out>; }

  void start(const protocol::Header& /*header*/, Scan& /*scan*/) override {}
  virtual void process(In&& item, const Emit<Out>& emit) = 0;
  /// Called after each batch of readouts. Emits items that the gadget has held back to process several at once.
  virtual void rest(const Emit<Out>& /*emit*/) {}
  /// Emits all items still held. Frames closed by the end of the scan arrive through process() before this.
  virtual void finish(End /*how*/, const Emit<Out>& /*emit*/) {}
  /// Takes side items, which are neither the input nor made from it (waveforms, the client's images). Returns true if
  /// it keeps the item; else the item goes on to the next gadget.
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
