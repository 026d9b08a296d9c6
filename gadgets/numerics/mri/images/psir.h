// Phase-sensitive images of inversion recovery: signed, by a reference of the same object that nothing has inverted.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct PsirOptions {
  int radius = 2;           ///< the reference is a mean over 2 radius + 1 voxels of x and of y; 0: as it is
  float threshold = 0.05f;  ///< the least reference that counts, as a part of its 99th percentile
  bool normalize = true;    ///< divide by the reference's intensity, which takes the coils' out
};

/// A reference as images are held against it. Immutable, where the context computes.
struct PsirReference {
  Array<cfloat> coils;  ///< [coil, z, y, x]
  Array<float> floor;   ///< [1]
};

/// Returns the reference of these images [coil, z, y, x]. With b = sqrt(sum_c |r_c|^2) and a floor f = threshold times
/// the 99th percentile of b, each coil becomes its mean over those voxels of its surroundings where b >= f; where there
/// are none, it stays.
PsirReference psir_reference(Context& context, DeviceView<const cfloat> reference, const PsirOptions& options);

/// to = Re(sum_c conj(r_c) v_c) / max(b, f)^2, or without `normalize` / max(b, f), b now of the smoothed reference.
/// from: [coil, z, y, x] as the reference's; to: [1, z, y, x], of imaginary part 0. Asynchronous on CUDA, as
/// psir_reference(). Throws std::invalid_argument when shapes do not fit. Source: Kellman et al., MRM 47:372-383, 2002:
/// phase and coil sensitivities of a reference that is acquired in the heartbeat in which magnetization recovers.
void psir(Context& context, DeviceView<const cfloat> from, const PsirReference& reference, bool normalize,
          DeviceView<cfloat> to);

}  // namespace echotrain::numerics
