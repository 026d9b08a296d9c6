// The family gadgets/steps.
#include "gadgets/builtin/families.h"
#include "gadgets/images/image.h"
#include "gadgets/steps/arrays/array_step.h"
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

/// Adds the steps of arrays that take In.
template <class In>
void add_array_steps(Registry& to) {
  to.add<ArrayStep<In, In>>();
  if constexpr (!std::is_same_v<In, CoilImages>) to.add<ArrayStep<In, CoilImages>>();
  to.add<ArrayStep<In, Image, ImageOutput>>();
}

}  // namespace

void add_steps(Registry& to) {
  add_step<Python>(to);
  to.add<ArrayStep<Readouts, Readouts>>();
  add_array_steps<KSpace>(to);
  add_array_steps<Samples>(to);
  add_array_steps<NormalEquations>(to);
  add_array_steps<CoilImages>(to);
  to.add<ArrayStep<Image, Image>>();
  add_step<MrdServer>(to);
}

}  // namespace echotrain
