#include "gadgets/shared/hybrid_frames.h"

namespace echotrain {

void clear_missing_rows(numerics::Context& context, HybridFrame& frame) {
  const auto& shape = frame.half.shape();  // [coil, row, x]
  for (std::int64_t coil = 0; coil < shape[0]; ++coil)
    for (std::int64_t row = 0; row < shape[1]; ++row)
      if (frame.lines->came[static_cast<std::size_t>(row)] == 0)
        context.clear(frame.half.view().slice(coil).slice(row));
}

}  // namespace echotrain
