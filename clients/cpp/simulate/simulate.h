// The command `echotrain simulate` writes scans of analytic phantoms as ISMRMRD files.
#pragma once

#include <iosfwd>
#include <string>

#include "clients/cpp/simulate/simulate_options.h"
#include "clients/cpp/simulate/trajectory.h"

namespace echotrain::client {

/// Writes the scan and says on `out` what was written. k-space units: the integral over the object in pixels, so that
/// object values are image values; noise sigma becomes sigma / matrix in a Cartesian image without oversampling. Throws
/// UsageError for options that do not go together, protocol::DatasetError for a file that cannot be written.
void simulate(const SimulateOptions& options, std::ostream& out);

/// Returns the time between readouts: tr_ms if given, else 5 ms, or for a heart such that `phases` of them take 0.9 of
/// a mean beat.
double repetition_time_ms(const SimulateOptions& options);

/// Returns the ISMRMRD header of the simulated scan.
std::string simulated_header(const SimulateOptions& options, const ScanPath& scan);

}  // namespace echotrain::client
