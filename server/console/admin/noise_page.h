// The admin pages of noise and calibrations list what scans have left for later ones.
#pragma once

#include <string>
#include <vector>

#include "gadgets/shared/store/calibration_store.h"
#include "gadgets/shared/store/noise_store.h"

namespace echotrain::server {

/// {"noise": [{"id_digest": "1f03d28c", "coils": 12, ...}]}, the newest first: age [s], dwell time [us], samples, and
/// of each coil its label (where known) and the standard deviation of its real part's noise in the units of the
/// readouts, and the largest correlation of two coils. Nothing in it tells whose scan it was.
std::string noise_json(const std::vector<NoiseStore::Listed>& known);

/// {"calibration": [{"id_digest": "1f03d28c", "coils": 12, "lines": 24, ...}]}, the newest first: age [s], bytes, and
/// the coils' labels (where known).
std::string calibration_json(const std::vector<CalibrationStore::Listed>& known);

}  // namespace echotrain::server
