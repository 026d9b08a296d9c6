#include "gadgets/numerics/mri/parallel/slice_grappa.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/mri/parallel/calibration_gram.h"

namespace echotrain::numerics {
namespace {

constexpr std::size_t kMostPatterns = 64;

/// A line that a kernel takes: 1 where it was read backwards, and its offset from the made one in acquired lines.
struct Tap {
  std::int64_t backwards = 0, offset = 0;
  auto operator<=>(const Tap&) const = default;
};
using Taps = std::vector<Tap>;  // ascending

/// Those of line j of the frame, without lines outside of it where `inside`.
Taps taps_of(std::int64_t j, std::int64_t lines, std::int64_t kernel_y, const std::vector<bool>& reversed,
             bool inside) {
  Taps taps;
  for (std::int64_t i = 0; i < kernel_y; ++i) {
    const std::int64_t offset = i - kernel_y / 2, line = j + offset;
    const bool there = line >= 0 && line < lines;
    if (inside && !there) continue;
    taps.push_back({there && !reversed.empty() && reversed[static_cast<std::size_t>(line)] ? 1 : 0, offset});
  }
  std::sort(taps.begin(), taps.end());
  return taps;
}

/// The kernels with all their sources, and for each those of lines at the frame's ends, which have some of these; the
/// first of them is the whole one.
std::map<Taps, std::vector<Taps>> arrangements(std::int64_t lines, std::int64_t kernel_y,
                                               const std::vector<bool>& reversed) {
  std::map<Taps, std::vector<Taps>> made;
  std::vector<Taps> at_ends;
  for (std::int64_t j = 0; j < lines; ++j) {
    Taps taps = taps_of(j, lines, kernel_y, reversed, true);
    if (static_cast<std::int64_t>(taps.size()) == kernel_y)
      made.try_emplace(taps, 1, taps);
    else if (std::find(at_ends.begin(), at_ends.end(), taps) == at_ends.end())
      at_ends.push_back(std::move(taps));
  }
  for (std::int64_t j = 0; j < lines; ++j) {
    const Taps taps = taps_of(j, lines, kernel_y, reversed, true);
    const auto end = std::find(at_ends.begin(), at_ends.end(), taps);
    if (end == at_ends.end()) continue;
    at_ends.erase(end);
    auto whole = std::find_if(made.begin(), made.end(), [&](const auto& each) {
      return std::includes(each.first.begin(), each.first.end(), taps.begin(), taps.end());
    });
    if (whole == made.end()) {
      const Taps all = taps_of(j, lines, kernel_y, reversed, false);
      whole = made.try_emplace(all, 1, all).first;
    }
    whole->second.push_back(taps);
  }
  if (made.size() > kMostPatterns)
    throw std::invalid_argument(
        fmt::format("lines that were read backwards lie in more than {} arrangements among the others", kMostPatterns));
  return made;
}

void check(const std::vector<SliceReference>& references, std::int64_t step, std::int64_t lines,
           const SliceGrappaOptions& options, const std::vector<bool>& reversed) {
  if (references.empty() || step < 1 || lines < 1)
    throw std::invalid_argument("slice_grappa: there are at least one slice, one line and a step of 1");
  if (options.kernel_x < 1 || options.kernel_y < 1)
    throw std::invalid_argument("slice_grappa: a kernel has an extent of 1 or more on each axis");
  if (!(options.regularization >= 0 && options.regularization <= 1))
    throw std::invalid_argument("slice_grappa: regularization is 0 to 1");
  const Shape& shape = references.front().block.shape();
  for (const SliceReference& reference : references)
    if (shape.rank() != 3 || !(reference.block.shape() == shape) || shape.size() == 0)
      throw std::invalid_argument(fmt::format("slice_grappa: reference lines of slices, {} and {}, are not alike",
                                              shape.text(), reference.block.shape().text()));
  if (!reversed.empty() && static_cast<std::int64_t>(reversed.size()) != lines)
    throw std::invalid_argument("slice_grappa: each line of the frame has a direction, or none has");
  const bool both = std::find(reversed.begin(), reversed.end(), true) != reversed.end();
  for (const SliceReference& reference : references)
    if (both && !(reference.reversed.shape() == shape))
      throw std::invalid_argument("slice_grappa: some slices have no references that were read backwards");
}

/// The blocks, or those that were read backwards, with the phases of their blips: [coil, slice, y, x]; with `sum`, the
/// sum of all precedes the slices.
HostArray<cfloat> turned_blocks(Context& context, const std::vector<SliceReference>& references, std::int64_t step,
                                bool sum, bool backwards) {
  const Shape& shape = references.front().block.shape();
  const std::int64_t coils = shape[0], ny = shape[1], nx = shape[2], first = sum ? 1 : 0;
  const auto slices = static_cast<std::int64_t>(references.size());
  HostArray<cfloat> out = context.allocate_host<cfloat>({coils, slices + first, ny, nx});
  std::fill_n(out.data(), out.size(), cfloat{});
  for (std::int64_t m = 0; m < slices; ++m) {
    const SliceReference& reference = references[static_cast<std::size_t>(m)];
    const HostView<const cfloat>& block = backwards ? reference.reversed : reference.block;
    for (std::int64_t y = 0; y < ny; ++y) {
      context.check_stop();
      const double turns = reference.turns * static_cast<double>(y) / static_cast<double>(step);
      const cfloat factor(std::polar(1.0, 2 * std::numbers::pi * std::remainder(turns, 1.0)));
      for (std::int64_t c = 0; c < coils; ++c)
        for (std::int64_t x = 0; x < nx; ++x) {
          const cfloat value = factor * block[(c * ny + y) * nx + x];
          out.data()[((c * (slices + first) + m + first) * ny + y) * nx + x] = value;
          if (sum) out.data()[(c * (slices + first) * ny + y) * nx + x] += value;
        }
    }
  }
  return out;
}

/// The matrix of all kernels, and the right-hand sides of all slices.
class SliceEquations {
 public:
  /// rows: sources in the plane 0, or, read backwards, 1.
  SliceEquations(Context& context, const std::vector<SliceReference>& references, std::int64_t step,
                 const KernelRows& rows, bool split)
      : context_(context),
        coils_(references.front().block.shape()[0]),
        slices_(static_cast<std::int64_t>(references.size())),
        rows_(rows),
        system_(context, rows.elements() * coils_, slices_ * coils_) {
    const bool both = rows.sources.back()[1] > 0;
    const HostArray<cfloat> blocks = turned_blocks(context, references, step, !split, false),
                            backwards =
                                both ? turned_blocks(context, references, step, !split, true) : HostArray<cfloat>();
    const auto planes = [&](std::int64_t m) {
      std::vector<std::pair<const HostArray<cfloat>*, std::int64_t>> out{{&blocks, m}};
      if (both) out.emplace_back(&backwards, m);
      return out;
    };
    if (split) {
      for (std::int64_t m = 0; m < slices_; ++m) add(block_of(planes(m)), {{0, 0}}, m);
    } else {
      auto of_sum = planes(0);
      std::vector<RowStep> targets;
      for (std::int64_t m = 0; m < slices_; ++m) {
        targets.push_back({0, static_cast<std::int64_t>(of_sum.size())});
        of_sum.emplace_back(&blocks, m + 1);
      }
      add(block_of(of_sum), targets, 0);
    }
    double sum = 0;
    for (std::int64_t j = 0; j < system_.unknowns(); ++j) sum += system_.column(j).re[j];
    mean_ = sum / static_cast<double>(system_.unknowns());
    if (!(mean_ > 0)) throw std::invalid_argument("reference lines hold no signal");
  }

  /// Solves for these sources alone.
  HermitianSystem solved(const std::vector<std::size_t>& used, double share) {
    const std::int64_t block = rows_.kernel_x * coils_;
    HermitianSystem system(context_, static_cast<std::int64_t>(used.size()) * block, slices_ * coils_);
    for (std::size_t t = 0; t < used.size(); ++t)
      for (std::int64_t j = 0; j < block; ++j) {
        const auto from = system_.column(static_cast<std::int64_t>(used[t]) * block + j);
        const auto to = system.column(static_cast<std::int64_t>(t) * block + j);
        for (std::size_t s = t; s < used.size(); ++s)
          copy(from.at(static_cast<std::int64_t>(used[s]) * block), block, to.at(static_cast<std::int64_t>(s) * block));
        copy(from.at(system_.first_right()), slices_ * coils_, to.at(system.first_right()));
        to.re[static_cast<std::int64_t>(t) * block + j] += share * mean_;
      }
    try {
      system.solve(context_.threads());
    } catch (const std::invalid_argument&) {
      throw std::invalid_argument("reference lines do not determine kernels; give more lines or more regularization");
    }
    return system;
  }

  /// The relative residual of the system of all sources.
  double residual(HermitianSystem& solved, double share) {
    double left = energy_;
    for (std::int64_t j = 0; j < solved.unknowns(); ++j) {
      const auto w = solved.column(j).at(solved.first_right());
      const auto b = system_.column(j).at(system_.first_right());
      for (std::int64_t r = 0; r < solved.right_sides(); ++r)
        left -= w.re[r] * b.re[r] + w.im[r] * b.im[r] + share * mean_ * (w.re[r] * w.re[r] + w.im[r] * w.im[r]);
    }
    return energy_ > 0 ? std::sqrt(std::max(0.0, left) / energy_) : 0;
  }

 private:
  static void copy(cpu::Planes<double> from, std::int64_t count, cpu::Planes<double> to) {
    std::copy_n(from.re, count, to.re);
    std::copy_n(from.im, count, to.im);
  }

  /// Planes of blocks [coil, plane, y, x], by their numbers in these.
  HostArray<cfloat> block_of(const std::vector<std::pair<const HostArray<cfloat>*, std::int64_t>>& planes) const {
    const Shape& n = planes.front().first->shape();
    const std::int64_t plane = n[2] * n[3], count = static_cast<std::int64_t>(planes.size());
    HostArray<cfloat> out = context_.allocate_host<cfloat>({n[0], count, n[2], n[3]});
    for (std::int64_t c = 0; c < n[0]; ++c)
      for (std::int64_t p = 0; p < count; ++p) {
        const auto& [from, number] = planes[static_cast<std::size_t>(p)];
        std::copy_n(from->data() + (c * n[1] + number) * plane, plane, out.data() + (c * count + p) * plane);
      }
    return out;
  }

  /// Adds the sums over a block to the matrix, and those of its targets as the right-hand sides from slice `first` on.
  void add(const HostArray<cfloat>& block, const std::vector<RowStep>& targets, std::int64_t first) {
    const Array<cfloat> there = context_.place<cfloat>(block);
    KernelRows rows = rows_;
    rows.targets = targets;
    CalibrationGram gram = calibration_gram(context_, CalibrationBlock(context_, there.cview(), rows.kernel_x), rows);
    for (const double energy : gram.energy) energy_ += energy;
    const std::int64_t n = system_.unknowns(), right = static_cast<std::int64_t>(targets.size()) * coils_;
    for (std::int64_t j = 0; j < n; ++j) {
      if (j % 64 == 0) context_.check_stop();
      const auto from = gram.system.column(j), to = system_.column(j);
      for (std::int64_t i = j; i < n; ++i) {
        to.re[i] += from.re[i];
        to.im[i] += from.im[i];
      }
      const auto sums = from.at(gram.system.first_right()), sides = to.at(system_.first_right() + first * coils_);
      for (std::int64_t r = 0; r < right; ++r) {
        sides.re[r] += sums.re[r];
        sides.im[r] += sums.im[r];
      }
    }
  }

  Context& context_;
  std::int64_t coils_, slices_;
  const KernelRows& rows_;
  HermitianSystem system_;
  double energy_ = 0, mean_ = 0;
};

}  // namespace

GrappaKernels fit_slices(Context& context, const std::vector<SliceReference>& references, std::int64_t step,
                         std::int64_t lines, const SliceGrappaOptions& options, const std::vector<bool>& reversed) {
  check(references, step, lines, options, reversed);
  const Shape& shape = references.front().block.shape();
  const auto slices = static_cast<std::int64_t>(references.size());
  KernelRows rows;
  rows.kernel_x = std::min(options.kernel_x, shape[2]);
  for (std::int64_t i = 0; i < options.kernel_y; ++i) rows.sources.push_back({i * step, 0});
  rows.targets.push_back({0, 0});
  const std::int64_t reach = (options.kernel_y - 1) * step + 1,
                     equations = places_of({1, shape[1], shape[2]}, rows).count();
  if (shape[1] < reach)
    throw std::invalid_argument(
        fmt::format("the kernel reaches over {} lines, and there are {} reference lines", reach, shape[1]));
  if (3 * equations * (options.split ? slices : 1) < rows.elements() * shape[0])
    throw std::invalid_argument(fmt::format(
        "reference lines of {} x {} samples give {} equations for a kernel of {} unknowns: at least a third "
        "is needed",
        shape[2], shape[1], equations * (options.split ? slices : 1), rows.elements() * shape[0]));

  GrappaKernels made;
  made.lattice.step_y = step;
  made.coils = shape[0];
  made.kernel_x = rows.kernel_x;
  std::vector<cfloat> weights;
  std::map<Taps, std::int32_t> known;
  for (const auto& [whole, parts] : arrangements(lines, options.kernel_y, reversed)) {
    rows.sources.clear();
    for (const Tap& tap : whole) rows.sources.push_back({tap.offset * step, tap.backwards});
    SliceEquations system(context, references, step, rows, options.split);
    for (const Taps& taps : parts) {
      known.emplace(taps, static_cast<std::int32_t>(known.size()));
      std::vector<std::size_t> used;
      for (const Tap& tap : taps)
        used.push_back(static_cast<std::size_t>(std::find(whole.begin(), whole.end(), tap) - whole.begin()));
      HermitianSystem solved = system.solved(used, options.regularization);
      if (taps == whole) made.residual = std::max(made.residual, system.residual(solved, options.regularization));
      for (std::int64_t m = 0; m < slices; ++m) {
        GrappaKernel& kernel = made.kernels.emplace_back();
        kernel.first = static_cast<std::int64_t>(weights.size());
        for (const Tap& tap : taps) kernel.sources.push_back({-tap.offset, 0});
        weights.resize(weights.size() + static_cast<std::size_t>(made.coils * solved.unknowns()));
        for (std::int64_t j = 0; j < solved.unknowns(); ++j) {
          const auto w = solved.column(j).at(solved.first_right() + m * made.coils);
          for (std::int64_t c = 0; c < made.coils; ++c)
            weights[static_cast<std::size_t>(kernel.first + c * solved.unknowns() + j)] =
                cfloat(static_cast<float>(w.re[c]), static_cast<float>(w.im[c]));
        }
      }
    }
  }
  for (std::int64_t j = 0; j < lines; ++j)
    made.of_row.push_back(known.at(taps_of(j, lines, options.kernel_y, reversed, true)));
  made.weights = context.upload<cfloat>({weights.data(), {static_cast<std::int64_t>(weights.size())}});
  return made;
}

LineCorrections plan_slices(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                            std::int64_t slices) {
  const auto lines = static_cast<std::int64_t>(kernels.of_row.size());
  HostArray<std::int32_t> own = context.allocate_host<std::int32_t>({slices * lines});
  HostArray<std::int32_t> first = context.allocate_host<std::int32_t>({slices * lines + 1});
  std::vector<LineCorrections::Term> terms;
  LineCorrections made;
  made.encoded_rows = lines;
  for (std::int64_t m = 0; m < slices; ++m)
    for (std::int64_t j = 0; j < lines; ++j) {
      const auto kernel = static_cast<std::size_t>(kernels.of_row[static_cast<std::size_t>(j)] * slices + m);
      const auto row = static_cast<std::int32_t>(m * lines + j);
      made.rows.push_back(row);
      own.data()[row] = -1;
      first.data()[row] = static_cast<std::int32_t>(terms.size());
      const auto& sources = kernels.kernels[kernel].sources;
      for (std::size_t s = 0; s < sources.size(); ++s)
        terms.push_back({static_cast<std::int32_t>(hybrid.first[kernel]) + static_cast<std::int32_t>(s),
                         static_cast<std::int32_t>(j - sources[s][0]), 1.0f});
    }
  first.data()[slices * lines] = static_cast<std::int32_t>(terms.size());
  HostArray<LineCorrections::Term> kept =
      context.allocate_host<LineCorrections::Term>({static_cast<std::int64_t>(terms.size())});
  std::copy(terms.begin(), terms.end(), kept.data());
  made.own = context.place<std::int32_t>(own);
  made.first = context.place<std::int32_t>(first);
  made.terms = context.place<LineCorrections::Term>(kept);
  return made;
}

}  // namespace echotrain::numerics
