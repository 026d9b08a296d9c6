// The readout writer puts simulated readouts into a file.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "clients/cpp/simulate/simulate.h"
#include "clients/cpp/simulate/subject/coils.h"
#include "clients/cpp/simulate/trajectory.h"
#include "protocol/files/dataset.h"

namespace echotrain::client {

/// Writes readouts in the order in which a scanner would send them: counts them, and adds the noise.
class ReadoutWriter {
 public:
  using Samples = std::vector<std::complex<float>>;

  ReadoutWriter(const SimulateOptions& options, const ScanPath& scan, protocol::DatasetWriter& file)
      : options_(options),
        scan_(scan),
        file_(file),
        noise_(options.seed, options.noise, options.coils, correlated(options)) {}

  /// Returns the next readout's header: its counter, its time since the scan began [ms], sizes, and an upright slice.
  protocol::AcquisitionHeader header(int trajectory_dims, double milliseconds) const;
  /// Writes a readout. data: [coil, sample], without noise.
  void write(const protocol::AcquisitionHeader& head, std::vector<float> trajectory, Samples data);
  /// Writes readouts that hold only noise, of this dwell time, as strong as in all others. 0: that of header().
  void noise_readouts(double sample_time_us = 0);
  std::uint32_t written() const { return counter_; }
  /// True if coils share noise: in scans whose noise is measured, here or in a scan of its own.
  static bool correlated(const SimulateOptions& options) {
    return options.noise_scan || options.noise_only || !options.noise_dependency.empty();
  }

 private:
  const SimulateOptions& options_;
  const ScanPath& scan_;
  protocol::DatasetWriter& file_;
  NoiseSource noise_;
  std::uint32_t counter_ = 0;
};

/// Sets a flag of a readout; a flag's number counts from 1.
inline void raise_flag(protocol::AcquisitionHeader& head, bool when, ISMRMRD::ISMRMRD_AcquisitionFlags flag) {
  if (when) head.flags |= 1ull << (flag - 1);
}

/// Sets the flags of a reference line, of one for images, too, or of neither.
inline void raise_calibration(protocol::AcquisitionHeader& head, bool image, bool calibration) {
  raise_flag(
      head, calibration,
      image ? ISMRMRD::ISMRMRD_ACQ_IS_PARALLEL_CALIBRATION_AND_IMAGING : ISMRMRD::ISMRMRD_ACQ_IS_PARALLEL_CALIBRATION);
}

/// Returns the place of slice `slice` along z [mm]: slices lie kSliceMm apart about the isocentre.
double slice_mm(const SimulateOptions& options, int slice);
/// Sets the head's slice and its position.
void place_slice(protocol::AcquisitionHeader& head, const SimulateOptions& options, int slice);

inline constexpr double kSliceMm = 5;

}  // namespace echotrain::client
