#include "clients/cpp/simulate/simulate_options.h"

#include <fmt/format.h>

#include <limits>
#include <set>

#include "clients/cpp/base/usage_error.h"

namespace echotrain::client {
namespace {

config::OptionTable<UltrasoundOptions> ultrasound_options() {
  using O = UltrasoundOptions;
  return config::OptionTable<O>()
      .integer("elements", &O::elements, 2, 1024, "of the linear array")
      .integer("angles", &O::angles, 1, 255, "plane waves per frame")
      .number("angle_span", &O::angle_span_deg, 0.1, 80, "from the first wave's angle to the last's")
      .unit("degrees")
      .number("pitch_mm", &O::pitch_mm, 0.01, 10, "between elements")
      .number("center_mhz", &O::center_mhz, 0.1, 100, "of the pulse, whose bandwidth is half of it")
      .number("sampling_mhz", &O::sampling_mhz, 0.1, 1000, "of the traces; RF may be band-pass sampled")
      .number("sound_speed", &O::sound_m_per_s, 100, 10000, "of the object")
      .unit("m/s")
      .number("depth_mm", &O::depth_mm, 10, 1000, "where the image ends")
      .flag("iq", &O::iq, "traces demodulated at the centre frequency, not RF")
      .heading("Ultrasound");
}

config::OptionTable<UndersamplingOptions> undersampling_options() {
  using O = UndersamplingOptions;
  return config::OptionTable<O>()
      .text("acceleration", &O::acceleration, "of lines, R; of lines and planes of a volume, RxR")
      .integer("caipi", &O::caipi, 0, 15, "lines by which each plane of the lattice is shifted from the one before")
      .integer("calibration", &O::calibration, 0, 4096, "reference lines per axis in the middle of k-space")
      .text("calibration_mode", &O::calibration_mode,
            "embedded (in each frame), separate (before the first frame) or interleaved (none: each frame has other "
            "lines)")
      .number("partial_fourier", &O::partial_fourier, 0.5, 1, "share of the lines that is acquired")
      .number("partial_echo", &O::partial_echo, 0.51, 1, "share of each line's samples that is acquired")
      .text("sampling", &O::sampling,
            "regular, elliptical (a volume whose k-space has no corners, in 'truth' neither) or poisson (random)")
      .integer("multiband", &O::multiband, 1, 16,
               "of --trajectory epi: slices that are excited at once; single-band reference lines of each come before")
      .integer("fov_shift", &O::fov_shift, 1, 16,
               "with --multiband: blips move each slice by a field of view over this number from the one before")
      .heading("Undersampling of Cartesian scans, whose 'truth' is the image without it");
}

config::OptionTable<EpiOptions> epi_options() {
  using O = EpiOptions;
  return config::OptionTable<O>()
      .number("ramp_us", &O::ramp_us, 0, 10000, "of the readout gradient; 0: lines are regular")
      .unit("us")
      .number("flat_us", &O::flat_us, 1, 100000, "of the readout gradient (default: 5 for each point)")
      .unit("us")
      .default_in_help()
      .number("gradient_delay_us", &O::gradient_delay_us, -100, 100, "by how much the gradient comes late")
      .unit("us")
      .number("ghost", &O::ghost, 0, 10, "of a phase between odd and even lines, relative to the object")
      .number("ghost_wave", &O::ghost_wave, -10, 10,
              "of a phase between odd and even lines that is no straight line: this times cos(pi (x + 2 y) / fov)")
      .unit("rad")
      .number("b0_hz", &O::b0_hz, -1e5, 1e5, "by how much the object is off resonance")
      .unit("Hz")
      .number("b0_across_x_hz", &O::b0_across_x_hz, -1e5, 1e5,
              "by how much more it is at one end of the field of view along x than at the other")
      .unit("Hz")
      .number("b0_across_y_hz", &O::b0_across_y_hz, -1e5, 1e5, "the same along y, the axis of phase encoding")
      .unit("Hz")
      .number("b0_drift_hz", &O::b0_drift_hz, -1e5, 1e5, "what is added to that from frame to frame")
      .unit("Hz")
      .integer("navigators", &O::navigators, 0, 64, "lines without phase encoding before each shot")
      .integer("shots", &O::shots, 1, 4096, "of a slice's frame")
      .flag("interleaved", &O::interleaved, "slices 0, 2, 4, ..., then 1, 3, 5, ...")
      .flag("reverse_blips", &O::reverse_blips, "lines from the last one to the first")
      .text("references", &O::references,
            "reference lines of --calibration-mode separate: epi (with navigators), dual (epi, twice, the second time "
            "all lines read the other way) or flash (plain "
            "lines)")
      .heading("Echo-planar imaging (--trajectory epi)");
}

config::OptionTable<MappingOptions> mapping_options() {
  using O = MappingOptions;
  return config::OptionTable<O>()
      .text(
          "mapping", &O::method,
          "vials of known T1, T2, T2*, ADC, B0 and B1 instead of --phantom, by inversion_recovery, saturation, molli, "
          "t2prep, spin_echo, multi_echo, diffusion, double_angle or psir; what is true lies in arrays truth_t1 and so "
          "on")
      .text("times", &O::times,
            "times TI, TS or TE [ms], b-values [s/mm2] or flip angles [degrees], as 100,200,400 (default: usual ones)")
      .default_in_help()
      .text("scheme", &O::scheme, "of molli: images after an inversion, beats of recovery, images ...")
      .integer("vials", &O::vials, 1, 64, "of different tissues")
      .number("efficiency", &O::efficiency, 0.5, 1, "of inversion or saturation")
      .number("flip_deg", &O::flip_deg, 1, 90, "of molli's readouts")
      .unit("degrees")
      .number("snr", &O::snr, 0.1, 1e9, "of full magnetization in one coil's image, instead of --noise")
      .default_in_help()
      .heading("Scans for maps (--mapping)");
}

}  // namespace

config::OptionTable<SimulateOptions> simulate_options() {
  using O = SimulateOptions;
  constexpr int kMost = 65535;
  return config::OptionTable<O>()
      .path("output", &O::output, "OUT.h5", "file to write")
      .letter('o')
      .required()
      .text("group", &O::group, "group in the file")
      .letter('g')
      .text("modality", &O::modality, "mri or ultrasound (plane waves)")
      .group("", &O::ultrasound, ultrasound_options())
      .text("trajectory", &O::trajectory,
            "cartesian, epi, radial, golden_radial, spiral, kooshball (3D), stack_of_stars or stack_of_spirals (3D)")
      .text(
          "phantom", &O::phantom,
          "shepp_logan (in 3D: ellipsoids_3d), ellipsoids_3d (Koay's 3D head; in 2D its slices, which differ) or blob "
          "(a Gaussian of amplitude 1); of ultrasound: points (the default there) or speckle")
      .flag("progress", &O::progress, "show progress on stderr (default: on a terminal)")
      .flag("no_progress", &O::no_progress, "show none")
      .integer("matrix", &O::matrix, 4, 4096, "pixels per axis")
      .integer("coils", &O::coils, 1, 1024, "receiver coils; one coil is 1 everywhere")
      .integer("readouts", &O::readouts, 1, kMost,
               "readouts per frame and slice or partition: lines, spokes or interleaves (default: enough)")
      .default_in_help()
      .integer("samples", &O::samples, 1, kMost, "samples per readout (default: enough)")
      .default_in_help()
      .integer("frames", &O::frames, 1, kMost, "frames (repetitions)")
      .integer("slices", &O::slices, 1, kMost,
               "slices, 5 mm apart: of ellipsoids_3d each its own cut, else all of the same object")
      .integer("contrasts", &O::contrasts, 1, 64, "echoes of each readout: the same anatomy, other brightnesses")
      .integer("oversampling", &O::oversampling, 1, 8, "of Cartesian readouts")
      .integer("partitions", &O::partitions, 2, 4096,
               "of a stack; voxels are fov / partitions thick (default: a quarter of the matrix)")
      .default_in_help()
      .flag("partitions_outermost", &O::partitions_outermost,
            "of a stack: all spokes of a partition, then the next (default: all partitions of a spoke)")
      .integer("depth", &O::depth, 1, 4096, "of a Cartesian volume: planes, fov / depth thick")
      .group("", &O::undersampling, undersampling_options())
      .group("", &O::epi, epi_options())
      .group("", &O::mapping, mapping_options())
      .number("noise", &O::noise, 0, 1e12,
              "standard deviation of the real and imaginary part of a sample; a Cartesian image gets 1/matrix of it")
      .flag("noise_scan", &O::noise_scan, "noise readouts first; the coils' noise is correlated")
      .flag("noise_only", &O::noise_only, "nothing but the noise readouts: a noise scan of its own")
      .text("measurement_id", &O::measurement_id, "measurementID in the header")
      .text("noise_dependency", &O::noise_dependency,
            "measurementID of the noise scan made before, named in the header; the coils' noise is correlated")
      .integer("seed", &O::seed, 0, std::numeric_limits<std::int64_t>::max(), "of the noise; same seed, same file")
      .number("fov", &O::fov_mm, 1, 1e4, "field of view")
      .unit("mm")
      .number("tr_ms", &O::tr_ms, 0.001, 1e5,
              "time between readouts (default: 5, or of a beating heart so that --phases take 0.9 of a beat)")
      .unit("ms")
      .default_in_help()
      .text("gradient_delays", &O::gradient_delays,
            "X:Y:XY, of radial scans: by how many samples data lie farther on along x and y than the trajectory says "
            "(negative: gradients come late), and along the other axis")
      .text("motion", &O::motion,
            "cardiac: a beating heart and its ECG, in lines, spokes or spirals; instead of --phantom")
      .text(
          "gating", &O::gating,
          "of a heart: prospective (each trigger starts the readouts of all phases, counted in idx.phase), "
          "retrospective (readouts run on, each beat moves on to the next line) or free (lines run on, too) (default: "
          "prospective; of spokes and spirals, which run on, free)")
      .default_in_help()
      .integer("sweeps", &O::sweeps, 1, kMost, "of --gating free: how often each line is acquired")
      .integer("centre_every", &O::centre_every, 0, 4096,
               "of --gating free: the central line is acquired before each so many lines, for navigators; 0: never")
      .integer("truth_every", &O::truth_every, 1, kMost,
               "of --gating free: `truth`, `truth_1`, ... are the body in the middle of each so many readouts, at the "
               "times of `truth_ms` (default: of lines, phases of the beat at expiration; else of each frame)")
      .default_in_help()
      .path("physiology", &O::physiology, "FILE",
            "of a heart: text with its R waves (`r MS`) and breathing (`b MS DEPTH`), in place of --heart-rate")
      .text(
          "systole", &O::systole,
          "of a heart: linear (beats of other lengths are stretched as a whole) or weissler (systole and diastole each "
          "by itself)")
      .number("breathing_mm", &O::breathing_mm, 0, 1000, "of a heart: how far breathing moves heart and lungs along y")
      .unit("mm")
      .number("breathing_rate", &O::breathing_rate, 1, 600, "with --jitter, as that of the heart; of a mouse: 80")
      .unit("breaths per minute")
      .integer("phases", &O::phases, 1, 1000, "of a heart: images per beat")
      .number("heart_rate", &O::heart_rate, 1, 2000, "of a mouse: 500")
      .unit("beats per minute")
      .number("jitter", &O::jitter, 0, 0.3, "standard deviation of the time between beats, as a share of it")
      .number("blob_sigma", &O::blob_sigma, 0.1, 1e3, "of the blob")
      .unit("pixels")
      .no_flag("no_truth", &O::truth, "leave out the array 'truth'")
      .flag("coil_truth", &O::coil_truth, "also write the complex coil images as the array 'coil_truth'");
}

SimulateOptions read_simulate_options(const config::ParsedOptions<SimulateOptions>& given) {
  SimulateOptions o = given.read();
  const bool ultrasound = o.modality == "ultrasound";
  const auto of_ultrasound = ultrasound_options();
  const auto of_epi = epi_options();
  const auto of_mapping = mapping_options();
  const std::set<std::string> of_both = {"output", "group", "modality", "phantom",  "matrix",     "frames",
                                         "noise",  "seed",  "no_truth", "progress", "no_progress"};
  bool phantom = false;
  for (const config::OptionInfo& option : given.options()) {
    phantom = phantom || option.name == "phantom";
    if (option.name == "heart_rate" && !o.physiology.empty())
      throw UsageError("--heart-rate and --physiology: the file says when the heart beats; leave one out");
    if (!of_both.contains(option.name) && ultrasound != (of_ultrasound.find(option.name) != nullptr))
      throw UsageError(fmt::format("{} means nothing for --modality {}", option.flag(), o.modality));
  }
  if (o.trajectory != "epi")
    for (const config::OptionInfo& option : given.options())
      if (of_epi.find(option.name) != nullptr)
        throw UsageError(fmt::format("{} is for --trajectory epi", option.flag()));
  for (const config::OptionInfo& option : given.options())
    if (o.mapping.method.empty() && of_mapping.find(option.name) != nullptr)
      throw UsageError(fmt::format("{} is for scans with --mapping", option.flag()));
  if (!o.mapping.method.empty() && phantom) throw UsageError("--mapping has vials: leave out --phantom");
  if (ultrasound && !phantom) o.phantom = "points";
  return o;
}

}  // namespace echotrain::client
