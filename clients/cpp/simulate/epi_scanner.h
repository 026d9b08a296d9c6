// The EPI scanner acquires by echo-planar imaging: `echotrain simulate --trajectory epi`.
#pragma once

#include <array>
#include <map>
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
  /// Returns where sample `s` lies, in cycles/pixel, when the gradient comes `late` us late.
  double position(int s, bool reversed, double late) const;
  /// Returns the element trajectoryDescription.
  std::string header(const SimulateOptions& options) const;

 private:
  double area(double time) const;
  double matrix_;
};

/// Acquires the lines of Cartesian scans in echo trains, `shots` for each slice of a frame, each after its navigators.
/// Every second echo of a train is read backwards, in the order of time, flagged as reversed, and has a phase that
/// makes a ghost of `ghost` times the object, and one that varies over the image, `ghost_wave` times cos(pi (x + 2 y) /
/// fov), as a series of k-space's shifts (Jacobi and Anger: exact to 1e-12). The gradient comes late by
/// `gradient_delay`; the whole object is off resonance by b0 + frame * b0_drift, and by what rises along x and y. The
/// header knows none of this.
///
/// Reference lines that come before the frames are EPI, too, or plain lines as FLASH acquires them: regular, forward,
/// on resonance; or EPI twice, the second time with all directions the other way. With `multiband` F of S slices,
/// readouts of group g are sums of the slices g, g + S/F, ...; blips turn the phase of the m-th of these by m /
/// fov_shift from line to line, 0 at the centre of k-space. References and what comes with them are of one slice each.
class EpiScanner {
 public:
  /// `phantoms` are one, or one for each slice. Throws UsageError for options that EPI does not have.
  EpiScanner(const SimulateOptions& options, const ScanPath& scan, const Undersampling& lines,
             const std::vector<Phantom>& phantoms, const CoilSet& coils, protocol::DatasetWriter& file);

  void scan();
  std::uint32_t written() const { return writer_.written(); }
  /// Returns how many readouts a frame's slice has, navigators among them.
  std::size_t readouts() const;
  int samples() const { return readout_.samples; }

 private:
  struct Echo {
    int line = 0;
    bool navigator = false, reversed = false, image = true, calibration = false;
    double begin_us = 0;  // since the train began
  };
  /// A slice, or several at once: how far apart, and how many.
  struct Slices {
    int first = 0, apart = 0, count = 1;
  };
  std::vector<std::vector<Echo>> trains(const std::vector<AcquiredReadout>& list, bool opposite = false) const;
  std::vector<Slices> order(bool reference) const;
  void acquire(int frame, const std::vector<AcquiredReadout>& list, bool reference);
  void object_kspace(const Phantom& phantom, double kx, double ky, bool reversed, std::vector<cdouble>& signal) const;
  void plain_references();
  const Phantom& phantom_of(int slice) const;
  ReadoutWriter::Samples measure(const Echo& echo, const Slices& slices, double b0_hz) const;
  const std::vector<ReadoutWriter::Samples>& measured(const std::vector<Echo>& train, const Slices& slices,
                                                      double b0_hz);

  const SimulateOptions& options_;
  const ScanPath& scan_;
  const Undersampling& lines_;
  const std::vector<Phantom>& phantoms_;
  const CoilSet& coils_;
  EpiReadout readout_;
  ReadoutWriter writer_;
  double clock_ms_ = 0;  // when the next train begins
  /// The trains without noise, by what tells them apart: the first slice that differs, how many at once, the last line,
  /// how many lines, and whether they are references, and in which direction they begin. Kept where frames repeat them.
  std::map<std::array<int, 5>, std::vector<ReadoutWriter::Samples>> known_;
};

}  // namespace echotrain::client
