#include "clients/cpp/simulate/undersampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <utility>

#include "clients/cpp/base/usage_error.h"

namespace echotrain::client {
namespace {

constexpr int kMostSteps = 16;

int remainder(int value, int divisor) { return (value % divisor + divisor) % divisor; }

}  // namespace

std::array<int, 2> parse_acceleration(std::string_view text) {
  std::array<int, 2> out{1, 1};
  const char* at = text.data();
  const char* const end = at + text.size();
  bool good = true;
  for (std::size_t axis = 0; axis < 2 && good; ++axis) {
    const auto [rest, error] = std::from_chars(at, end, out[axis]);
    good = error == std::errc() && out[axis] >= 1 && out[axis] <= kMostSteps && (rest == end || *rest == 'x');
    if (good && rest == end) return out;
    at = rest + 1;
  }
  throw UsageError(fmt::format("--acceleration {} is neither R nor RxR with whole numbers up to {}", text, kMostSteps));
}

Undersampling::Undersampling(const UndersamplingOptions& options, const ScanPath& scan, std::uint64_t seed)
    : options_(options), scan_(scan), step_(parse_acceleration(options.acceleration)) {
  check();
  first_line_ = std::min(scan.shots() / 2, static_cast<int>(std::lround((1 - options.partial_fourier) * scan.shots())));
  if (options.calibration > 0 && scan.shots() / 2 - options.calibration / 2 < first_line_)
    throw UsageError(fmt::format("--partial-fourier {:g} leaves out some of the middle {} lines of --calibration",
                                 options.partial_fourier, options.calibration));
  if (options.sampling == "poisson") choose_at_random(seed);
}

void Undersampling::check() const {
  const UndersamplingOptions plain;
  const auto& o = options_;
  const bool random = o.sampling == "poisson";
  if (!scan_.cartesian()) {
    if (accelerated() || o.calibration != plain.calibration || o.partial_fourier != 1 || o.sampling != plain.sampling)
      throw UsageError("--acceleration, --calibration, --partial-fourier and --sampling are for cartesian scans");
    return;
  }
  if (o.sampling != "regular" && o.sampling != "elliptical" && !random)
    throw UsageError("unknown --sampling '" + o.sampling + "'; use regular, elliptical or poisson");
  const std::string& mode = o.calibration_mode;
  if (mode != "embedded" && mode != "separate" && mode != "interleaved")
    throw UsageError("unknown --calibration-mode '" + mode + "'; use embedded, separate or interleaved");
  if (step_[1] > 1 && scan_.partitions() == 1)
    throw UsageError("--acceleration of two axes is for volumes: give --depth");
  if (step_[0] > scan_.shots() || step_[1] > scan_.partitions())
    throw UsageError("--acceleration " + o.acceleration + " is more than the scan has lines or planes");
  if (o.sampling == "elliptical" && scan_.partitions() == 1)
    throw UsageError("--sampling elliptical is for volumes: give --depth");
  if (random && !accelerated()) throw UsageError("--sampling poisson needs an --acceleration above 1");
  if (o.caipi != 0 && (o.caipi >= step_[0] || scan_.partitions() == 1 || random))
    throw UsageError(
        "--caipi is for regular sampling of volumes (--depth), and less than --acceleration's first number");
  if (o.calibration > 0 && !accelerated() && o.multiband == 1)
    throw UsageError("--calibration needs an --acceleration above 1");
  if (o.multiband > 1 && (mode != "separate" || random))
    throw UsageError(
        "--multiband needs reference lines of its slices: give --calibration and --calibration-mode separate, and no "
        "random --sampling");
  if (o.fov_shift > 1 && o.multiband == 1) throw UsageError("--fov-shift is for --multiband");
  if (o.calibration > scan_.shots())
    throw UsageError(fmt::format("--calibration {} is more than the scan's {} lines", o.calibration, scan_.shots()));
  if (mode == "separate" && o.calibration == 0)
    throw UsageError("--calibration-mode separate needs lines: give --calibration");
  if (mode == "interleaved" && (o.calibration > 0 || random || !accelerated()))
    throw UsageError(
        "--calibration-mode interleaved needs a regular --acceleration above 1, and no --calibration: its frames "
        "together are the reference");
}

bool Undersampling::on_lattice(int line, int plane, int frame) const {
  const int moved = options_.calibration_mode == "interleaved" ? frame : 0;
  const int from_centre_z = plane - scan_.partitions() / 2 - moved / step_[0];
  if (remainder(from_centre_z, step_[1]) != 0) return false;
  const int shift = options_.caipi * (from_centre_z / step_[1]);
  return remainder(line - scan_.shots() / 2 - moved - shift, step_[0]) == 0;
}

bool Undersampling::in_reference(int line, int plane) const {
  const auto inside = [](int at, int extent, int count) {
    const int begin = extent / 2 - count / 2;
    return at >= begin && at < begin + count;
  };
  const int planes = std::min(options_.calibration, scan_.partitions());
  return inside(line, scan_.shots(), options_.calibration) && inside(plane, scan_.partitions(), planes);
}

std::vector<AcquiredReadout> Undersampling::frame(int frame) const {
  std::vector<AcquiredReadout> out;
  const bool embedded = options_.calibration_mode == "embedded";
  for (int r = 0; r < scan_.readouts(); ++r) {
    const auto [line, plane] = scan_.steps(r);
    if (line < first_line_) continue;
    const bool reference = embedded && in_reference(line, plane);
    const bool image = !chosen_.empty() ? chosen_[static_cast<std::size_t>(plane * scan_.shots() + line)]
                                        : on_lattice(line, plane, frame) && scan_.in_shutter(line, plane);
    if (image || reference) out.push_back({r, image, reference});
  }
  return out;
}

std::vector<AcquiredReadout> Undersampling::before() const {
  std::vector<AcquiredReadout> out;
  if (options_.calibration_mode != "separate") return out;
  for (int r = 0; r < scan_.readouts(); ++r) {
    const auto [line, plane] = scan_.steps(r);
    if (in_reference(line, plane)) out.push_back({r, false, true});
  }
  return out;
}

// Throws darts in a fixed random order for the radius, found by bisection, that just leaves enough of them.
void Undersampling::choose_at_random(std::uint64_t seed) {
  const int ny = scan_.shots(), nz = scan_.partitions();
  const auto points = static_cast<std::size_t>(ny) * static_cast<std::size_t>(nz);
  std::vector<std::size_t> order;
  std::size_t wanted = 0;
  for (std::size_t p = 0; p < points; ++p) {
    const int line = static_cast<int>(p) % ny, plane = static_cast<int>(p) / ny;
    if (line < first_line_) continue;
    order.push_back(p);
    wanted += on_lattice(line, plane, 0) ? 1 : 0;
  }
  std::mt19937_64 random(seed);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);  // Fisher and Yates
  const bool embedded = options_.calibration_mode == "embedded";

  const auto throw_darts = [&](double radius) {
    std::vector<bool> hit(points);
    std::size_t count = 0;
    for (const std::size_t p : order) {
      if (count == wanted) break;
      const int y = static_cast<int>(p) % ny, z = static_cast<int>(p) / ny;
      const double ky = 2.0 * (y - ny / 2) / ny, kz = nz > 1 ? 2.0 * (z - nz / 2) / nz : 0;
      const double distance = radius * (1 + std::min(1.0, std::hypot(ky, kz)));
      const int reach = static_cast<int>(distance);
      bool free = true;
      for (int dz = -std::min(reach, z); free && dz <= std::min(reach, nz - 1 - z); ++dz)
        for (int dy = -std::min(reach, y); free && dy <= std::min(reach, ny - 1 - y); ++dy)
          free = !hit[static_cast<std::size_t>((z + dz) * ny + y + dy)] || dy * dy + dz * dz >= distance * distance;
      // The reference lines of a random pattern are all for images.
      if (!free && !(embedded && in_reference(y, z))) continue;
      hit[p] = true;
      ++count;
    }
    return std::pair(std::move(hit), count);
  };
  double low = 0, high = 4.0 * std::max(step_[0], step_[1]);
  for (int step = 0; step < 12; ++step) {
    const double middle = (low + high) / 2;
    (throw_darts(middle).second == wanted ? low : high) = middle;
  }
  chosen_ = throw_darts(low).first;
  for (const std::size_t p : order)
    if (embedded && in_reference(static_cast<int>(p) % ny, static_cast<int>(p) / ny)) chosen_[p] = true;
}

std::string Undersampling::header(double spacing_mm) const {
  if (!accelerated() && options_.multiband == 1) return "";
  const bool interleaved = options_.calibration_mode == "interleaved";
  // A scan without reference lines of its own is for calibration by another.
  const std::string mode = interleaved || options_.calibration > 0 ? options_.calibration_mode : "external";
  return fmt::format(
      "    <parallelImaging>\n"
      "      <accelerationFactor><kspace_encoding_step_1>{}</kspace_encoding_step_1>"
      "<kspace_encoding_step_2>{}</kspace_encoding_step_2></accelerationFactor>\n"
      "      <calibrationMode>{}</calibrationMode>\n"
      "{}{}"
      "    </parallelImaging>\n",
      step_[0], step_[1], mode, interleaved ? "      <interleavingDimension>repetition</interleavingDimension>\n" : "",
      options_.multiband == 1
          ? ""
          : fmt::format("      <multiband><spacing><dZ>{}</dZ></spacing><deltaKz>{}</deltaKz>"
                        "<multiband_factor>{}</multiband_factor><calibration>separable2D</calibration>"
                        "<calibration_encoding>0</calibration_encoding></multiband>\n",
                        spacing_mm, options_.fov_shift > 1 ? 1 / (options_.fov_shift * spacing_mm) : 0,
                        options_.multiband));
}

}  // namespace echotrain::client
