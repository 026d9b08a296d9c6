// Gradient impulse responses (GIRF) from an asset.
#pragma once

#include "gadgets/api/scan.h"
#include "gadgets/numerics/mri/trajectory/girf.h"

namespace echotrain {

/// The role of the image that holds the responses.
inline constexpr const char* kGirfRole = "girf";

/// Reads the table in an image [4, 1, 1, n] of the role `girf`: channel 0 the frequency [kHz], ascending, channels 1 to
/// 3 the responses of X, Y, Z (docs/trajectories.md). Throws ClientError that tells what does not fit.
numerics::Girf girf_table(Scan& scan);

}  // namespace echotrain
