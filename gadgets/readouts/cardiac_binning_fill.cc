// Lines that a cardiac phase lacks, from readouts of the same lines in other phases.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/readouts/cardiac_binning.h"

namespace echotrain {
namespace {

/// How far the phase `to` lies after `from`, 0 .. 1: 0.05 lies 0.1 after 0.95.
double later(double from, double to) { return to >= from ? to - from : to - from + 1; }

}  // namespace

/// The readout of a line at or before a phase, and the one at or after it; `share` is the second one's.
CardiacBinning::Between CardiacBinning::around(const std::vector<Readout>& by_phase, double phase) const {
  const auto from = [&](double least) {
    return std::lower_bound(by_phase.begin(), by_phase.end(), least,
                            [](const Readout& r, double value) { return r.phase < value; });
  };
  const auto next = from(phase);
  const Readout* after = next == by_phase.end() ? &by_phase.front() : &*next;
  const Readout* before = after;
  if (after->phase != phase)  // of several at once, the first
    before = &*from((next == by_phase.begin() ? by_phase.back() : *std::prev(next)).phase);
  const double gone = later(before->phase, phase), to_come = later(phase, after->phase);
  const double share = before == after ? 0 : gone / (gone + to_come);
  const bool alike = same_shape(*before, *after) && before->head().center_sample == after->head().center_sample &&
                     before->head().discard_pre == after->head().discard_pre &&
                     before->head().discard_post == after->head().discard_post;
  const double distance = std::min(gone, to_come);
  if (options_.fill == "linear" && alike) return {before, after, share, distance};
  const Readout* nearer = gone <= to_come ? before : after;
  return {nearer, nearer, 0, distance};
}

/// What fills the lines that a phase lacks, of those that some phase has. Where the header announces that of R lines
/// one is acquired, of the lattice whose lines lie nearest in time: lattices may move from beat to beat.
std::vector<CardiacBinning::Between> CardiacBinning::lacking(const Group& group, const Phase& phase,
                                                             double middle) const {
  const std::int64_t steps = steps_.at(group.key.encoding);
  std::vector<std::vector<Between>> found(static_cast<std::size_t>(steps));
  std::vector<double> cost(found.size(), std::numeric_limits<double>::infinity());
  std::map<std::uint16_t, std::set<std::uint16_t>> planes;
  std::uint16_t first = UINT16_MAX, last = 0;
  for (const auto& [line, readouts] : group.kept) {
    const auto [y, z] = line;
    planes[z].insert(y);
    first = std::min(first, y);
    last = std::max(last, y);
    double& sum = cost[static_cast<std::size_t>(y % steps)];
    if (std::isinf(sum)) sum = 0;
    if (phase.lines.contains(line)) continue;
    std::vector<Between>& fills = found[static_cast<std::size_t>(y % steps)];
    fills.push_back(around(readouts, middle));
    sum += fills.back().distance;
  }
  for (const auto& [z, lines] : planes)  // a line that no phase has lies a whole beat away
    for (std::int64_t y = first; y <= last; ++y)
      if (!lines.contains(static_cast<std::uint16_t>(y))) cost[static_cast<std::size_t>(y % steps)] += 1;
  return std::move(found[static_cast<std::size_t>(std::min_element(cost.begin(), cost.end()) - cost.begin())]);
}

/// True if a phase has all announced lines of a lattice.
bool CardiacBinning::has_lattice(const Group& group, const Phase& phase) const {
  const std::int64_t steps = steps_.at(group.key.encoding);
  const auto& [first, last] = announced_.at(group.key.encoding);
  for (std::int64_t origin = 0; origin < steps && first[0] + origin <= last[0]; ++origin) {
    bool whole = true;
    for (std::int64_t z = first[1]; z <= last[1] && whole; ++z)
      for (std::int64_t y = first[0] + origin; y <= last[0] && whole; y += steps)
        whole = phase.lines.contains({static_cast<std::uint16_t>(y), static_cast<std::uint16_t>(z)});
    if (whole) return true;
  }
  return false;
}

/// Fills lines that phases lack.
void CardiacBinning::fill(Group& group) {
  if (group.kept.empty()) return;
  for (auto& [line, readouts] : group.kept) {
    for (Readout& readout : readouts) readout.phase /= by_index() ? static_cast<double>(options_.phases) : 1;
    std::stable_sort(readouts.begin(), readouts.end(),
                     [](const Readout& a, const Readout& b) { return a.phase < b.phase; });
  }
  for (std::int64_t p = 0; p < options_.phases; ++p) {
    scan_->compute.check_stop();
    if (by_index() && !group.phases.contains(p)) continue;  // the sender has acquired no such phase
    Phase& phase = group.phases[p];
    if (phase.closed) continue;
    std::vector<Between> pairs;
    for (const Between& each :
         lacking(group, phase, (static_cast<double>(p) + 0.5) / static_cast<double>(options_.phases))) {
      ++phase.borrowed;
      if (each.share == 0)
        phase.waiting.push_back(*each.before);
      else
        pairs.push_back(each);
    }
    for (std::size_t begin = 0, end = 0; begin < pairs.size(); begin = end) {
      while (end < pairs.size() && same_shape(*pairs[begin].before, *pairs[end].before)) ++end;
      interpolate(std::span(pairs).subspan(begin, end - begin), phase);
    }
  }
}

/// Adds readouts of one shape between those before and after.
void CardiacBinning::interpolate(std::span<const Between> pairs, Phase& phase) {
  numerics::Context& compute = scan_->compute;
  const auto count = static_cast<std::int64_t>(pairs.size());
  std::vector<Readout> both;
  std::vector<float> shares;
  std::vector<std::int32_t> rows;
  for (const bool after : {false, true})
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      both.push_back(after ? *pairs[i].after : *pairs[i].before);
      shares.push_back(static_cast<float>(after ? pairs[i].share : 1 - pairs[i].share));
      rows.push_back(static_cast<std::int32_t>(i));
    }
  Readouts taken = gather(both);
  const std::int64_t channels = taken.data.shape()[1], samples = taken.data.shape()[2], size = channels * samples;
  const auto batch = std::make_shared<Batch>();
  batch->group = both[0].batch->group;
  batch->heads = compute.allocate_host<protocol::AcquisitionHeader>({count});
  batch->data = compute.zeros<cfloat>({count, channels, samples});
  numerics::scale_lines(compute, {shares.data(), {2 * count}}, taken.data.view().reshaped({1, 2 * count, size}));
  numerics::add_lines(compute, taken.data.view().reshaped({2 * count, 1, size}), {rows.data(), {2 * count}},
                      {.first_sample = 0, .last_sample = size, .first_x = 0},
                      batch->data.view().reshaped({1, count, size}));
  for (std::int64_t i = 0; i < count; ++i) {
    const Between& pair = pairs[static_cast<std::size_t>(i)];
    batch->heads.data()[i] = (pair.share < 0.5 ? pair.before : pair.after)->head();
    Readout readout;
    readout.batch = batch;
    readout.row = i;
    phase.waiting.push_back(std::move(readout));
  }
}

}  // namespace echotrain
