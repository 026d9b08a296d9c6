#include "clients/cpp/trajectory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "clients/cpp/errors.h"

namespace echotrain::client {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kGoldenDegrees = 111.246117975;

// Sampling steps are chosen for a field of view this much larger than the image: an object that fills the circle in the
// square then leaves no aliasing in the corners either (0.5 + sqrt(0.5) = 1.21).
constexpr double kFieldOfView = 1.25;

double spiral_turns(int matrix, int arms) { return kFieldOfView * matrix / (2.0 * arms); }

ReadoutPath cartesian_line(const ScanPath& scan, int line) {
  ReadoutPath path;
  const double full = static_cast<double>(scan.matrix()) * scan.oversampling();
  const double ky = static_cast<double>(line - scan.readouts() / 2) / scan.matrix();
  for (int s = 0; s < scan.samples(); ++s) {
    // In cycles/pixel: readout oversampling makes steps finer, the band stays -0.5 .. 0.5.
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
// area over their number, and it lies at the radius that halves the ring's area.
ReadoutPath spiral_arm(const ScanPath& scan, int arm) {
  ReadoutPath path;
  const double turns = spiral_turns(scan.matrix(), scan.readouts());
  const auto radius = [&](double edge) { return 0.5 * std::pow(edge / scan.samples(), 2.0 / 3.0); };
  for (int s = 0; s < scan.samples(); ++s) {
    const double inner = radius(s), outer = radius(s + 1);
    const double k = std::sqrt((inner * inner + outer * outer) / 2);
    const double angle = 2 * kPi * (turns * k / 0.5 + static_cast<double>(arm) / scan.readouts());
    path.positions.push_back({k * std::cos(angle), k * std::sin(angle), 0});
    path.weights.push_back(kPi * (outer * outer - inner * inner) / scan.readouts());
  }
  return path;
}

ReadoutPath centre_out_spoke(const ScanPath& scan, int index) {
  ReadoutPath path;
  const double z = 1 - (2.0 * index + 1) / scan.readouts();
  const double ring = std::sqrt(1 - z * z);
  const double angle = std::fmod(index * kPi * (3 - std::sqrt(5.0)), 2 * kPi);
  for (int s = 0; s < scan.samples(); ++s) {
    const double k = 0.5 * s / (scan.samples() - 0.5);  // the last sample's shell ends at 0.5
    path.positions.push_back({k * ring * std::cos(angle), k * ring * std::sin(angle), k * z});
  }
  return path;
}

}  // namespace

const std::vector<std::string>& trajectory_names() {
  static const std::vector<std::string> names = {"cartesian", "radial", "golden_radial", "spiral", "kooshball"};
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

ScanPath::ScanPath(TrajectoryKind kind, int matrix, int readouts, int samples, int oversampling)
    : kind_(kind), matrix_(matrix), readouts_(readouts), samples_(samples), oversampling_(oversampling) {
  if (!cartesian() && oversampling != 1) {
    throw UsageError("--oversampling is for cartesian scans; use --samples to sample a spoke or a spiral more finely");
  }
  if (readouts_ == 0) {
    switch (kind) {
      case TrajectoryKind::cartesian:
        readouts_ = matrix;
        break;
      case TrajectoryKind::radial:
      case TrajectoryKind::golden_radial:
        readouts_ = static_cast<int>(std::ceil(kPi / 2 * kFieldOfView * matrix));
        break;
      case TrajectoryKind::spiral:
        readouts_ = std::min(16, matrix / 2);
        break;
      case TrajectoryKind::kooshball:
        // Neighbouring spokes are one step apart at the rim: a sphere's 4 pi (N/2)^2 steps.
        readouts_ = std::min(65535, static_cast<int>(std::ceil(kPi * matrix * matrix)));
        break;
    }
  }
  if (samples_ == 0) {
    switch (kind) {
      case TrajectoryKind::cartesian:
        samples_ = matrix * oversampling;
        break;
      case TrajectoryKind::radial:
      case TrajectoryKind::golden_radial:
        samples_ = 2 * matrix;
        break;
      // The speed is largest at the rim: (2/3) 2 pi 0.5 turns / samples must stay below the step there. The radial sum
      // over a narrow centre wants a few hundred samples, however small the image.
      case TrajectoryKind::spiral:
        samples_ =
            std::max(256, static_cast<int>(std::ceil(2.2 * spiral_turns(matrix, readouts_) * kFieldOfView * matrix)));
        break;
      case TrajectoryKind::kooshball:
        samples_ = matrix;
        break;
    }
  }
  if (samples_ > 65535 || readouts_ > 65535) {
    throw UsageError(
        fmt::format("{} readouts of {} samples: ISMRMRD counts both up to 65535; use fewer (--readouts, "
                    "--samples; a spiral of more interleaves needs fewer samples)",
                    readouts_, samples_));
  }
  if (cartesian() && readouts_ > matrix) {
    throw UsageError(
        fmt::format("--readouts {} is more than the {} lines of a cartesian --matrix {}", readouts_, matrix, matrix));
  }
  if (cartesian() && (samples_ > matrix * oversampling || 2 * samples_ <= matrix * oversampling)) {
    throw UsageError(
        fmt::format("--samples {} of a cartesian readout must be in {} .. {} (matrix * oversampling; fewer is a "
                    "partial echo, which must keep the centre)",
                    samples_, matrix * oversampling / 2 + 1, matrix * oversampling));
  }
}

int ScanPath::center_sample() const {
  switch (kind_) {
    case TrajectoryKind::cartesian:
      return samples_ - (matrix_ * oversampling_ + 1) / 2;
    case TrajectoryKind::radial:
    case TrajectoryKind::golden_radial:
      return samples_ / 2;
    default:
      return 0;
  }
}

ReadoutPath ScanPath::readout(int readout, int frame) const {
  switch (kind_) {
    case TrajectoryKind::cartesian:
      return cartesian_line(*this, readout);
    case TrajectoryKind::radial:
      return spoke(samples_, kPi * readout / readouts_);
    case TrajectoryKind::golden_radial: {
      const double index = static_cast<double>(frame) * readouts_ + readout;
      return spoke(samples_, std::fmod(index * kGoldenDegrees, 360.0) * kPi / 180);
    }
    case TrajectoryKind::spiral:
      return spiral_arm(*this, readout);
    case TrajectoryKind::kooshball:
      return centre_out_spoke(*this, readout);
  }
  return {};
}

double ScanPath::coverage(const Vec3& k, double cell) const {
  if (cartesian()) {
    const auto sample = std::lround(k[0] * matrix_ * oversampling_) + center_sample();
    const auto line = std::lround(k[1] * matrix_) + readouts_ / 2;
    return sample >= 0 && sample < samples_ && line >= 0 && line < readouts_ ? 1 : 0;
  }
  const double radius = std::sqrt(k[0] * k[0] + k[1] * k[1] + k[2] * k[2]);
  return std::clamp((0.5 - radius) / cell + 0.5, 0.0, 1.0);
}

}  // namespace echotrain::client
