// The facts of the view "Diagnose" of one scan are written as JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/console/live/recent_images.h"
#include "server/console/live/scan_diagnosis.h"

namespace echotrain::server {

/// ScanDiagnosis::json() with "images": what gadgets have written to the kept images, of the names that tell of
/// quality:
/// {"looked_at": 12, "facts": [{"name": "ghost_level", "newest": "0.012", "values": [...]}]}, the oldest image first.
/// "images" is null where no image of the scan is kept. Takes milliseconds: reads the attributes of up to
/// kMostLookedAt images. `images` may be null.
std::string diagnosis_json(const ScanDiagnosis& scan, const RecentImages* images, bool coils);
inline constexpr std::size_t kMostLookedAt = 128;

}  // namespace echotrain::server
