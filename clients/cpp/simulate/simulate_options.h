// The simulate options are those of `echotrain simulate`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "clients/cpp/base/progress.h"
#include "config/command_line.h"
#include "config/option.h"

namespace echotrain::client {

/// A linear array and the plane waves it sends.
struct UltrasoundOptions {
  int elements = 128, angles = 1;
  double angle_span_deg = 20;  ///< from the first wave's angle to the last's
  double pitch_mm = 0.15, center_mhz = 5, sampling_mhz = 20, sound_m_per_s = 1540;
  double depth_mm = 40;  ///< of the image's end
  bool iq = false;       ///< demodulated at the centre frequency; otherwise RF
};

/// The readouts that a Cartesian scan leaves out (clients/cpp/simulate/undersampling.h).
struct UndersamplingOptions {
  std::string acceleration = "1";  ///< R, or RxR of a volume
  int caipi = 0;                   ///< lines by which each plane of the lattice is shifted from the one before
  int calibration = 0;             ///< reference lines per axis
  std::string calibration_mode = "embedded";  ///< embedded, separate or interleaved
  double partial_fourier = 1;                 ///< share of the lines that are acquired, from the last one back
  double partial_echo = 1;                    ///< the same of each line's samples
  std::string sampling = "regular";           ///< regular, elliptical or poisson
  int multiband = 1;                          ///< of EPI: slices that are excited at once
  int fov_shift = 1;  ///< of these: blips move each by a field of view over this number from the one before
};

/// Echo-planar imaging (clients/cpp/simulate/epi_scanner.h).
struct EpiOptions {
  double ramp_us = 0, flat_us = 0;  ///< of the readout gradient; a flat part of 0: 5 us for each point
  double gradient_delay_us = 0;     ///< by how much the gradient comes late
  double ghost = 0;                 ///< relative to the object
  double ghost_wave = 0;            ///< of a phase between odd and even lines that is no straight line [rad]
  double b0_across_x_hz = 0, b0_across_y_hz = 0;  ///< by how much the field differs over the field of view
  double b0_hz = 0, b0_drift_hz = 0;              ///< of the first frame, and more from frame to frame
  int navigators = 3;                             ///< lines without phase encoding before each shot
  int shots = 1;                                  ///< of a slice's frame
  bool interleaved = false;                       ///< slices 0, 2, 4, ..., then 1, 3, 5, ...
  bool reverse_blips = false;                     ///< lines from the last one to the first
  std::string references = "epi";                 ///< what reference lines before the frames are: epi, dual or flash
};

/// A scan for a map (clients/cpp/simulate/weightings.h).
struct MappingOptions {
  std::string method;            ///< empty: none
  std::string times;             ///< ms, s/mm2 or degrees, with commas between; empty: usual ones
  std::string scheme = "5(3)3";  ///< of molli
  int vials = 16;                ///< of different tissues
  double efficiency = 1;         ///< of inversion or saturation
  double flip_deg = 35;          ///< of molli
  double snr = 0;                ///< signal of full magnetization over the noise in one coil's image; 0: as `noise`
};

struct SimulateOptions : ProgressChoice {
  Progress* shown = nullptr;     ///< where progress is shown
  std::string modality = "mri";  ///< mri or ultrasound, which uses output, group, phantom, matrix, frames, noise, seed,
                                 ///< truth and `ultrasound` only
  UltrasoundOptions ultrasound;
  std::filesystem::path output;
  std::string group = "dataset";
  std::string trajectory = "golden_radial";
  std::string phantom = "shepp_logan";
  int matrix = 128;
  int coils = 8;
  int readouts = 0;  ///< per frame (of a stack: and partition); 0: enough for the Nyquist criterion
  int samples = 0;   ///< per readout; 0: enough for the Nyquist criterion
  int frames = 1;
  int slices = 1;
  int contrasts = 1;  ///< echoes of each readout, of the same anatomy
  int sets = 1;       ///< no option: images that idx.set counts, of a scan for a map
  MappingOptions mapping;
  int oversampling = 1;               ///< Cartesian readouts only
  int partitions = 0;                 ///< of a stack, over a field of view of fov_mm; 0: a quarter of the matrix
  bool partitions_outermost = false;  ///< of a stack or a volume: all readouts of a partition before the next
  int depth = 1;                      ///< Cartesian only: planes of a volume, over a field of view of fov_mm; 1: 2D
  UndersamplingOptions undersampling;
  EpiOptions epi;
  double noise = 0;            ///< standard deviation of the real and the imaginary part of a sample, in k-space units
  bool noise_scan = false;     ///< noise readouts first; coils are then correlated
  bool noise_only = false;     ///< noise readouts and nothing else
  std::string measurement_id;  ///< the scan's name for others; may be empty
  std::string noise_dependency;  ///< measurement id of the noise scan that was made before; coils are then correlated
  std::uint64_t seed = 1;
  double fov_mm = 256;
  double tr_ms = 0;             ///< between readouts; 0: repetition_time_ms()
  std::string gradient_delays;  ///< of radial scans: "x:y:xy" [samples], by which samples lie beside their positions
  std::string motion = "none";  ///< none or cardiac: the phantom is then Phantom::beating
  std::string gating;    ///< of a heart: prospective (Cartesian, if empty), retrospective or free (others, if empty);
                         ///< clients/cpp/simulate/cine_scanner.h
  int sweeps = 1;        ///< of free gating: how often each line is acquired
  int centre_every = 0;  ///< of free gating: the central line once more before as many lines; 0: never
  int truth_every = 0;   ///< of free gating: `truth`, `truth_1`, ... are the body in the middle of each so many
                         ///< readouts; 0: phases of the beat, and of spokes and spirals the middle of each frame
  std::string systole = "linear";    ///< of a heart: linear or weissler (clients/cpp/simulate/subject/heart.h)
  std::filesystem::path physiology;  ///< of a heart: R waves and breathing (clients/cpp/simulate/subject/physiology.h)
  double breathing_mm = 0;           ///< of a heart: how far a breath moves it; 0: held breath
  double breathing_rate = 15;        ///< breaths per minute
  int phases = 13;                   ///< of a heart: images of one beat
  double heart_rate = 60;            ///< beats per minute
  double jitter = 0.05;              ///< of the intervals between beats: standard deviation as a share of the mean
  double blob_sigma = 2;             ///< [pixels]
  bool truth = true;  ///< also writes the array `truth`, [slice, y, x] of slices that differ; of contrast, phase or
                      ///< instant c > 0: `truth_c`
  bool coil_truth = false;  ///< also writes the complex array `coil_truth`; of contrast c > 0: `coil_truth_c`
};

config::OptionTable<SimulateOptions> simulate_options();

/// Returns what a command line asks for. Throws UsageError for an option that the modality does not know, which would
/// be left unused. Without --phantom, ultrasound has one of its own.
SimulateOptions read_simulate_options(const config::ParsedOptions<SimulateOptions>& given);

}  // namespace echotrain::client
