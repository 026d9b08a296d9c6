#include "clients/cpp/simulate/trajectory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "clients/cpp/base/usage_error.h"

namespace echotrain::client {
namespace {

constexpr double kGoldenDegrees = 111.246117975;

// Sampling steps are chosen for a field of view this much larger than the image: an object that fills the circle in the
// square then leaves no aliasing in the corners either (0.5 + sqrt(0.5) = 1.21).
constexpr double kFieldOfView = 1.25;

double spiral_turns(int matrix, int arms) { return kFieldOfView * matrix / (2.0 * arms); }

ReadoutPath cartesian_line(const ScanPath& scan, int line) {
  ReadoutPath path;
  const double full = static_cast<double>(scan.matrix()) * scan.oversampling();
  const double ky = static_cast<double>(line - scan.shots() / 2) / scan.matrix();
  for (int s = 0; s < scan.samples(); ++s) {
    // Positions are in cycles/pixel: readout oversampling makes steps finer, the band stays -0.5 .. 0.5.
    path.positions.push_back({(s - scan.center_sample()) / full, ky, 0});
  }
  return path;
}

ReadoutPath spoke(int samples, double angle) {
  ReadoutPath path;
  for (int s = 0; s < samples; ++s) {
    const double k = (s - samples / 2) / static_cast<double>(samples);
    path.positions.push_back({k * std::cos(angle), k * std::sin(angle), 0});
  }
  return path;
}

// The ring between the radii of two sample edges belongs to one sample of each interleave: its weight is the ring's
// area over their number, and the sample lies at the radius that halves the ring's area.
ReadoutPath spiral_arm(const ScanPath& scan, int arm) {
  ReadoutPath path;
  const double turns = spiral_turns(scan.matrix(), scan.shots());
  const auto radius = [&](double edge) { return 0.5 * std::pow(edge / scan.samples(), 2.0 / 3.0); };
  for (int s = 0; s < scan.samples(); ++s) {
    const double inner = radius(s), outer = radius(s + 1);
    const double k = std::sqrt((inner * inner + outer * outer) / 2);
    const double angle = 2 * std::numbers::pi * (turns * k / 0.5 + static_cast<double>(arm) / scan.shots());
    path.positions.push_back({k * std::cos(angle), k * std::sin(angle), 0});
    path.weights.push_back(std::numbers::pi * (outer * outer - inner * inner) / scan.shots());
  }
  return path;
}

ReadoutPath centre_out_spoke(const ScanPath& scan, int index) {
  ReadoutPath path;
  const double z = 1 - (2.0 * index + 1) / scan.shots();
  const double ring = std::sqrt(1 - z * z);
  const double angle = std::fmod(index * std::numbers::pi * (3 - std::sqrt(5.0)), 2 * std::numbers::pi);
  for (int s = 0; s < scan.samples(); ++s) {
    const double k = 0.5 * s / (scan.samples() - 0.5);  // the last sample's shell ends at 0.5
    path.positions.push_back({k * ring * std::cos(angle), k * ring * std::sin(angle), k * z});
  }
  return path;
}

}  // namespace

std::vector<float> interleaved(const ReadoutPath& path, int dims) {
  std::vector<float> values;
  for (std::size_t s = 0; s < path.positions.size(); ++s) {
    for (int d = 0; d < dims; ++d) values.push_back(static_cast<float>(path.positions[s][d]));
    if (!path.weights.empty()) values.push_back(static_cast<float>(path.weights[s]));
  }
  return values;
}

const std::vector<std::string>& trajectory_names() {
  static const std::vector<std::string> names = {"cartesian", "radial",         "golden_radial",   "spiral",
                                                 "kooshball", "stack_of_stars", "stack_of_spirals"};
  return names;
}

TrajectoryKind parse_trajectory(std::string_view name) {
  const auto& names = trajectory_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw UsageError(fmt::format("unknown trajectory '{}'; use one of {}", name, fmt::join(names, ", ")));
  }
  return static_cast<TrajectoryKind>(found - names.begin());
}

GradientDelays parse_gradient_delays(std::string_view text) {
  if (text.empty()) return {};
  GradientDelays out;
  const std::string whole(text);
  int end = 0;
  constexpr double kMost = 100;  // samples
  if (std::sscanf(whole.c_str(), "%lf:%lf:%lf%n", &out.x, &out.y, &out.xy, &end) != 3 ||
      end != static_cast<int>(whole.size()) || !(std::abs(out.x) <= kMost) || !(std::abs(out.y) <= kMost) ||
      !(std::abs(out.xy) <= kMost))
    throw UsageError("--gradient-delays takes X:Y:XY in samples, -100 to 100 each, as in -0.6:-0.65:0; not '" + whole +
                     "'");
  return out;
}

ScanPath::ScanPath(TrajectoryKind kind, const ScanShape& shape) : kind_(kind), shape_(shape) {
  auto& [matrix, readouts, samples, oversampling, partitions, outermost, depth, elliptical] = shape_;
  if (!cartesian() && oversampling != 1) {
    throw UsageError("--oversampling is for cartesian scans; use --samples to sample a spoke or a spiral more finely");
  }
  if (!cartesian() && (depth > 1 || elliptical)) throw UsageError("--depth is for cartesian scans");
  if (!stack() && (partitions != 0 || (outermost && depth == 1))) {
    throw UsageError("--partitions and --partitions-outermost are for stack_of_stars and stack_of_spirals");
  }
  if (partitions == 0) partitions = stack() ? std::max(2, matrix / 4) : depth;
  if (stack() && partitions < 2) throw UsageError("a stack has 2 or more --partitions");
  if (readouts == 0) {
    switch (in_plane()) {
      case TrajectoryKind::cartesian:
        readouts = matrix;
        break;
      case TrajectoryKind::radial:
      case TrajectoryKind::golden_radial:
        readouts = static_cast<int>(std::ceil(std::numbers::pi / 2 * kFieldOfView * matrix));
        break;
      case TrajectoryKind::spiral:
        readouts = std::min(16, matrix / 2);
        break;
      case TrajectoryKind::kooshball:
        // Neighbouring spokes are one step apart at the rim: a sphere's 4 pi (N/2)^2 steps.
        readouts = std::min(65535, static_cast<int>(std::ceil(std::numbers::pi * matrix * matrix)));
        break;
      case TrajectoryKind::stack_of_stars:
      case TrajectoryKind::stack_of_spirals:
        break;  // a plane never has this kind
    }
  }
  if (samples == 0) {
    switch (in_plane()) {
      case TrajectoryKind::cartesian:
        samples = matrix * oversampling;
        break;
      case TrajectoryKind::radial:
      case TrajectoryKind::golden_radial:
        samples = 2 * matrix;
        break;
      // The speed is largest at the rim: (2/3) 2 pi 0.5 turns / samples must stay below the step there. The radial sum
      // over a narrow centre needs a few hundred samples, even in a small image.
      case TrajectoryKind::spiral:
        samples =
            std::max(256, static_cast<int>(std::ceil(2.2 * spiral_turns(matrix, readouts) * kFieldOfView * matrix)));
        break;
      case TrajectoryKind::kooshball:
        samples = matrix;
        break;
      case TrajectoryKind::stack_of_stars:
      case TrajectoryKind::stack_of_spirals:
        break;  // a plane never has this kind
    }
  }
  if (samples > 65535 || readouts > 65535) {
    throw UsageError(
        fmt::format("{} readouts of {} samples: ISMRMRD counts both up to 65535; use fewer (--readouts, "
                    "--samples; a spiral of more interleaves needs fewer samples)",
                    readouts, samples));
  }
  if (cartesian() && readouts > matrix) {
    throw UsageError(
        fmt::format("--readouts {} is more than the {} lines of a cartesian --matrix {}", readouts, matrix, matrix));
  }
  if (cartesian() && (samples > matrix * oversampling || 2 * samples <= matrix * oversampling)) {
    throw UsageError(
        fmt::format("--samples {} of a cartesian readout must be in {} .. {} (matrix * oversampling; fewer is a "
                    "partial echo, which must keep the centre)",
                    samples, matrix * oversampling / 2 + 1, matrix * oversampling));
  }
}

TrajectoryKind ScanPath::in_plane() const {
  if (kind_ == TrajectoryKind::stack_of_stars) return TrajectoryKind::golden_radial;
  if (kind_ == TrajectoryKind::stack_of_spirals) return TrajectoryKind::spiral;
  return kind_;
}

int ScanPath::depth() const { return kind_ == TrajectoryKind::kooshball ? matrix() : partitions(); }

bool ScanPath::in_shutter(int line, int plane) const {
  if (!shape_.elliptical) return true;
  const auto share = [](int at, int extent) { return 2.0 * (at - extent / 2) / extent; };
  return std::hypot(share(line, shots()), share(plane, partitions())) <= 1;
}

ScanPath::Steps ScanPath::steps(int readout) const {
  if (shape_.partitions_outermost) return {readout % shots(), readout / shots()};
  return {readout / partitions(), readout % partitions()};
}

int ScanPath::center_sample() const {
  switch (in_plane()) {
    case TrajectoryKind::cartesian:
      return samples() - (matrix() * oversampling() + 1) / 2;
    case TrajectoryKind::radial:
    case TrajectoryKind::golden_radial:
      return samples() / 2;
    default:
      return 0;
  }
}

ReadoutPath ScanPath::readout(int readout, int frame) const {
  const auto [number, partition] = steps(readout);
  ReadoutPath path = shot(number, frame);
  if (partitions() > 1) {
    const double kz = static_cast<double>(partition - partitions() / 2) / partitions();
    for (Vec3& k : path.positions) k[2] = kz;
  }
  return path;
}

ReadoutPath ScanPath::played(int readout, int frame, const GradientDelays& delays) const {
  ReadoutPath path = this->readout(readout, frame);
  auto& k = path.positions;
  if (k.size() < 2) return path;
  // Spokes are straight and even, so that a delay moves all of their samples alike.
  const double count = static_cast<double>(k.size() - 1);
  const double x = (k.back()[0] - k.front()[0]) / count, y = (k.back()[1] - k.front()[1]) / count;
  for (Vec3& at : k) {
    at[0] += delays.x * x + delays.xy * y;
    at[1] += delays.xy * x + delays.y * y;
  }
  return path;
}

ReadoutPath ScanPath::shot(int shot, int frame) const {
  switch (in_plane()) {
    case TrajectoryKind::cartesian:
      return cartesian_line(*this, shot);
    case TrajectoryKind::radial:
      return spoke(samples(), std::numbers::pi * shot / shots());
    case TrajectoryKind::golden_radial: {
      const double index = static_cast<double>(frame) * shots() + shot;
      return spoke(samples(), std::fmod(index * kGoldenDegrees, 360.0) * std::numbers::pi / 180);
    }
    case TrajectoryKind::spiral:
      return spiral_arm(*this, shot);
    default:
      return centre_out_spoke(*this, shot);
  }
}

double ScanPath::coverage(const Vec3& k, double cell) const {
  if (cartesian()) {
    const auto sample = std::lround(k[0] * matrix() * oversampling()) + center_sample();
    const auto line = std::lround(k[1] * matrix()) + shots() / 2;
    const auto plane = std::lround(k[2] * partitions()) + partitions() / 2;
    const bool inside = sample >= 0 && sample < samples() && line >= 0 && line < shots() && plane >= 0 &&
                        plane < partitions() && in_shutter(static_cast<int>(line), static_cast<int>(plane));
    return inside ? 1 : 0;
  }
  const double kz = stack() ? 0 : k[2];
  const double radius = std::sqrt(k[0] * k[0] + k[1] * k[1] + kz * kz);
  return std::clamp((0.5 - radius) / cell + 0.5, 0.0, 1.0);
}

}  // namespace echotrain::client
