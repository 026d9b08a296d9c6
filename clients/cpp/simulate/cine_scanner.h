// The cine scanner acquires a beating heart: `echotrain simulate --motion cardiac`.
#pragma once

#include <optional>
#include <vector>

#include "clients/cpp/simulate/readout_writer.h"
#include "clients/cpp/simulate/subject/heart.h"
#include "clients/cpp/simulate/subject/physiology.h"
#include "clients/cpp/simulate/undersampling.h"

namespace echotrain::client {

/// Acquires lines, spokes or spirals of a heart that moves (Phantom::beating), each readout of the heart at its moment,
/// and writes the ECG of the whole scan.
///
/// prospective: one line per heartbeat and slice: each beat's trigger starts `phases` readouts of one line, numbered by
/// idx.phase. The middle of the p-th is at (p + 1/2) TR. A beat that begins before the last of them is over is skipped.
/// Source: the cine of GPU Gems 2, section 48.5.2: 192 cycles of 13 raster lines of different frames. retrospective:
/// readouts run on every TR from before the first beat, idx.phase is 0, and each trigger moves on to the next line.
/// free: readouts run on every TR without regard to the heart, all lines of a frame in turn, `sweeps` times over;
/// before each `centre_every` lines the central one is acquired once more. idx.phase is 0. The n-th readout of all,
/// from 0, is of the moment (n + 1/2) TR. Spokes and spirals are always acquired so.
///
/// An accelerated scan's lines are those of Undersampling. An interleaved lattice moves from phase to phase
/// (prospective), from readout to readout (retrospective) or from sweep to sweep (free).
///
/// physiology_time_stamp[0] counts from the last R wave, and where the chest breathes [1] from the last breath's
/// beginning; before the first, they are 0. The array `displacement_mm` then says, of each imaging readout, how far
/// heart and lungs were from where they are at expiration, which is where `truth` has them.
class CineScanner {
 public:
  CineScanner(const SimulateOptions& options, const ScanPath& scan, const Undersampling& lines, const CoilSet& coils,
              protocol::DatasetWriter& file, const std::optional<Physiology>& physiology);

  void noise_readouts() { writer_.noise_readouts(); }
  void scan();
  std::uint32_t written() const { return writer_.written(); }
  /// Returns the body at a moment of the scan.
  Phantom at(double ms) { return phantom(body(ms)); }

  /// Returns the phase of the beat, 0 .. 1, that image `phase` shows: the time (phase + 1/2) TR in a beat of mean
  /// length, or, for retrospective and free scans, (phase + 1/2) / phases.
  static double shown_phase(const SimulateOptions& options, int phase);

 private:
  struct Shot {
    int repetition, slice, phase;
    AcquiredReadout line;
    double milliseconds;
    bool last_in_slice, last_in_repetition;
  };
  /// The lines of a frame; `n` counts what the lattice moves with, where it does.
  std::vector<AcquiredReadout> lines_of(int repetition, int n) const;
  std::vector<Shot> prospective();
  std::vector<Shot> retrospective();
  std::vector<Shot> free_running();
  void check_physiology(double last_ms) const;
  /// The state of the body at a moment.
  struct Body {
    double phase, strength;  // of the heart
    double shift_mm;         // by the breath
  };
  Body body(double ms);
  Phantom phantom(const Body& body) const;
  ReadoutWriter::Samples measure(const Shot& shot, const Body& body) const;
  void write(const Shot& shot, ReadoutWriter::Samples data);

  const SimulateOptions& options_;
  const ScanPath& scan_;
  const Undersampling& lines_;
  const CoilSet& coils_;
  protocol::DatasetWriter& file_;
  ReadoutWriter writer_;
  const double known_until_ms_;  // the last R wave of a file; infinite without one
  Heart heart_;
  std::optional<Breathing> breathing_;
};

}  // namespace echotrain::client
