#include "clients/cpp/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>

#include "clients/cpp/base/parallel.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/simulate/cine_scanner.h"
#include "clients/cpp/simulate/epi_scanner.h"
#include "clients/cpp/simulate/ground_truth.h"
#include "clients/cpp/simulate/readout_writer.h"
#include "clients/cpp/simulate/subject/coils.h"
#include "clients/cpp/simulate/subject/heart.h"
#include "clients/cpp/simulate/subject/phantom.h"
#include "clients/cpp/simulate/subject/physiology.h"
#include "clients/cpp/simulate/ultrasound.h"
#include "clients/cpp/simulate/undersampling.h"
#include "clients/cpp/simulate/weightings.h"
#include "protocol/data/pluralized.h"
#include "protocol/files/dataset.h"

namespace echotrain::client {
namespace {

using Samples = std::vector<std::complex<float>>;

bool cardiac(const SimulateOptions& o) { return o.motion == "cardiac"; }

std::string_view trajectory_text(TrajectoryKind kind) {
  switch (kind) {
    case TrajectoryKind::cartesian:
      return "cartesian";
    case TrajectoryKind::golden_radial:
    case TrajectoryKind::stack_of_stars:
      return "goldenangle";
    case TrajectoryKind::spiral:
    case TrajectoryKind::stack_of_spirals:
      return "spiral";
    case TrajectoryKind::radial:
    case TrajectoryKind::kooshball:
      return "radial";
  }
  return "other";
}

bool epi(const SimulateOptions& o) { return o.trajectory == "epi"; }

/// EPI has the lines of a Cartesian scan.
TrajectoryKind kind_of(const SimulateOptions& o) {
  return epi(o) ? TrajectoryKind::cartesian : parse_trajectory(o.trajectory);
}

void check_cardiac(const SimulateOptions& o) {
  const bool lines = o.trajectory == "cartesian";
  if (!lines && o.trajectory != "radial" && o.trajectory != "golden_radial" && o.trajectory != "spiral")
    throw UsageError("--motion cardiac is for --trajectory cartesian, radial, golden_radial or spiral");
  if (o.contrasts != 1) throw UsageError("--motion cardiac is for one contrast: leave out --contrasts");
  const UndersamplingOptions &u = o.undersampling, full;
  if (o.depth > 1 || o.noise_only || u.partial_fourier < 1 || u.partial_echo < 1 || u.sampling != full.sampling)
    throw UsageError(
        "--motion cardiac is for scans of slices: leave out --depth, --partial-fourier, --partial-echo, --sampling and "
        "--noise-only");
  if (u.calibration_mode == "separate")
    throw UsageError("--motion cardiac has no readouts before the heart's: --calibration-mode embedded or interleaved");
  if (o.gating != "prospective" && o.gating != "retrospective" && o.gating != "free")
    throw UsageError("unknown --gating '" + o.gating + "'; use prospective, retrospective or free");
  if (!lines && o.gating != "free") throw UsageError("spokes and spirals run on through the beats: --gating free");
  if (o.gating != "free" && (o.sweeps != 1 || o.centre_every != 0 || o.truth_every != 0))
    throw UsageError("--sweeps, --centre-every and --truth-every are for --gating free");
  if (!lines && (o.sweeps != 1 || o.centre_every != 0))
    throw UsageError("--sweeps and --centre-every are for --trajectory cartesian: give more --frames");
  if (o.systole != "linear" && o.systole != "weissler")
    throw UsageError("unknown --systole '" + o.systole + "'; use linear or weissler");
  const double acquired = o.phases * repetition_time_ms(o), beat = 60000 / o.heart_rate;
  if (o.gating == "prospective" && acquired > beat)
    throw UsageError(
        fmt::format("{} phases of {:g} ms do not fit into a beat of {:g} ms: give fewer --phases, a smaller "
                    "--tr-ms or a lower --heart-rate",
                    o.phases, repetition_time_ms(o), beat));
}

bool mapping(const SimulateOptions& o) { return !o.mapping.method.empty(); }

void check_mapping(const SimulateOptions& o) {
  const std::string& t = o.trajectory;
  if ((t != "cartesian" && t != "radial" && t != "golden_radial" && t != "spiral") || o.depth > 1 || cardiac(o))
    throw UsageError(
        "--mapping is for slices by --trajectory cartesian, radial, golden_radial or spiral, without --depth and "
        "--motion");
  if (o.contrasts != 1) throw UsageError("--mapping has its own images: leave out --contrasts");
  if (o.mapping.snr > 0 && o.noise > 0) throw UsageError("--snr and --noise say the same: leave one out");
  if (places_of_vials(o.matrix, o.mapping.vials)[0].radius < 2 * kVialBlur + 1)
    throw UsageError(fmt::format("{} vials are too small at --matrix {}: give fewer --vials or a larger matrix",
                                 o.mapping.vials, o.matrix));
}

void check(const SimulateOptions& o) {
  if (!cardiac(o) && o.phantom != "shepp_logan" && o.phantom != "ellipsoids_3d" && o.phantom != "blob") {
    throw UsageError("unknown phantom '" + o.phantom + "'; use shepp_logan, ellipsoids_3d or blob");
  }
  if (o.contrasts < 1) throw UsageError("a scan has 1 or more --contrasts");
  if (o.motion != "none" && o.motion != "cardiac") throw UsageError("unknown --motion '" + o.motion + "'; use cardiac");
  if (cardiac(o)) check_cardiac(o);
  if (!cardiac(o) && (!o.physiology.empty() || o.breathing_mm != 0 || o.sweeps != 1 || o.centre_every != 0 ||
                      o.systole != "linear" || o.truth_every != 0))
    throw UsageError(
        "--physiology, --breathing-mm, --sweeps, --centre-every, --truth-every and --systole are for --motion cardiac");
  if ((o.noise_scan || o.noise_only) && o.noise <= 0)
    throw UsageError("--noise-scan and --noise-only need noise to measure: give --noise SIGMA above 0");
  if (o.undersampling.partial_echo < 1 && (o.trajectory != "cartesian" || o.samples != 0))
    throw UsageError("--partial-echo is for --trajectory cartesian, without --samples");
  if (!epi(o) && (o.undersampling.multiband > 1 || o.undersampling.fov_shift > 1))
    throw UsageError("--multiband and --fov-shift are for --trajectory epi");
  parse_gradient_delays(o.gradient_delays);
  if (!o.gradient_delays.empty() && o.trajectory != "radial" && o.trajectory != "golden_radial" &&
      o.trajectory != "stack_of_stars")
    throw UsageError("--gradient-delays is for --trajectory radial, golden_radial and stack_of_stars");
}

ScanShape shape_of(const SimulateOptions& o) {
  return {.matrix = o.matrix,
          .readouts = o.readouts,
          .samples = o.samples,
          .oversampling = o.oversampling,
          .partitions = o.partitions,
          .partitions_outermost = o.partitions_outermost,
          .depth = o.depth,
          .elliptical = o.undersampling.sampling == "elliptical"};
}

// A partial echo acquires the last samples of its readout, the centre among them.
int samples_of(const SimulateOptions& o) {
  if (o.undersampling.partial_echo == 1) return o.samples;
  const int all = o.matrix * o.oversampling;
  return std::max(all / 2 + 1, static_cast<int>(std::lround(o.undersampling.partial_echo * all)));
}

// Makes a scan readout by readout, in the order of a scanner.
class Scanner {
 public:
  /// phantoms: one for each contrast of each set; of slices that differ, for each of these of each slice.
  Scanner(const SimulateOptions& options, const ScanPath& scan, const Undersampling& lines,
          const std::vector<Phantom>& phantoms, const CoilSet& coils, protocol::DatasetWriter& file)
      : options_(options),
        scan_(scan),
        lines_(lines),
        phantoms_(phantoms),
        coils_(coils),
        writer_(options, scan, file),
        delays_(parse_gradient_delays(options.gradient_delays)),
        clean_(scan.readouts() * phantoms.size()) {}

  void noise_readouts() { writer_.noise_readouts(); }
  void reference_readouts() { readouts(0, lines_.before(), true); }
  void frame(int frame) {
    if (scan_.changes_with_frame()) clean_.assign(clean_.size(), {});
    readouts(frame, lines_.frame(frame), false);
  }

  std::uint32_t written() const { return writer_.written(); }

 private:
  void readouts(int frame, const std::vector<AcquiredReadout>& list, bool reference) {
    measure(frame, list);
    const int sets = reference ? 1 : options_.sets;
    for (int slice = 0; slice < options_.slices; ++slice)
      for (int set = 0; set < sets; ++set)
        for (std::size_t i = 0; i < list.size(); ++i) {
          const Position position{frame, slice, set, i == 0, i + 1 == list.size(), reference};
          for (int contrast = 0; contrast < options_.contrasts; ++contrast) readout(position, list[i], contrast);
        }
  }

  // Noise-free data of those of a frame's readouts that are not there yet.
  void measure(int frame, const std::vector<AcquiredReadout>& list) {
    const std::size_t phantoms = phantoms_.size();
    parallel_for(list.size() * phantoms, [&](std::size_t n) {
      const std::size_t i = static_cast<std::size_t>(list[n / phantoms].readout) * phantoms + n % phantoms;
      if (!clean_[i].empty()) return;
      const ReadoutPath path = scan_.played(static_cast<int>(i / phantoms), frame, delays_);
      const std::size_t samples = path.positions.size();
      Samples data(samples * options_.coils);
      std::vector<cdouble> signal(options_.coils);
      for (std::size_t s = 0; s < samples; ++s) {
        coils_.kspace(phantoms_[i % phantoms], path.positions[s], signal);
        for (int c = 0; c < options_.coils; ++c) data[c * samples + s] = std::complex<float>(signal[c]);
      }
      clean_[i] = std::move(data);
    });
  }

  /// The position of a readout in the scan.
  struct Position {
    int frame, slice, set;
    bool first, last;  // of the slice's readouts in the set
    bool reference;    // before the first frame
  };

  void readout(const Position& position, const AcquiredReadout& acquired, int contrast) {
    const int r = acquired.readout, slice = position.slice, frame = position.frame;
    const int trajectory_dims = scan_.cartesian() ? 0 : scan_.weighted() ? 3 : scan_.dims();
    const auto [shot, partition] = scan_.steps(r);
    // All echoes of a readout come within one repetition time.
    protocol::AcquisitionHeader head =
        writer_.header(trajectory_dims, writer_.written() * repetition_time_ms(options_) / options_.contrasts);
    head.center_sample = static_cast<std::uint16_t>(scan_.center_sample());
    head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(shot - lines_.first_line());
    head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(partition);
    place_slice(head, options_, slice);
    head.idx.contrast = static_cast<std::uint16_t>(contrast);
    head.idx.set = static_cast<std::uint16_t>(position.set);
    head.idx.repetition = static_cast<std::uint16_t>(frame);
    const bool first = position.first, last = position.last;
    const bool many = options_.contrasts > 1, first_contrast = contrast == 0;
    const bool last_of_all = last && slice == options_.slices - 1 && position.set == options_.sets - 1 &&
                             contrast == options_.contrasts - 1 && !position.reference;
    raise_flag(head, first, ISMRMRD::ISMRMRD_ACQ_FIRST_IN_ENCODE_STEP1);
    raise_flag(head, last, ISMRMRD::ISMRMRD_ACQ_LAST_IN_ENCODE_STEP1);
    raise_flag(head, first, ISMRMRD::ISMRMRD_ACQ_FIRST_IN_SLICE);
    raise_flag(head, last, ISMRMRD::ISMRMRD_ACQ_LAST_IN_SLICE);
    raise_flag(head, many && first, ISMRMRD::ISMRMRD_ACQ_FIRST_IN_CONTRAST);
    raise_flag(head, many && last, ISMRMRD::ISMRMRD_ACQ_LAST_IN_CONTRAST);
    raise_flag(head, first && slice == 0 && position.set == 0 && first_contrast && !position.reference,
               ISMRMRD::ISMRMRD_ACQ_FIRST_IN_REPETITION);
    raise_flag(head, last_of_all, ISMRMRD::ISMRMRD_ACQ_LAST_IN_REPETITION);
    raise_flag(head, last_of_all && frame == options_.frames - 1, ISMRMRD::ISMRMRD_ACQ_LAST_IN_MEASUREMENT);
    raise_calibration(head, acquired.image, acquired.calibration);

    std::vector<float> trajectory;
    // A density weight is the third dimension, in stacks too, where the encoding step gives z.
    if (!scan_.cartesian()) trajectory = interleaved(scan_.readout(r, frame), scan_.weighted() ? 2 : scan_.dims());
    const int images = options_.sets * options_.contrasts;
    const int of_slice = phantoms_.size() > static_cast<std::size_t>(images) ? slice * images : 0;
    writer_.write(head, std::move(trajectory),
                  clean_[static_cast<std::size_t>(r) * phantoms_.size() +
                         static_cast<std::size_t>(of_slice + position.set * options_.contrasts + contrast)]);
  }

  const SimulateOptions& options_;
  const ScanPath& scan_;
  const Undersampling& lines_;
  const std::vector<Phantom>& phantoms_;
  const CoilSet& coils_;
  ReadoutWriter writer_;
  const GradientDelays delays_;
  std::vector<Samples> clean_;  // [readout, phantom]: data [coil, sample]; empty where not measured yet
};

// The objects of a scan: [slice, contrast] of a 3D head in slices, else [contrast] or [phase of a beating heart].
std::vector<Phantom> objects_of(const SimulateOptions& o, const ScanPath& scan, int slices) {
  std::vector<Phantom> objects;
  if (cardiac(o)) {
    for (int p = 0; p < o.phases; ++p) objects.push_back(Phantom::beating(o.matrix, CineScanner::shown_phase(o, p)));
    return objects;
  }
  if (mapping(o)) {
    for (const auto& signals : weightings_of(o).signals) objects.push_back(phantom_of_vials(o.matrix, signals));
    return objects;
  }
  const int dims = slices > 0 ? 3 : scan.dims(), depth = slices > 0 ? o.matrix : scan.depth();
  const Phantom phantom =
      o.phantom == "blob" ? Phantom::blob(dims, o.blob_sigma) : Phantom::shepp_logan(dims, o.matrix, depth);
  for (int s = 0; s < std::max(slices, 1); ++s)
    for (int c = 0; c < o.contrasts; ++c) {
      const Phantom echo = phantom.echo(c);
      objects.push_back(slices > 0 ? echo.slice(slice_mm(o, s) * o.matrix / o.fov_mm) : echo);
    }
  return objects;
}

// A beating heart in the middle of each `truth_every` readouts, whose times become the array `truth_ms`.
std::vector<Phantom> instants_of(const SimulateOptions& o, CineScanner& scanner, std::size_t readouts,
                                 protocol::DatasetWriter& file) {
  std::vector<Phantom> objects;
  std::vector<float> times;
  const auto every = static_cast<std::size_t>(o.truth_every);
  for (std::size_t begin = 0; begin + every <= readouts; begin += every) {
    const double ms = (static_cast<double>(begin) + static_cast<double>(every) / 2) * repetition_time_ms(o);
    objects.push_back(scanner.at(ms));
    times.push_back(static_cast<float>(ms));
  }
  if (objects.empty())
    throw UsageError(fmt::format("--truth-every {}: the scan has {} readouts", o.truth_every, readouts));
  if (o.truth || o.coil_truth) file.array("truth_ms", {times.size()}, times.data());
  return objects;
}

// Writes `truth` and `coil_truth` of each contrast or phase; of slices that differ, with an axis of slices before y.
void write_truths(const SimulateOptions& o, const ScanPath& scan, const std::vector<Phantom>& objects, int slices,
                  const CoilSet& coils, protocol::DatasetWriter& file) {
  const std::size_t planes = static_cast<std::size_t>(std::max(slices, 1)), series = objects.size() / planes;
  for (std::size_t c = 0; c < series && (o.truth || o.coil_truth); ++c) {
    const std::string suffix = c == 0 ? std::string() : fmt::format("_{}", c);
    std::vector<float> magnitude;
    std::vector<std::vector<std::complex<float>>> images(static_cast<std::size_t>(o.coils));
    std::vector<std::size_t> shape;
    for (std::size_t s = 0; s < planes; ++s) {
      const GroundTruth truth(objects[s * series + c], coils, scan);
      shape = truth.shape();
      const auto plane = truth.root_sum_of_squares();
      magnitude.insert(magnitude.end(), plane.begin(), plane.end());
      for (int coil = 0; coil < o.coils && o.coil_truth; ++coil) {
        const auto image = truth.coil_image(coil);
        auto& to = images[static_cast<std::size_t>(coil)];
        to.insert(to.end(), image.begin(), image.end());
      }
    }
    if (slices > 0) shape.insert(shape.begin(), planes);
    if (o.truth) file.array("truth" + suffix, shape, magnitude.data());
    if (!o.coil_truth) continue;
    std::vector<std::complex<float>> all;
    for (const auto& image : images) all.insert(all.end(), image.begin(), image.end());
    shape.insert(shape.begin(), images.size());
    file.array("coil_truth" + suffix, shape, all.data());
  }
}

// Writes what is true in each vial: `truth_t1` and so on [y, x].
void write_maps(const SimulateOptions& o, protocol::DatasetWriter& file) {
  const std::vector<Tissue> all = tissues(o.mapping.vials);
  const auto write = [&](const char* name, double Tissue::*value) {
    std::vector<double> values;
    for (const Tissue& tissue : all) values.push_back(tissue.*value);
    const auto n = static_cast<std::size_t>(o.matrix);
    file.array(name, {n, n}, map_of_vials(o.matrix, values).data());
  };
  write("truth_t1", &Tissue::t1_ms);
  write("truth_t2", &Tissue::t2_ms);
  write("truth_t2star", &Tissue::t2star_ms);
  write("truth_adc", &Tissue::adc_mm2_per_s);
  write("truth_b0", &Tissue::b0_hz);
  write("truth_b1", &Tissue::b1);
}

// The element measurementInformation, if it says anything.
std::string measurement_text(const SimulateOptions& o) {
  if (o.measurement_id.empty() && o.noise_dependency.empty()) return "";
  const auto element = [](const char* name, const std::string& text) {
    std::string safe;
    for (const char c : text) safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
    return text.empty() ? "" : fmt::format("<{0}>{1}</{0}>", name, safe);
  };
  std::string out = "  <measurementInformation>" + element("measurementID", o.measurement_id) +
                    "<patientPosition>HFS</patientPosition>";
  if (!o.noise_dependency.empty())
    out += "<measurementDependency><dependencyType>Noise</dependencyType>" +
           element("measurementID", o.noise_dependency) + "</measurementDependency>";
  return out + "</measurementInformation>\n";
}

std::string labels_text(int coils) {
  std::string out;
  for (int c = 0; c < coils; ++c)
    out += fmt::format("    <coilLabel><coilNumber>{}</coilNumber><coilName>S{}</coilName></coilLabel>\n", c, c + 1);
  return out;
}

std::string header_text(const SimulateOptions& o, const ScanPath& scan, const Undersampling& lines) {
  const int nz = scan.depth();
  const double fov_z = scan.dims() == 3 ? o.fov_mm : kSliceMm;
  const Weightings mapped = mapping(o) ? weightings_of(o) : Weightings();
  const auto space = [&](const char* name, int oversampling) {
    return fmt::format(
        "    <{0}>\n"
        "      <matrixSize><x>{1}</x><y>{2}</y><z>{3}</z></matrixSize>\n"
        "      <fieldOfView_mm><x>{4}</x><y>{5}</y><z>{6}</z></fieldOfView_mm>\n"
        "    </{0}>\n",
        name, o.matrix * oversampling, o.matrix, nz, o.fov_mm * oversampling, o.fov_mm, fov_z);
  };
  const auto limit = [](const char* name, int count, int center) {
    return fmt::format("      <{0}><minimum>0</minimum><maximum>{1}</maximum><center>{2}</center></{0}>\n", name,
                       count - 1, center);
  };
  const std::string bandwidth =
      ReadoutWriter::correlated(o) ? "    <relativeReceiverNoiseBandwidth>1.0</relativeReceiverNoiseBandwidth>\n" : "";
  return fmt::format(
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
             "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\">\n"
             "{}"
             "  <acquisitionSystemInformation>\n"
             "    <systemVendor>Echotrain</systemVendor>\n"
             "    <systemModel>simulate {} {}</systemModel>\n"
             "{}"
             "    <receiverChannels>{}</receiverChannels>\n"
             "{}"
             "  </acquisitionSystemInformation>\n"
             "  "
             "<experimentalConditions><H1resonanceFrequency_Hz>63500000</H1resonanceFrequency_Hz></"
             "experimentalConditions>\n"
             "  <encoding>\n",
             measurement_text(o), o.trajectory, o.phantom, bandwidth, o.coils, labels_text(o.coils)) +
         space("encodedSpace", o.oversampling) + space("reconSpace", 1) + "    <encodingLimits>\n" +
         limit("kspace_encoding_step_1", scan.shots() - lines.first_line(), scan.shots() / 2 - lines.first_line()) +
         limit("kspace_encoding_step_2", scan.partitions(), scan.partitions() / 2) + limit("slice", o.slices, 0) +
         (o.contrasts > 1 ? limit("contrast", o.contrasts, 0) : "") + (o.sets > 1 ? limit("set", o.sets, 0) : "") +
         (cardiac(o) ? limit("phase", o.gating == "prospective" ? o.phases : 1, 0) : "") +
         limit("repetition", o.frames, 0) +
         fmt::format(
             "    </encodingLimits>\n"
             "    <trajectory>{}</trajectory>\n"
             "{}"
             "  </encoding>\n"
             "  <sequenceParameters><TR>{}</TR>{}</sequenceParameters>\n"
             "{}{}"
             "</ismrmrdHeader>\n",
             epi(o) ? "epi" : trajectory_text(scan.kind()),
             (epi(o) ? EpiReadout(o.epi, o.matrix).header(o) : "") +
                 lines.header(kSliceMm * o.slices / o.undersampling.multiband),
             repetition_time_ms(o), mapped.sequence, mapped.user,
             cardiac(o) ? "  <waveformInformation><waveformName>ECG</waveformName><waveformType>ecg</waveformType>"
                          "</waveformInformation>\n"
                        : "");
}

}  // namespace

std::string simulated_header(const SimulateOptions& o, const ScanPath& scan) {
  return header_text(o, scan, Undersampling(o.undersampling, scan, o.seed));
}

double repetition_time_ms(const SimulateOptions& o) {
  if (o.tr_ms > 0) return o.tr_ms;
  return cardiac(o) && o.trajectory == "cartesian" ? 0.9 * 60000 / o.heart_rate / o.phases : 5;
}

void simulate(const SimulateOptions& given, std::ostream& out) {
  SimulateOptions o = given;
  if (o.modality == "ultrasound") return simulate_ultrasound(o, out);
  if (o.modality != "mri") throw UsageError("unknown --modality '" + o.modality + "'; use mri or ultrasound");
  std::optional<Physiology> physiology;
  if (!o.physiology.empty()) {
    physiology = read_physiology(o.physiology);
    o.heart_rate = 60000 / Heart(physiology->beats_ms, o.seed, Systole::linear).mean_interval_ms();
  }
  if (mapping(o)) {
    check_mapping(o);
    const Weightings images = weightings_of(o);
    (images.echoes ? o.contrasts : o.sets) = static_cast<int>(images.signals.size());
    // An image is the mean over its samples, but for the edges' share: noise of sigma becomes sigma over their root.
    if (o.mapping.snr > 0) o.noise = o.matrix * std::sqrt(static_cast<double>(o.oversampling)) / o.mapping.snr;
  }
  if (o.gating.empty()) o.gating = !cardiac(o) || o.trajectory == "cartesian" ? "prospective" : "free";
  check(o);
  ScanShape shape = shape_of(o);
  const ScanPath whole(kind_of(o), shape);  // with whole echoes
  shape.samples = samples_of(o);
  const ScanPath scan(whole.kind(), shape);
  const Undersampling lines(o.undersampling, scan, o.seed);
  if (scan.dims() == 3 && o.slices != 1) throw UsageError("this scan is one volume: leave out --slices");
  const bool in_slices = scan.dims() == 2 && o.phantom == "ellipsoids_3d" && !cardiac(o);
  const int slices = in_slices ? o.slices : 0;  // that differ
  std::vector<Phantom> objects = objects_of(o, scan, slices);
  const CoilSet coils(o.coils, scan.dims(), o.matrix, scan.depth());

  protocol::DatasetWriter file(o.output, o.group);
  file.header_xml(header_text(o, scan, lines));
  std::uint32_t written = 0;
  std::size_t readouts = lines.frame(0).size() * static_cast<std::size_t>(o.slices);
  int samples = scan.samples();
  if (cardiac(o)) {
    if (!scan.cartesian() && o.truth_every == 0) o.truth_every = scan.shots();
    CineScanner scanner(o, scan, lines, coils, file, physiology);
    if (o.noise_scan) scanner.noise_readouts();
    const std::uint32_t noise = scanner.written();
    scanner.scan();
    written = scanner.written();
    if (o.truth_every > 0) objects = instants_of(o, scanner, written - noise, file);
  } else if (epi(o)) {
    EpiScanner scanner(o, scan, lines, objects, coils, file);
    scanner.scan();
    written = scanner.written();
    readouts = scanner.readouts() * static_cast<std::size_t>(o.slices / o.undersampling.multiband);
    samples = scanner.samples();
  } else {
    Scanner scanner(o, scan, lines, objects, coils, file);
    if (o.noise_scan || o.noise_only) scanner.noise_readouts();
    if (!o.noise_only) scanner.reference_readouts();
    for (int f = 0; f < (o.noise_only ? 0 : o.frames); ++f) scanner.frame(f);
    written = scanner.written();
  }
  if (!o.noise_only) write_truths(o, whole, objects, slices, coils, file);
  if (mapping(o) && o.truth && !o.noise_only) write_maps(o, file);
  file.flush();
  if (o.shown != nullptr) o.shown->interrupt();
  const std::string coils_in_words = protocol::pluralized(static_cast<std::uint64_t>(o.coils), "coil");
  if (o.noise_only) {
    out << fmt::format("{}: {} of {} samples, {}, and nothing else\n", o.output.string(),
                       protocol::pluralized(written, "noise readout"), samples, coils_in_words);
    return;
  }
  std::string parts = o.contrasts > 1 ? fmt::format(" in {} contrasts", o.contrasts) : "";
  if (o.sets > 1) parts = fmt::format(" in {} sets", o.sets);
  if (cardiac(o))
    parts = fmt::format(", {} {}, {} gating, {:.4g} beats per minute", o.truth_every > 0 ? objects.size() : o.phases,
                        o.truth_every > 0 ? "instants" : "cardiac phases", o.gating, o.heart_rate);
  out << fmt::format(
      "{}: {} {}, matrix {}, {}, {} of {} of {} samples{} ({} in all)\n", o.output.string(), o.trajectory,
      cardiac(o)   ? "beating heart"
      : mapping(o) ? "vials"
                   : o.phantom,
      o.matrix, coils_in_words, protocol::pluralized(static_cast<std::uint64_t>(o.frames), "frame"),
      protocol::pluralized(readouts, "readout"), samples, parts, protocol::pluralized(written, "readout"));
}

}  // namespace echotrain::client
