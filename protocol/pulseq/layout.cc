#include "protocol/pulseq/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "protocol/files/scan_reader.h"

namespace echotrain::protocol::pulseq {
namespace {

constexpr std::size_t kLooks = 33;  // samples of a readout that are looked at, its ends among them
constexpr double kFlat = 1e-4;      // of k-space's reach: less is none
constexpr double kStraight = 1e-3;  // of a readout's length: how far samples may lie beside the line between its ends
constexpr double kAlong = 0.15;     // and along other axes for a line: blips of EPI may begin while it is measured
constexpr double kTie = 0.02;  // of a step, squared: samples on both sides of the middle, rounded as files round them
constexpr double kNearZero = 0.25;        // of a step: lines lie that much beside the middle of k-space at most
constexpr std::size_t kMostKnown = 4096;  // paths whose middles are kept
constexpr double kMostMatrix = 65534, kLeastMm = 1e-3, kMostMm = 1e6;

/// One readout, by some of its samples.
struct Look {
  Place low{}, high{}, center{};
  Place first{}, last{};
  bool straight = true;
  double extent(std::size_t axis) const { return high[axis] - low[axis]; }
};

double length(const Place& a) { return std::hypot(a[0], a[1], a[2]); }
Place minus(const Place& a, const Place& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

/// Looked for among some samples, then around the nearest of these.
std::size_t center_of(const KSpace& kspace, std::size_t readout) {
  const std::size_t samples = kspace.adc(readout).samples, stride = std::max<std::size_t>(1, samples / kLooks);
  if (samples == 0) return 0;
  const auto nearer = [](const Place& a, const Place& b) { return length(a) < length(b); };
  std::vector<Place> places = kspace.places(readout, 0, (samples - 1) / stride + 1, stride);
  const auto about =
      stride * static_cast<std::size_t>(std::min_element(places.begin(), places.end(), nearer) - places.begin());
  const std::size_t begin = about - std::min(about, stride), end = std::min(samples, about + stride + 1);
  places = kspace.places(readout, begin, end - begin);
  const double nearest = length(*std::min_element(places.begin(), places.end(), nearer));
  double step = 0;
  for (std::size_t n = 1; n < places.size(); ++n) step = std::max(step, length(minus(places[n], places[n - 1])));
  std::size_t best = about;
  for (std::size_t n = 0; n < places.size(); ++n)
    if (const double away = length(places[n]); away * away <= nearest * nearest + kTie * step * step) best = begin + n;
  return best;
}

std::vector<std::uint16_t> centers_of(const KSpace& kspace) {
  std::map<KSpace::PathKey, std::uint16_t> known;
  std::vector<std::uint16_t> out(kspace.readouts());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (known.size() == kMostKnown) known.clear();
    const auto [at, is_new] = known.try_emplace(kspace.path_key(i), std::uint16_t{0});
    if (is_new) at->second = static_cast<std::uint16_t>(center_of(kspace, i));
    out[i] = at->second;
  }
  return out;
}

Look look_at(const KSpace& kspace, std::size_t readout, std::size_t center) {
  const std::size_t samples = kspace.adc(readout).samples, looks = std::min(samples, kLooks);
  std::vector<Place> places;
  for (std::size_t i = 0; i < looks; ++i)
    places.push_back(kspace.place(readout, looks == 1 ? 0 : i * (samples - 1) / (looks - 1)));
  Look out;
  if (places.empty()) return out;
  out.low = out.high = places.front();
  out.first = places.front();
  out.last = places.back();
  const Place chord = minus(out.last, out.first);
  const double square = chord[0] * chord[0] + chord[1] * chord[1] + chord[2] * chord[2];
  double extent = 0, beside = 0;
  for (const Place& place : places) {
    Place from = minus(place, out.first);
    const double along = square > 0 ? (from[0] * chord[0] + from[1] * chord[1] + from[2] * chord[2]) / square : 0;
    extent = std::max(extent, length(from));
    for (std::size_t axis = 0; axis < 3; ++axis) {
      out.low[axis] = std::min(out.low[axis], place[axis]);
      out.high[axis] = std::max(out.high[axis], place[axis]);
      from[axis] -= along * chord[axis];
    }
    beside = std::max(beside, length(from));
  }
  out.straight = beside <= kStraight * extent;
  out.center = kspace.place(readout, center);
  return out;
}

/// All readouts together.
struct Survey {
  Place reach{};   // the largest |k| of image readouts
  Place within{};  // the longest extent of a readout
  std::array<bool, 3> lines_along{true, true, true};
  bool straight = true, turns = false, steps_between = false;
  bool level = true;  // each readout has one z
  double flat = 0;    // less is no extent
};

Survey survey_of(const KSpace& kspace, const std::vector<std::uint16_t>& centers) {
  Survey out;
  std::vector<std::pair<Place, bool>> shapes;  // extent, and whether it is straight
  std::optional<Look> before;
  std::size_t number_before = 0;
  for (std::size_t i = 0; i < kspace.readouts(); ++i) {
    const Labels& labels = kspace.labels(i);
    if (labels.has(Flag::noise) || labels.has(Flag::navigator)) continue;
    const Look look = look_at(kspace, i, centers[i]);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      out.reach[axis] = std::max({out.reach[axis], std::abs(look.low[axis]), std::abs(look.high[axis])});
      out.within[axis] = std::max(out.within[axis], look.extent(axis));
    }
    shapes.push_back({{look.extent(0), look.extent(1), look.extent(2)}, look.straight});
    if (before && kspace.excitation(number_before) == kspace.excitation(i)) {
      const Place a = minus(look.last, look.first), b = minus(before->last, before->first);
      if (a[0] * b[0] + a[1] * b[1] + a[2] * b[2] < 0) {
        out.turns = true;
        const Place step = minus(look.center, before->center);
        if (length(step) > kFlat * length(a)) out.steps_between = true;
      }
    }
    before = look;
    number_before = i;
  }
  out.flat = kFlat * std::max({out.reach[0], out.reach[1], out.reach[2]});
  out.level = out.within[2] <= out.flat;
  bool any = false;
  for (const auto& [extent, straight] : shapes) {
    if (std::max({extent[0], extent[1], extent[2]}) <= out.flat) continue;  // without a gradient
    any = true;
    out.straight = out.straight && straight;
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (std::size_t other = 0; other < 3; ++other)
        if (extent[axis] <= 0 || (other != axis && extent[other] > kAlong * extent[axis]))
          out.lines_along[axis] = false;
  }
  if (!any) out.lines_along = {};
  return out;
}

long even_matrix(double reach, double fov_mm) {
  const double half = reach * fov_mm / 1000;
  return half <= kNearZero ? 1 : static_cast<long>(2 * std::ceil(std::min(half - kNearZero, kMostMatrix / 2)));
}

/// The smallest matrix whose voxel floor(n/2) is the centre and which has all counts up to `highest`.
long matrix_for(long highest, long center) { return std::max({2 * center, 2 * (highest - center) + 1, 1L}); }

std::array<double, 3> fov_of(const KSpace& kspace, const std::optional<std::array<double, 3>>& told) {
  const std::vector<double> defined = kspace.sequence().numbers("FOV");
  std::array<double, 3> out = told.value_or(std::array<double, 3>{});
  for (std::size_t axis = 0; axis < 3 && axis < defined.size(); ++axis)
    if (defined[axis] > 0) out[axis] = 1000 * defined[axis];
  if (defined.size() == 1) out[1] = out[0];
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (out[axis] < kLeastMm || out[axis] > kMostMm)
      throw DatasetError(fmt::format("{}: no field of view: give the definition FOV (x y z in m; found '{}')",
                                     kspace.sequence().name,
                                     defined.empty() ? "nothing" : kspace.sequence().definitions.at("FOV")));
  return out;
}

std::vector<double> defined_matrix(const Sequence& sequence) {
  const std::vector<double> matrix = sequence.numbers("Matrix");
  return matrix.empty() ? sequence.numbers("MatrixSize") : matrix;
}

/// The readout axis of lines: as many voxels as samples (of EPI as many as its fastest part encodes), over the field of
/// view that their distance encodes.
void set_readout(const KSpace& kspace, const Survey& survey, Layout& to) {
  const std::size_t axis = to.axes[0];
  for (std::size_t i = 0; i < kspace.readouts(); ++i) {
    if (kspace.labels(i).has(Flag::noise) || kspace.labels(i).has(Flag::navigator)) continue;
    const std::size_t samples = kspace.adc(i).samples;
    if (samples < 2) continue;
    double widest = 0;
    const std::vector<Place> places = kspace.places(i, 0, samples);
    double last = places[0][axis];
    const double begin = last;
    std::array<double, 2> ends{};
    for (std::size_t n = 1; n < samples; ++n) {
      const double next = places[n][axis], step = std::abs(next - last);
      widest = std::max(widest, step);
      if (n == 1) ends[0] = step;
      ends[1] = step;
      last = next;
    }
    const double extent = std::abs(last - begin) + (ends[0] + ends[1]) / 2;
    if (widest <= 0 || extent <= survey.flat) continue;
    const bool even = widest * static_cast<double>(samples) < extent * (1 + kStraight);
    to.encoded[0] = even ? static_cast<long>(samples)
                         : std::max(2 * static_cast<long>(extent / widest / 2 + kStraight), to.recon[0]);
    to.encoded_mm[0] = 1000 * static_cast<double>(to.encoded[0]) / extent;
    return;
  }
}

/// An axis of lines (0) or partitions (1): enough for all counts around the centre.
void set_counted(const KSpace& kspace, const Survey& survey, std::size_t which, Layout& to) {
  const std::size_t axis = to.axes[which + 1];
  const Counter counter = which == 0 ? Counter::line : Counter::partition;
  to.by_place[which] = !kspace.uses(counter) && survey.reach[axis] > survey.flat;
  long highest = 0, lowest = 0xFFFF;
  double nearest = HUGE_VAL;
  to.center[which] = to.recon[which + 1] / 2;
  for (std::size_t i = 0; i < kspace.readouts(); ++i) {
    const Labels& labels = kspace.labels(i);
    if (labels.has(Flag::noise) || labels.has(Flag::navigator)) continue;
    const Place center = kspace.place(i, to.centers[i]);
    const long count = to.by_place[which] ? to.count_of(center, which) : labels.counter(counter);
    highest = std::max(highest, count);
    lowest = std::min(lowest, count);
    if (std::abs(center[axis]) + survey.flat < nearest && !to.by_place[which]) {
      nearest = std::abs(center[axis]);
      to.center[which] = count;
    }
  }
  if (const auto told = kspace.sequence().numbers(which == 0 ? "kSpaceCenterLine" : "kSpaceCenterPartition");
      !told.empty() && !to.by_place[which] && told[0] >= 0 && told[0] <= static_cast<double>(highest))
    to.center[which] = std::lround(told[0]);
  to.wraps[which] = to.by_place[which] && lowest > 0 && highest == to.recon[which + 1];
  if (to.wraps[which]) --highest;
  if (to.recon[which + 1] == 1 && highest == 0) to.center[which] = 0;
  long& matrix = to.recon[which + 1];
  matrix = std::max(matrix, matrix_for(highest, to.center[which]));
  to.encoded[which + 1] = matrix;
}

}  // namespace

Place Layout::in_pixels(const Place& place) const {
  Place out{};
  for (std::size_t i = 0; i < 3; ++i) out[i] = place[axes[i]] * encoded_mm[i] / 1000 / static_cast<double>(encoded[i]);
  return out;
}

long Layout::count_of(const Place& place, std::size_t which) const {
  const double steps = place[axes[which + 1]] * recon_mm[which + 1] / 1000;
  const long count = std::lround(std::clamp(steps, -kMostMatrix, kMostMatrix)) + center[which];
  return wraps[which] && count == recon[which + 1] ? 0 : count;
}

Layout layout_of(const KSpace& kspace, const std::optional<std::array<double, 3>>& fov_mm) {
  const std::array<double, 3> fov = fov_of(kspace, fov_mm);
  const std::vector<double> matrix = defined_matrix(kspace.sequence());
  Layout out;
  out.centers = centers_of(kspace);
  const Survey s = survey_of(kspace, out.centers);
  const auto along = std::find(s.lines_along.begin(), s.lines_along.end(), true);
  const bool lines = along != s.lines_along.end();
  if (lines) {
    out.trajectory = s.turns && s.steps_between ? Trajectory::epi : Trajectory::cartesian;
    std::rotate(out.axes.begin(), out.axes.begin() + (along - s.lines_along.begin()),
                out.axes.begin() + (along - s.lines_along.begin()) + 1);
    if (s.reach[out.axes[1]] <= s.flat) std::swap(out.axes[1], out.axes[2]);
    out.reversed_by_place = s.turns && !kspace.uses(Flag::reversed);
  } else {
    // A plane, where there is one, comes first.
    std::stable_partition(out.axes.begin(), out.axes.end(), [&](std::size_t axis) { return s.reach[axis] > s.flat; });
    const bool stack = out.axes[2] == 2 && s.level;
    out.dimensions = s.reach[out.axes[2]] <= s.flat || stack ? 2 : 3;
    out.trajectory = s.straight ? Trajectory::radial : out.dimensions == 2 ? Trajectory::spiral : Trajectory::other;
  }
  if (out.trajectory == Trajectory::epi) out.dimensions = 2;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t axis = out.axes[i];
    const double told = matrix.empty() ? 0 : matrix.size() > axis ? matrix[axis] : axis < 2 ? matrix[0] : 0;
    out.recon_mm[i] = out.encoded_mm[i] = fov[axis];
    const long reached = even_matrix(s.reach[axis], fov[axis]);
    out.recon[i] = told >= 1 && told <= kMostMatrix ? std::lround(told) : reached;
    if (lines && i > 0) out.recon[i] = std::max(out.recon[i], reached);
    out.encoded[i] = out.recon[i];
  }
  out.partitions = lines || (out.dimensions == 2 && s.reach[out.axes[2]] > s.flat);
  if (lines) {
    set_readout(kspace, s, out);
    set_counted(kspace, s, 0, out);
  } else if (out.dimensions >= 2) {  // voxels are square, as the pixels of a trajectory are
    out.recon[0] = out.recon[1] = out.encoded[0] = out.encoded[1] = std::max(out.recon[0], out.recon[1]);
  }
  if (out.partitions) set_counted(kspace, s, 1, out);
  return out;
}

}  // namespace echotrain::protocol::pulseq
