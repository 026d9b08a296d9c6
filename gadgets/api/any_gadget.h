// AnyGadget is a gadget as a pipeline sees it, with its input and output types erased.
#pragma once

#include <functional>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "protocol/data/header.h"

namespace echotrain {

/// Hands an item on. Call it any number of times.
template <class Out>
using Emit = std::function<void(Out&&)>;

/// The interface of all gadgets for the pipeline, without their types.
class AnyGadget {
 public:
  using EmitItem = std::function<void(Item&&)>;
  virtual ~AnyGadget() = default;
  virtual ItemType takes() const = 0;
  virtual ItemType gives() const = 0;
  /// Called once before data. Throws ClientError when the measurement does not suit this gadget.
  virtual void start(const protocol::Header& header, Scan& scan) = 0;
  /// Processes `item` if it has the input type; passes any other item to the next gadget, unless it keeps it.
  virtual void push(Item&& item, const EmitItem& next) = 0;
  /// Called after each batch of readouts; a Gadget passes it on to rest().
  virtual void pause(const EmitItem& next) = 0;
  /// Called once after all data; a Gadget passes it on to finish().
  virtual void end(End how, const EmitItem& next) = 0;
};

}  // namespace echotrain
