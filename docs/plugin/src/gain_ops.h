// The work of the gadget, once for each backend.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace example {

using echotrain::numerics::cfloat;
using echotrain::numerics::Context;
using echotrain::numerics::View;

/// to = factor * from, element by element, where the context computes; both views have one size.
void amplify(Context& context, View<const cfloat> from, float factor, View<cfloat> to);

namespace cpu {
void amplify(Context& context, View<const cfloat> from, float factor, View<cfloat> to);
}  // namespace cpu

namespace cuda {
/// On the context's device, in the order of its stream.
void amplify(Context& context, View<const cfloat> from, float factor, View<cfloat> to);
}  // namespace cuda

}  // namespace example
