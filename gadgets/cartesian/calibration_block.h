// Calibration blocks of reference lines: the largest one without a gap, cuts of it, and the notes of images about it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// The largest box about the middle row, found by adding sides while these are full, in rows z * ny + y with hits > 0:
/// first y, first z, last y, last z. Empty when the middle row has not come.
std::optional<std::array<std::int64_t, 4>> full_box(const std::vector<std::int32_t>& hits, std::int64_t ny,
                                                    std::int64_t nz);

/// Cuts a part out of k-space [coil, z, y, x]: the extents `extent` (z, y, x) from `first` (z, y, x) on.
Array<cfloat> cut_block(numerics::Context& compute, numerics::DeviceView<const cfloat> from,
                        const std::array<std::int64_t, 3>& first, const std::array<std::int64_t, 3>& extent);

/// The notes of an image about the block that goes with its frame: calibration ("embedded 24 x 256", rows and samples;
/// for a volume "embedded 24 x 24 x 256", z first), calibration_id and, for a block of other counters than the frame's,
/// calibration_of ("contrast 0, set 0"). For null: calibration "none".
std::map<std::string, std::string> calibration_notes(const Calibration* block, const FrameKey& frame);

/// Throws ClientError when the frame's coils are not those of the block, which may be null.
void check_coils(const Calibration* block, const FrameKey& frame, std::int64_t coils);

}  // namespace echotrain
