// The normal operator F^H W F of planes whose mask keeps whole lines, on the CPU: column by column, as transforms along
// x cancel.
#pragma once

#include "gadgets/numerics/inverse/encoding/masked_fourier_ops.h"

namespace echotrain::numerics::cpu {

/// y = sum_c conj(maps_c) F^H W F (maps_c x), coils in their order. g: a grid of planes, with `columns`; factors: the
/// mask in FFT order over the number of points, [y]; maps: [coil, image...]; x, y: [image...], not the same memory.
void masked_columns(Context& context, const MaskedGrid& g, const float* factors, const GridImages& coils,
                    const cfloat* x, cfloat* y);

}  // namespace echotrain::numerics::cpu
