#include "gadgets/numerics/mri/parallel/grappa_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/parallel/calibration_gram.h"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics {
namespace {

/// A group with the classes of its targets.
struct Group {
  KernelGroup of;
  std::vector<std::int64_t> classes;
};

/// The rows of a class's sources, counted from the lattice row that its target is counted from.
std::vector<RowStep> rows_of(const RowStep& target, const std::vector<RowStep>& steps) {
  std::vector<RowStep> rows;
  for (const RowStep& step : steps) rows.push_back({target[0] - step[0], target[1] - step[1]});
  std::sort(rows.begin(), rows.end(),
            [](const RowStep& a, const RowStep& b) { return std::pair(a[1], a[0]) < std::pair(b[1], b[0]); });
  return rows;
}

/// True if a target between these rows does not restrict their places.
bool within(const RowStep& target, const std::vector<RowStep>& rows) {
  for (std::size_t a = 0; a < 2; ++a) {
    const auto less = [&](const RowStep& p, const RowStep& q) { return p[a] < q[a]; };
    const auto [least, most] = std::minmax_element(rows.begin(), rows.end(), less);
    if (target[a] < (*least)[a] || target[a] > (*most)[a]) return false;
  }
  return true;
}

std::vector<Group> groups_of(const Lattice& lattice, const GrappaOptions& options) {
  std::vector<Group> groups;
  for (std::int64_t of = 1; of < lattice.size(); ++of) {
    const RowStep target = lattice.class_step(of);
    const auto rows = rows_of(target, kernel_sources(lattice, of, options.kernel_y, options.kernel_z));
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.of.rows.sources == rows && within(target, rows) && within(g.of.rows.targets.front(), rows);
    });
    Group& group = same != groups.end() ? *same : groups.emplace_back(Group{{{rows, {}, options.kernel_x}, {}}, {}});
    group.of.rows.targets.push_back(target);
    group.classes.push_back(of);
  }
  return groups;
}

/// The distance of a row from the lattice's rows, in steps of the lattice, where it lies outside them.
class Outside {
 public:
  Outside(const RowPlan& rows, const Lattice& lattice) : step_{lattice.step_y, lattice.step_z} {
    for (std::int64_t z = 0; z < rows.nz; ++z)
      for (std::int64_t y = 0; y < rows.ny; ++y)
        if (rows.at(y, z) == RowPlan::on_lattice) {
          const RowStep at{y, z};
          for (std::size_t a = 0; a < 2; ++a) {
            first_[a] = any_ ? std::min(first_[a], at[a]) : at[a];
            last_[a] = any_ ? std::max(last_[a], at[a]) : at[a];
          }
          any_ = true;
        }
  }
  bool any() const { return any_; }
  double of(std::int64_t y, std::int64_t z) const {
    const RowStep at{y, z};
    double most = 0;
    for (std::size_t a = 0; a < 2; ++a)
      most = std::max(
          most, static_cast<double>(std::max(first_[a] - at[a], at[a] - last_[a])) / static_cast<double>(step_[a]));
    return most;
  }

 private:
  RowStep step_, first_{}, last_{};
  bool any_ = false;
};

void check(DeviceView<const cfloat> calibration, const Lattice& lattice, const GrappaOptions& options,
           const RowPlan& rows) {
  if (calibration.shape().rank() != 4 || calibration.size() == 0)
    throw std::invalid_argument("calibration lines are [coil, z, y, x], not " + calibration.shape().text());
  if (lattice.step_y < 1 || lattice.step_z < 1 || lattice.shift < 0 || lattice.shift >= lattice.step_y)
    throw std::invalid_argument("a lattice has steps of 1 or more and a shift less than its step along y");
  if (options.kernel_x < 1 || options.kernel_y < 1 || options.kernel_z < 1)
    throw std::invalid_argument("a kernel has an extent of 1 or more on each axis");
  if (!(options.regularization >= 0 && options.regularization <= 1 && options.outside >= 0 && options.outside <= 1))
    throw std::invalid_argument("regularization is 0 to 1");
  if (static_cast<std::int64_t>(rows.kind.size()) != rows.ny * rows.nz || rows.kind.empty())
    throw std::invalid_argument("a plan of rows has a kind for each row");
}

void check_size(const Extents& n, const KernelRows& rows, std::int64_t coils) {
  const auto [least, most] = rows.span();
  const std::int64_t needed_y = most[0] - least[0] + 1, needed_z = most[1] - least[1] + 1;
  if (n[0] < needed_z || n[1] < needed_y || n[2] < rows.kernel_x)
    throw std::invalid_argument(
        fmt::format("the kernel reaches over {} x {} x {} (x, y, z) points, and calibration lines have {} x {} x {}",
                    rows.kernel_x, needed_y, needed_z, n[2], n[1], n[0]));
  const std::int64_t equations = places_of(n, rows).count(), unknowns = rows.elements() * coils;
  if (3 * equations < unknowns)
    throw std::invalid_argument(
        fmt::format("calibration lines of {} x {} x {} (x, y, z) give {} equations for a kernel of {} unknowns: at "
                    "least a third is needed",
                    n[2], n[1], n[0], equations, unknowns));
}

/// The lambda of all sources, as a share of the mean of the diagonal.
double share_of(const Extents& block, const KernelRows& rows, std::int64_t coils, double regularization) {
  const double by = static_cast<double>(rows.elements() * coils) /
                    static_cast<double>(std::max<std::int64_t>(1, places_of(block, rows).count()));
  return regularization * std::pow(std::min(1.0, by), 3);
}

/// The kernels that the rows of a frame need, and their equations.
class FitPlan {
 public:
  FitPlan(const Extents& block, const GrappaOptions& options, const RowPlan& rows, GrappaKernels& made)
      : options_(options), rows_(rows), outside_(rows, made.lattice), made_(made) {
    made_.kernels.resize(static_cast<std::size_t>(made_.lattice.size() - 1));
    made_.of_row.assign(rows.kind.size(), -1);
    for (Group& group : groups_of(made_.lattice, options)) {
      check_size(block, group.of.rows, made_.coils);
      plan(group, share_of(block, group.of.rows, made_.coils, options.regularization));
      groups_.push_back(std::move(group.of));
    }
    for (GrappaKernel& kernel : made_.kernels) {
      kernel.first = size_;
      size_ += made_.coils * made_.coils * made_.kernel_x * static_cast<std::int64_t>(kernel.sources.size());
    }
  }
  std::vector<KernelGroup>& groups() { return groups_; }
  std::int64_t size() const { return size_; }  ///< weights of all kernels

 private:
  void plan(Group& group, double share) {
    const KernelRows& rows = group.of.rows;
    std::vector<std::size_t> all(rows.sources.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    group.of.systems.push_back({all, share, {}, {}});
    for (std::size_t t = 0; t < group.classes.size(); ++t) {
      const auto number = static_cast<std::size_t>(group.classes[t] - 1);
      made_.kernels[number].sources = sources_of(rows, t, all);
      group.of.systems.front().targets.push_back(t);
      group.of.systems.front().kernels.push_back(number);
    }
    for (std::size_t t = 0; t < group.classes.size(); ++t) plan_rows_of(group, t, share);
  }

  /// Plans the rows of a class, some of which miss acquired sources.
  void plan_rows_of(Group& group, std::size_t t, double share) {
    const std::int64_t of = group.classes[t];
    const KernelRows& rows = group.of.rows;
    const std::size_t all = rows.sources.size();
    std::map<std::pair<std::vector<std::size_t>, bool>, std::int32_t> refitted;
    for (std::int64_t z = 0; z < rows_.nz; ++z)
      for (std::int64_t y = 0; y < rows_.ny; ++y) {
        if (!outside_.any() || made_.lattice.class_of(y, z) != of || outside_.of(y, z) > 0.5) continue;
        std::vector<std::size_t> used;
        for (std::size_t s = 0; s < all; ++s)
          if (rows_.at(y - rows.targets[t][0] + rows.sources[s][0], z - rows.targets[t][1] + rows.sources[s][1]) ==
              RowPlan::on_lattice)
            used.push_back(s);
        auto& to = made_.of_row[static_cast<std::size_t>(z * rows_.ny + y)];
        const bool beyond = outside_.of(y, z) > 0;
        if (used.size() == all && !beyond) to = static_cast<std::int32_t>(of - 1);
        if (used.empty() || (used.size() == all && !beyond)) continue;
        const auto [known, is_new] = refitted.try_emplace(std::pair(used, beyond), 0);
        if (is_new) {
          known->second = static_cast<std::int32_t>(made_.kernels.size());
          add(group, t, used, beyond ? std::max(share, options_.outside) : share);
        }
        to = known->second;
      }
  }

  /// Adds a further kernel. Targets with the same sources and lambda share a matrix.
  void add(Group& group, std::size_t t, const std::vector<std::size_t>& used, double share) {
    auto& systems = group.of.systems;
    const auto same = std::find_if(systems.begin() + 1, systems.end(), [&](const KernelSystem& system) {
      return system.used == used && system.share == share;
    });
    KernelSystem& system = same != systems.end() ? *same : systems.emplace_back(KernelSystem{used, share, {}, {}});
    system.targets.push_back(t);
    system.kernels.push_back(made_.kernels.size());
    made_.kernels.push_back({sources_of(group.of.rows, t, used), 0});
  }

  static std::vector<RowStep> sources_of(const KernelRows& rows, std::size_t t, const std::vector<std::size_t>& used) {
    std::vector<RowStep> steps;
    for (const std::size_t s : used)
      steps.push_back({rows.targets[t][0] - rows.sources[s][0], rows.targets[t][1] - rows.sources[s][1]});
    return steps;
  }

  const GrappaOptions& options_;
  const RowPlan& rows_;
  Outside outside_;
  GrappaKernels& made_;
  std::vector<KernelGroup> groups_;
  std::int64_t size_ = 0;
};

/// A group with its equations, from which kernels are made.
class Fit {
 public:
  Fit(Context& context, const CalibrationBlock& block, const KernelGroup& group)
      : context_(context), coils_(block.coils()), rows_(group.rows), gram_(calibration_gram(context, block, rows_)) {
    double sum = 0;
    for (std::int64_t j = 0; j < gram_.system.unknowns(); ++j) sum += gram_.system.column(j).re[j];
    mean_ = sum / static_cast<double>(gram_.system.unknowns());
    if (!(mean_ > 0)) throw std::invalid_argument(kNoSignal);
  }

  double energy() const {
    double sum = 0;
    for (const double e : gram_.energy) sum += e;
    return sum;
  }

  /// Solves with targets as right-hand sides, in the system's order.
  HermitianSystem solved(const KernelSystem& of) {
    const std::int64_t block = rows_.kernel_x * coils_;
    HermitianSystem system(context_, static_cast<std::int64_t>(of.used.size()) * block,
                           static_cast<std::int64_t>(of.targets.size()) * coils_);
    for (std::size_t t = 0; t < of.used.size(); ++t)
      for (std::int64_t j = 0; j < block; ++j) {
        const auto from = gram_.system.column(static_cast<std::int64_t>(of.used[t]) * block + j);
        const auto to = system.column(static_cast<std::int64_t>(t) * block + j);
        for (std::size_t s = t; s < of.used.size(); ++s)
          copy(from.at(static_cast<std::int64_t>(of.used[s]) * block), block,
               to.at(static_cast<std::int64_t>(s) * block));
        for (std::size_t r = 0; r < of.targets.size(); ++r)
          copy(from.at(gram_.system.first_right() + static_cast<std::int64_t>(of.targets[r]) * coils_), coils_,
               to.at(system.first_right() + static_cast<std::int64_t>(r) * coils_));
        to.re[static_cast<std::int64_t>(t) * block + j] += of.share * mean_;
      }
    try {
      system.solve(context_.threads());
    } catch (const std::invalid_argument&) {
      throw std::invalid_argument(kNotDetermined);
    }
    return system;
  }

  /// The misfit |T - W A|^2 of W (A A^H + lambda) = T A^H, for the system of all sources and targets.
  double left_over(HermitianSystem& solved, double share) {
    const double lambda = share * mean_;
    double sum = energy();
    for (std::int64_t j = 0; j < solved.unknowns(); ++j) {
      const auto w = solved.column(j).at(solved.first_right());
      const auto b = gram_.system.column(j).at(gram_.system.first_right());
      for (std::int64_t r = 0; r < solved.right_sides(); ++r)
        sum -= w.re[r] * b.re[r] + w.im[r] * b.im[r] + lambda * (w.re[r] * w.re[r] + w.im[r] * w.im[r]);
    }
    return std::max(0.0, sum);
  }

 private:
  static void copy(cpu::Planes<double> from, std::int64_t count, cpu::Planes<double> to) {
    std::copy_n(from.re, count, to.re);
    std::copy_n(from.im, count, to.im);
  }

  Context& context_;
  std::int64_t coils_;
  const KernelRows& rows_;
  CalibrationGram gram_;
  double mean_ = 0;
};

/// to: [coil, unknown]
void take_weights(HermitianSystem& solved, std::int64_t first_right, std::int64_t coils, cfloat* to) {
  for (std::int64_t j = 0; j < solved.unknowns(); ++j) {
    const auto w = solved.column(j).at(solved.first_right() + first_right);
    for (std::int64_t c = 0; c < coils; ++c)
      to[c * solved.unknowns() + j] = cfloat(static_cast<float>(w.re[c]), static_cast<float>(w.im[c]));
  }
}

}  // namespace

double cpu::solve_kernels(Context& context, const KernelFit& fit) {
  const CalibrationBlock block(context, fit.calibration, fit.groups.empty() ? 1 : fit.groups.front().rows.kernel_x);
  double energy = 0, left = 0;
  for (const KernelGroup& group : fit.groups) {
    Fit equations(context, block, group);
    energy += equations.energy();
    for (const KernelSystem& system : group.systems) {
      HermitianSystem solved = equations.solved(system);
      if (&system == &group.systems.front()) left += equations.left_over(solved, system.share);
      for (std::size_t t = 0; t < system.kernels.size(); ++t)
        take_weights(solved, static_cast<std::int64_t>(t) * fit.coils(), fit.coils(),
                     fit.weights.data() + fit.first[system.kernels[t]]);
    }
  }
  return energy > 0 ? std::sqrt(left / energy) : 0;
}

GrappaKernels fit_grappa(Context& context, DeviceView<const cfloat> calibration, const Lattice& lattice,
                         const GrappaOptions& options, const RowPlan& rows) {
  check(calibration, lattice, options, rows);
  context.check_stop();
  const Extents block = last_axes(calibration.shape(), 3);
  GrappaOptions cut = options;
  cut.kernel_x = std::min(options.kernel_x, block[2]);
  GrappaKernels made;
  made.lattice = lattice;
  made.coils = calibration.shape()[0];
  made.kernel_x = cut.kernel_x;
  FitPlan plan(block, cut, rows, made);
  made.weights = context.allocate<cfloat>({plan.size()});
  KernelFit fit{calibration, std::move(plan.groups()), {}, made.weights.view()};
  for (const GrappaKernel& kernel : made.kernels) fit.first.push_back(kernel.first);
  made.residual = ECHOTRAIN_DISPATCH(context, solve_kernels(context, fit));
  return made;
}

}  // namespace echotrain::numerics
