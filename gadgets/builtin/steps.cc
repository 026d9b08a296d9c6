// The family gadgets/steps.
#include "gadgets/builtin/families.h"
#include "gadgets/steps/mrd_server.h"
#include "gadgets/steps/python.h"

namespace echotrain {

namespace {

/// Adds a step between any items that messages can carry. RawBatch comes before Readouts: a pipeline's first step gets
/// messages as the client sent them.
template <class Kind>
void add_step(Registry& to) {
  to.add<Step<Kind, RawBatch, Image>>();
  to.add<Step<Kind, Readouts, Image>>();
  to.add<Step<Kind, Readouts, Readouts>>();
  to.add<Step<Kind, Image, Image>>();
}

}  // namespace

void add_steps(Registry& to) {
  add_step<Python>(to);
  add_step<MrdServer>(to);
}

}  // namespace echotrain
