#include "gadgets/numerics/mri/epi/dual_polarity_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>

#include "gadgets/numerics/mri/parallel/calibration_gram.h"

namespace echotrain::numerics {
namespace {

constexpr std::size_t kMostPatterns = 64;

/// The source lines of one line: z is 1 where a line was read backwards, y is its distance; ascending in z, then y.
struct Pattern {
  std::vector<RowStep> sources;
  std::vector<std::int32_t> rows;  // rows of the frame
};

Pattern pattern_of(const std::vector<PolarityLine>& lines, std::size_t own, std::int64_t nearest, std::int64_t reach) {
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int32_t>> below, above;  // distance, z, y, row
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::int64_t away = std::int64_t{lines[i].line} - lines[own].line;
    if (away == 0 || std::abs(away) > reach) continue;
    (away < 0 ? below : above)
        .emplace_back(std::abs(away), lines[i].reversed ? 1 : 0, away, static_cast<std::int32_t>(i));
  }
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int32_t>> used = {{1, 0, static_cast<std::int32_t>(own)}};
  for (auto* side : {&below, &above}) {
    std::sort(side->begin(), side->end());
    // The first one of lines that came twice is kept.
    const auto same = [](const auto& a, const auto& b) { return std::get<0>(a) == std::get<0>(b); };
    side->erase(std::unique(side->begin(), side->end(), same), side->end());
    for (std::size_t i = 0; i < side->size() && static_cast<std::int64_t>(i) < nearest / 2; ++i)
      used.emplace_back(std::get<1>((*side)[i]), std::get<2>((*side)[i]), std::get<3>((*side)[i]));
  }
  std::sort(used.begin(), used.end());
  Pattern out;
  for (const auto& [z, y, row] : used) {
    out.sources.push_back({y, z});
    out.rows.push_back(row);
  }
  return out;
}

void check(HostView<const cfloat> forward, HostView<const cfloat> reversed, const std::vector<PolarityLine>& lines,
           std::int64_t samples, const DualPolarityOptions& options) {
  if (forward.shape().rank() != 3 || !(forward.shape() == reversed.shape()) || forward.shape().size() == 0)
    throw std::invalid_argument(fmt::format("dual_polarity: forward and reversed references, {} and {}, are not alike",
                                            forward.shape().text(), reversed.shape().text()));
  if (lines.empty() || samples != forward.shape()[2])
    throw std::invalid_argument(
        fmt::format("dual_polarity: {} lines of {} samples do not go with references of {} samples", lines.size(),
                    samples, forward.shape()[2]));
  if (options.kernel_x < 1 || options.nearest < 0 || options.reach < 1 || !(options.regularization >= 0) ||
      options.regularization > 1)
    throw std::invalid_argument("dual_polarity: options are out of range");
}

/// Puts both references one after the other: [coil, 2, y, x].
Array<cfloat> both(Context& context, HostView<const cfloat> forward, HostView<const cfloat> reversed) {
  const Shape& n = forward.shape();
  const std::int64_t plane = n[1] * n[2];
  HostArray<cfloat> out = context.allocate_host<cfloat>({n[0], 2, n[1], n[2]});
  for (std::int64_t c = 0; c < n[0]; ++c) {
    std::copy_n(forward.data() + c * plane, plane, out.data() + 2 * c * plane);
    std::copy_n(reversed.data() + c * plane, plane, out.data() + (2 * c + 1) * plane);
  }
  return context.place<cfloat>(out);
}

/// Solves for the weights of a pattern, and appends them: [coil, source, dx, source coil]. Returns the residual.
double solve(Context& context, const CalibrationBlock& block, const KernelRows& rows, double regularization,
             std::vector<cfloat>& weights) {
  const std::int64_t coils = block.coils(), unknowns = rows.elements() * coils;
  const std::int64_t equations = places_of(block.extents(), rows).count();
  if (3 * equations < unknowns)
    throw std::invalid_argument(fmt::format(
        "{} reference lines of {} samples give {} equations for a kernel of {} unknowns: at least a third is needed",
        block.extents()[1], block.extents()[2], equations, unknowns));
  CalibrationGram gram = calibration_gram(context, block, rows);
  double trace = 0;
  for (std::int64_t j = 0; j < unknowns; ++j) trace += gram.system.column(j).re[j];
  const double share = regularization * trace / static_cast<double>(unknowns), energy = gram.energy.front();
  if (!(trace > 0) || !(energy > 0)) throw std::invalid_argument("reference lines hold no signal");
  std::vector<cdouble> sides;  // [unknown, coil]
  for (std::int64_t j = 0; j < unknowns; ++j) {
    gram.system.column(j).re[j] += share;
    const auto b = gram.system.column(j).at(gram.system.first_right());
    for (std::int64_t c = 0; c < coils; ++c) sides.emplace_back(b.re[c], b.im[c]);
  }
  try {
    gram.system.solve(context.threads());
  } catch (const std::invalid_argument&) {
    throw std::invalid_argument("reference lines do not determine kernels; give more lines");
  }
  const std::size_t first = weights.size();
  weights.resize(first + static_cast<std::size_t>(coils * unknowns));
  double left = energy;
  for (std::int64_t j = 0; j < unknowns; ++j) {
    const auto w = gram.system.column(j).at(gram.system.first_right());
    for (std::int64_t c = 0; c < coils; ++c) {
      const cdouble weight(w.re[c], w.im[c]);
      left -= std::real(std::conj(weight) * sides[static_cast<std::size_t>(j * coils + c)]) + share * std::norm(weight);
      weights[first + static_cast<std::size_t>(c * unknowns + j)] = cfloat(weight);
    }
  }
  return std::sqrt(std::max(0.0, left) / energy);
}

}  // namespace

DualPolarityKernels fit_dual_polarity(Context& context, HostView<const cfloat> forward, HostView<const cfloat> reversed,
                                      const std::vector<PolarityLine>& lines, std::int64_t samples,
                                      const DualPolarityOptions& options) {
  check(forward, reversed, lines, samples, options);
  const Shape& n = forward.shape();
  const auto count = static_cast<std::int64_t>(lines.size());
  const std::int64_t reach = std::min(options.reach, n[1] / 3);
  const CalibrationBlock block(context, both(context, forward, reversed).cview(), std::min(options.kernel_x, samples));
  GrappaKernels kernels;
  kernels.coils = n[0];
  kernels.kernel_x = std::min(options.kernel_x, samples);
  kernels.of_row.assign(lines.size(), -1);
  DualPolarityKernels made;
  std::vector<cfloat> weights;
  std::map<std::vector<RowStep>, std::int32_t> known;
  std::vector<Pattern> patterns(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].reversed) continue;
    context.check_stop();
    patterns[i] = pattern_of(lines, i, options.nearest, reach);
    const auto [at, is_new] = known.try_emplace(patterns[i].sources, static_cast<std::int32_t>(known.size()));
    kernels.of_row[i] = at->second;
    if (!is_new) continue;
    if (known.size() > kMostPatterns)
      throw std::invalid_argument(
          fmt::format("lines that were read backwards lie in more than {} arrangements among "
                      "the others",
                      kMostPatterns));
    kernels.kernels.push_back({patterns[i].sources, static_cast<std::int64_t>(weights.size())});
    const KernelRows rows{patterns[i].sources, {{0, 0}}, kernels.kernel_x};
    made.residual = std::max(made.residual, solve(context, block, rows, options.regularization, weights));
  }
  made.patterns = static_cast<std::int64_t>(known.size());
  if (known.empty()) return made;  // all lines were read forward
  kernels.weights = context.upload<cfloat>({weights.data(), {static_cast<std::int64_t>(weights.size())}});
  const Extents extents{1, count, samples};
  const Shape shape{extents[0], extents[1], extents[2]};
  made.hybrid = hybrid_kernels(context, kernels, {.encoded = shape, .padded = shape, .image = shape});

  HostArray<std::int32_t> own = context.allocate_host<std::int32_t>({count});
  HostArray<std::int32_t> first = context.allocate_host<std::int32_t>({count + 1});
  std::vector<LineCorrections::Term> terms;
  made.rows.encoded_rows = count;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    made.rows.rows.push_back(static_cast<std::int32_t>(i));
    own.data()[i] = lines[i].reversed ? -1 : static_cast<std::int32_t>(i);
    first.data()[i] = static_cast<std::int32_t>(terms.size());
    if (!lines[i].reversed) continue;
    const auto source = made.hybrid.first[static_cast<std::size_t>(kernels.of_row[i])];
    for (std::size_t s = 0; s < patterns[i].rows.size(); ++s)
      terms.push_back({static_cast<std::int32_t>(source) + static_cast<std::int32_t>(s), patterns[i].rows[s], 1.0f});
  }
  first.data()[count] = static_cast<std::int32_t>(terms.size());
  made.rows.own = context.place<std::int32_t>(own);
  made.rows.first = context.place<std::int32_t>(first);
  made.rows.terms = context.upload<LineCorrections::Term>({terms.data(), {static_cast<std::int64_t>(terms.size())}});
  return made;
}

}  // namespace echotrain::numerics
