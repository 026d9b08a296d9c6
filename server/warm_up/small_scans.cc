#include "server/warm_up/small_scans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "config/branch_spec.h"

namespace echotrain::server {
namespace {

using protocol::Acquisition;
using Kind = SmallScanKind;

constexpr std::uint64_t kFirstInSlice = 1 << 6, kLastInSlice = 1 << 7, kCalibration = 1 << 19,
                        kCalibrationAndImaging = 1 << 20, kReversed = 1 << 21, kPhaseCorrection = 1 << 23;
constexpr double kFovMm = 256, kRampUs = 100, kFlatUsPerPoint = 5, kTau = 2 * std::numbers::pi;
constexpr int kFrames = 2, kAcceleration = 3, kNavigators = 3, kSpokes = 40;

bool accelerated(Kind kind) { return kind == Kind::accelerated || kind == Kind::accelerated_epi; }
bool epi(Kind kind) { return kind == Kind::epi || kind == Kind::accelerated_epi; }

std::set<std::string> names_in(const std::vector<config::GadgetSpec>& chain) {
  std::set<std::string> names;
  for (const config::GadgetSpec& gadget : config::gadgets_in(chain)) names.insert(gadget.name);
  return names;
}

std::string parameter(const char* type, const char* name, double value) {
  return fmt::format("<userParameter{0}><name>{1}</name><value>{2}</value></userParameter{0}>", type, name, value);
}

/// A trapezoidal readout whose samples lie on its ramps, too; their positions do not matter here.
std::string echo_train(int matrix) {
  const double flat = kFlatUsPerPoint * matrix, delay = 0.15 * kRampUs;
  return "<trajectoryDescription><identifier>ConventionalEPI</identifier>" + parameter("Long", "etl", matrix) +
         parameter("Long", "numberOfNavigators", kNavigators) + parameter("Long", "rampUpTime", kRampUs) +
         parameter("Long", "rampDownTime", kRampUs) + parameter("Long", "flatTopTime", flat) +
         parameter("Long", "echoSpacing", 2 * kRampUs + flat) + parameter("Long", "acqDelayTime", delay) +
         parameter("Long", "numSamples", 2 * matrix) +
         parameter("Double", "dwellTime", (2 * kRampUs + flat - 2 * delay) / (2 * matrix)) + "</trajectoryDescription>";
}

std::string header_of(Kind kind, const SmallScanSize& size, int lines, int frames) {
  const int oversampling = kind == Kind::cartesian || kind == Kind::accelerated ? 2 : 1;
  const auto space = [&](const char* name, int times) {
    return fmt::format(
        "<{0}><matrixSize><x>{1}</x><y>{2}</y><z>1</z></matrixSize><fieldOfView_mm><x>{3}</x><y>{4}</y><z>5</z>"
        "</fieldOfView_mm></{0}>",
        name, size.matrix * times, size.matrix, kFovMm * times, kFovMm);
  };
  const auto limit = [](const char* name, int count) {
    return fmt::format("<{0}><minimum>0</minimum><maximum>{1}</maximum><center>{2}</center></{0}>", name, count - 1,
                       count / 2);
  };
  return "<ismrmrdHeader><experimentalConditions><H1resonanceFrequency_Hz>64000000</H1resonanceFrequency_Hz>"
         "</experimentalConditions><encoding>" +
         space("encodedSpace", oversampling) + space("reconSpace", 1) + "<encodingLimits>" +
         limit("kspace_encoding_step_1", lines) + limit("repetition", frames) + "</encodingLimits><trajectory>" +
         (kind == Kind::radial ? "goldenangle"
          : epi(kind)          ? "epi"
                               : "cartesian") +
         "</trajectory>" + (epi(kind) ? echo_train(size.matrix) : "") +
         (accelerated(kind) ? fmt::format("<parallelImaging><accelerationFactor><kspace_encoding_step_1>{}"
                                          "</kspace_encoding_step_1><kspace_encoding_step_2>1</kspace_encoding_step_2>"
                                          "</accelerationFactor><calibrationMode>embedded</calibrationMode>"
                                          "</parallelImaging>",
                                          kAcceleration)
                            : "") +
         "</encoding></ismrmrdHeader>";
}

struct Point {
  double x, y, value;  // positions from -0.5 to 0.5 of the field of view
};
constexpr std::array<Point, 5> kPoints = {
    {{0.02, -0.03, 1.0}, {-0.21, 0.13, 0.7}, {0.17, 0.24, 0.9}, {0.28, -0.19, 0.6}, {-0.12, -0.27, 0.8}}};

/// Makes readouts one after another.
class Writer {
 public:
  Writer(const SmallScanSize& size, int samples) : size_(size) {
    for (int coil = 0; coil < size.coils; ++coil)
      for (const Point& point : kPoints) weights_.emplace_back(weight(coil, point));
    head_.version = 1;
    head_.number_of_samples = static_cast<std::uint16_t>(samples);
    head_.center_sample = static_cast<std::uint16_t>(samples / 2);
    head_.active_channels = head_.available_channels = static_cast<std::uint16_t>(size.coils);
    head_.read_dir[0] = head_.phase_dir[1] = head_.slice_dir[2] = 1;
  }

  /// `positions`: x and y of each sample [cycles per field of view]. `trajectory`: what goes with them, if anything.
  void add(const std::vector<std::array<double, 2>>& positions, int line, int frame, std::uint64_t flags,
           std::vector<float> trajectory = {}) {
    const std::size_t samples = positions.size(), coils = static_cast<std::size_t>(size_.coils);
    std::vector<std::complex<float>> data(samples * coils);
    for (std::size_t s = 0; s < samples; ++s)
      for (std::size_t p = 0; p < kPoints.size(); ++p) {
        const double turns = positions[s][0] * kPoints[p].x + positions[s][1] * kPoints[p].y;
        const std::complex<float> phase(std::polar(kPoints[p].value, -kTau * turns));
        for (std::size_t c = 0; c < coils; ++c) data[c * samples + s] += weights_[c * kPoints.size() + p] * phase;
      }
    Acquisition& readout = out.emplace_back();
    readout.head = head_;
    readout.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(line);
    readout.head.idx.repetition = static_cast<std::uint16_t>(frame);
    readout.head.flags = flags;
    readout.head.scan_counter = static_cast<std::uint32_t>(out.size());
    readout.head.trajectory_dimensions = static_cast<std::uint16_t>(trajectory.size() / positions.size());
    readout.data = protocol::Payload::take(std::move(data));
    if (!trajectory.empty()) readout.trajectory = protocol::Payload::take(std::move(trajectory));
  }

  std::vector<Acquisition> out;

 private:
  /// Coils lie on a circle around the object.
  std::complex<double> weight(int coil, const Point& point) const {
    const double angle = kTau * coil / size_.coils;
    const double x = point.x - 0.7 * std::cos(angle), y = point.y - 0.7 * std::sin(angle);
    return std::polar(1 / (0.2 + x * x + y * y), angle + x - y);
  }

  const SmallScanSize size_;
  std::vector<std::complex<float>> weights_;  // [coil, point]
  protocol::AcquisitionHeader head_{};
};

void add_lines(Writer& to, Kind kind, const SmallScanSize& size) {
  const int samples = 2 * size.matrix, middle = size.matrix / 2, reference = std::min(24, size.matrix / 2);
  const auto positions = [&](int line, bool reversed) {
    std::vector<std::array<double, 2>> out;
    // Oversampled lines have steps of half a cycle, as the field of view is read twice as wide.
    for (int s = 0; s < samples; ++s)
      out.push_back({(s - size.matrix) / 2.0 * (reversed ? -1 : 1), line - middle + 0.0});
    return out;
  };
  for (int frame = 0; frame < kFrames; ++frame) {
    std::vector<std::pair<int, std::uint64_t>> lines;
    for (int line = 0; line < size.matrix; ++line) {
      const bool on_lattice = !accelerated(kind) || (line - middle) % kAcceleration == 0;
      const bool calibrates = accelerated(kind) && line >= middle - reference / 2 && line < middle + reference / 2;
      if (on_lattice || calibrates)
        lines.emplace_back(line, !calibrates ? 0 : on_lattice ? kCalibrationAndImaging : kCalibration);
    }
    lines.front().second |= kFirstInSlice;
    lines.back().second |= kLastInSlice;
    for (int n = 0; epi(kind) && n < kNavigators; ++n)
      to.add(positions(middle, n % 2 == 1), middle, frame, kPhaseCorrection | (n % 2 == 1 ? kReversed : 0));
    bool reversed = false;
    for (const auto& [line, flags] : lines) {
      to.add(positions(line, reversed), line, frame, flags | (reversed ? kReversed : 0));
      reversed = epi(kind) && !reversed;
    }
  }
}

/// Returns the factor that makes a position in cycles per field of view one in this unit.
double factor_of(config::TrajectoryUnit unit, int matrix) {
  switch (unit) {
    case config::TrajectoryUnit::cycles_per_fov:
      return 1;
    case config::TrajectoryUnit::radians_per_pixel:
      return kTau / matrix;
    case config::TrajectoryUnit::cycles_per_m:
      return 1e3 / kFovMm;
    case config::TrajectoryUnit::cycles_per_pixel:
      break;
  }
  return 1.0 / matrix;
}

bool wants_weights(const config::PipelineSpec& spec) {
  for (const config::Node& method : config::parameters_of(spec, "density_compensation", "method"))
    if (method.kind() == config::Node::Kind::scalar && method.as_string() == "from_data") return true;
  return false;
}

void add_spokes(Writer& to, const config::PipelineSpec& spec, const SmallScanSize& size, int per_frame, int frames) {
  const int samples = 2 * size.matrix;
  const double unit = factor_of(spec.trajectory_unit, size.matrix);
  const bool weights = wants_weights(spec);
  for (int i = 0; i < per_frame * frames; ++i) {
    const double angle = i * std::numbers::pi * 0.61803398874989485;
    std::vector<std::array<double, 2>> positions;
    std::vector<float> trajectory;
    for (int s = 0; s < samples; ++s) {
      const double k = (s - size.matrix) / 2.0;
      positions.push_back({k * std::cos(angle), k * std::sin(angle)});
      for (const double each : positions.back()) trajectory.push_back(static_cast<float>(each * unit));
      if (weights) trajectory.push_back(static_cast<float>(std::abs(k) + 0.25));
    }
    const int spoke = i % per_frame;
    to.add(positions, spoke, i / per_frame,
           (spoke == 0 ? kFirstInSlice : 0) | (spoke == per_frame - 1 ? kLastInSlice : 0), std::move(trajectory));
  }
}

}  // namespace

std::vector<SmallScanKind> small_scans_of(const config::PipelineSpec& spec) {
  if (spec.input != config::Input::readouts) return {};
  const std::set<std::string> names = names_in(spec.gadgets);
  const auto has = [&](const char* name) { return names.contains(name); };
  const std::set<std::string> in_accelerated = names_in(spec.accelerated);
  // Left out are programs of others, and what says nothing or needs more than a few readouts.
  for (const char* left_out : {"python", "mrd_server", "passthrough", "partition_fft", "cardiac_binning",
                               "slice_grappa", "k0_navigator", "trajectory_correction", "cg_sense_sms", "nlinv_sms",
                               "t1_map", "t2_map", "t2star_map", "adc_map", "b1_map", "psir"})
    if (has(left_out) || (in_accelerated.contains(left_out) && std::string_view(left_out) != "cardiac_binning"))
      return {};  // with phases that are counted, a few readouts do
  for (const char* gadget : {"fhd", "gridding"})
    for (const config::Node& dimensions : config::parameters_of(spec, gadget, "dimensions"))
      if (dimensions.kind() == config::Node::Kind::scalar && dimensions.as_int() == 3) return {};
  std::vector<Kind> kinds;
  const bool echoes = has("epi_phase_correction") || has("ramp_regrid");
  if (has("cartesian_kspace")) {
    // A chain that unmixes frames itself is there for scans that leave lines out.
    const bool unmixes = has("grappa") || has("sense") || has("encoding");
    if (!unmixes) kinds.push_back(echoes ? Kind::epi : Kind::cartesian);
    if (unmixes || !spec.accelerated.empty()) kinds.push_back(echoes ? Kind::accelerated_epi : Kind::accelerated);
  } else if (has("gridding") || has("fhd")) {
    kinds.push_back(Kind::radial);
  }
  return kinds;
}

SmallScan small_scan(const config::PipelineSpec& spec, SmallScanKind kind, SmallScanSize size) {
  const bool counted = spec.frame.kind == config::FrameRule::Kind::readouts;
  const int per_frame = kind != Kind::radial ? size.matrix
                        : counted            ? static_cast<int>(std::clamp<std::int64_t>(spec.frame.readouts, 1, 1024))
                                             : kSpokes;
  const auto header = protocol::parse_header(header_of(kind, size, per_frame, kFrames), {});
  if (!header) throw std::logic_error("small_scan: " + header.error().message);
  Writer writer(size, 2 * size.matrix);
  if (kind == Kind::radial)
    add_spokes(writer, spec, size, per_frame, kFrames);
  else
    add_lines(writer, kind, size);
  static constexpr std::array<const char*, 5> kNames = {"Cartesian", "Cartesian, R=3", "EPI", "EPI, R=3", "radial"};
  return {kNames.at(static_cast<std::size_t>(kind)), *header, std::move(writer.out)};
}

}  // namespace echotrain::server
