// A scan by echo-planar imaging: `echotrain simulate --trajectory epi`.
#pragma once

#include <string>
#include <vector>

#include "clients/cpp/simulate/readout_writer.h"
#include "clients/cpp/simulate/undersampling.h"

namespace echotrain::client {

/// A trapezoidal readout gradient, and when it is sampled [us]. Sampling leaves out the first and the last 0.15 of each
/// ramp; as many samples as are needed for steps of 0.9 on the flat part, or, without ramps, one for each point.
struct EpiReadout {
  EpiReadout(const EpiOptions& options, int matrix);

  double ramp, flat, delay, dwell;
  int samples;
  double echo_spacing() const { return 2 * ramp + flat; }
  /// Where sample `s` lies, in cycles/pixel, when the gradient comes `late` us late.
  double position(int s, bool reversed, double late) const;
  /// The element trajectoryDescription.
  std::string header(const SimulateOptions& options) const;

 private:
  double area(double time) const;
  double matrix_;
};

/// Acquires the lines of Cartesian scans in echo trains, `shots` for each slice of a frame, each after its navigators.
/// Every second echo of a train is read backwards, in the order of time, flagged as reversed, and has a phase that
/// makes a ghost of `ghost` times the object. The gradient comes late by `gradient_delay`; the whole object is off
/// resonance by b0 + frame * b0_drift, and by what rises along x and y. The header knows none of this.
class EpiScanner {
 public:
  /// phantoms: one, or one for each slice. UsageError for options that EPI does not have.
  EpiScanner(const SimulateOptions& options, const ScanPath& scan, const Undersampling& lines,
             const std::vector<Phantom>& phantoms, const CoilSet& coils, protocol::DatasetWriter& file);

  void scan();
  std::uint32_t written() const { return writer_.written(); }
  /// Readouts of a frame's slice, navigators among them.
  std::size_t readouts() const;
  int samples() const { return readout_.samples; }

 private:
  struct Echo {
    int line = 0;
    bool navigator = false, reversed = false, image = true, calibration = false;
    double begin_us = 0;  // since the train began
  };
  std::vector<std::vector<Echo>> trains(const std::vector<AcquiredReadout>& list) const;
  void acquire(int frame, const std::vector<AcquiredReadout>& list, bool reference);
  ReadoutWriter::Samples measure(const Echo& echo, const Phantom& phantom, double b0_hz) const;

  const SimulateOptions& options_;
  const ScanPath& scan_;
  const Undersampling& lines_;
  const std::vector<Phantom>& phantoms_;
  const CoilSet& coils_;
  EpiReadout readout_;
  ReadoutWriter writer_;
  double clock_ms_ = 0;  // when the next train begins
};

}  // namespace echotrain::client
