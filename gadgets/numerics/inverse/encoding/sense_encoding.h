// The SENSE encoding operator: coils measure y_c = F (S_c x). Maps are arguments, because some methods change them in
// each step.
#pragma once

#include "gadgets/numerics/inverse/operators/sampling_operator.h"

namespace echotrain::numerics {

/// d = F (S_c x_f) of all coils c and frames f. maps: [coil, image...]; x: [frame, image...]; d: operator.samples(frame
/// * coil), item f * coils + c. Allocates memory for all items' images. Throws std::invalid_argument on shapes that do
/// not fit.
void sense_forward(Context& context, const SamplingOperator& sampling, DeviceView<const cfloat> maps,
                   DeviceView<const cfloat> x, DeviceView<cfloat> d);
/// x_f = sum_c conj(S_c) F^H W d_fc.
void sense_adjoint(Context& context, const SamplingOperator& sampling, DeviceView<const cfloat> maps,
                   DeviceView<const cfloat> d, DeviceView<cfloat> x);
/// y_f = sum_c conj(S_c) F^H W F (S_c x_f), without computing samples. x, y: [frame, image...], not the same memory.
void sense_normal(Context& context, const SamplingOperator& sampling, DeviceView<const cfloat> maps,
                  DeviceView<const cfloat> x, DeviceView<cfloat> y);

}  // namespace echotrain::numerics
