#include "gadgets/numerics/parallel/grappa_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/parallel/calibration_gram.h"

namespace echotrain::numerics {
namespace {

/// Classes whose sources are the same rows: they share a matrix.
struct Group {
  KernelRows rows;
  std::vector<std::int64_t> classes;  // of rows.targets
};

/// The rows of a class's sources, counted from the lattice row that its target is counted from.
std::vector<RowStep> rows_of(const RowStep& target, const std::vector<RowStep>& steps) {
  std::vector<RowStep> rows;
  for (const RowStep& step : steps) rows.push_back({target[0] - step[0], target[1] - step[1]});
  std::sort(rows.begin(), rows.end(),
            [](const RowStep& a, const RowStep& b) { return std::pair(a[1], a[0]) < std::pair(b[1], b[0]); });
  return rows;
}

/// Whether a target between these rows changes nothing of where they fit.
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
      return g.rows.sources == rows && within(target, rows) && within(g.rows.targets.front(), rows);
    });
    Group& group = same != groups.end() ? *same : groups.emplace_back(Group{{rows, {}, options.kernel_x}, {}});
    group.rows.targets.push_back(target);
    group.classes.push_back(of);
  }
  return groups;
}

/// A group with its equations, of which kernels are made.
class Fit {
 public:
  Fit(Context& context, const CalibrationBlock& block, Group group)
      : context_(context),
        coils_(block.coils()),
        group_(std::move(group)),
        gram_(calibration_gram(context, block, group_.rows)) {
    double sum = 0;
    for (std::int64_t j = 0; j < gram_.system.unknowns(); ++j) sum += gram_.system.column(j).re[j];
    mean_ = sum / static_cast<double>(gram_.system.unknowns());
    if (!(mean_ > 0)) throw std::invalid_argument("singular calibration: the reference lines hold no signal");
  }

  const Group& group() const { return group_; }
  double energy() const {
    double sum = 0;
    for (const double e : gram_.energy) sum += e;
    return sum;
  }
  double not_predicted() const { return not_predicted_; }
  /// lambda of all sources, as a share of mean_.
  double share(double regularization) const {
    const double by =
        static_cast<double>(gram_.system.unknowns()) / static_cast<double>(std::max<std::int64_t>(1, gram_.equations));
    return regularization * std::pow(std::min(1.0, by), 3);
  }

  /// Kernels of the targets [first, last), from the sources with these numbers.
  std::vector<GrappaKernel> kernels(std::size_t first, std::size_t last, const std::vector<std::size_t>& used,
                                    double share) {
    const std::int64_t block = group_.rows.kernel_x * coils_, targets = static_cast<std::int64_t>(last - first);
    HermitianSystem system(context_, static_cast<std::int64_t>(used.size()) * block, targets * coils_);
    const double lambda = share * mean_;
    const std::int64_t right = gram_.system.first_right() + static_cast<std::int64_t>(first) * coils_;
    for (std::size_t t = 0; t < used.size(); ++t)
      for (std::int64_t j = 0; j < block; ++j) {
        const auto from = gram_.system.column(static_cast<std::int64_t>(used[t]) * block + j);
        const auto to = system.column(static_cast<std::int64_t>(t) * block + j);
        for (std::size_t s = t; s < used.size(); ++s) {
          const std::int64_t row = static_cast<std::int64_t>(used[s]) * block,
                             at = static_cast<std::int64_t>(s) * block;
          std::copy_n(from.re + row, block, to.re + at);
          std::copy_n(from.im + row, block, to.im + at);
        }
        std::copy_n(from.re + right, targets * coils_, to.re + system.first_right());
        std::copy_n(from.im + right, targets * coils_, to.im + system.first_right());
        to.re[static_cast<std::int64_t>(t) * block + j] += lambda;
      }
    try {
      system.solve(context_.threads());
    } catch (const std::invalid_argument&) {
      throw std::invalid_argument("singular calibration: the reference lines do not determine the kernels");
    }
    const bool all = used.size() == group_.rows.sources.size() && last - first == group_.classes.size();
    if (all) not_predicted_ = left_over(system, lambda);
    std::vector<GrappaKernel> made;
    for (std::size_t t = first; t < last; ++t)
      made.push_back(kernel_of(system, group_.rows.targets[t], static_cast<std::int64_t>(t - first) * coils_, used));
    return made;
  }

 private:
  /// |T - W A|^2 of W (A A^H + lambda) = T A^H.
  double left_over(HermitianSystem& solved, double lambda) {
    double sum = energy();
    for (std::int64_t j = 0; j < solved.unknowns(); ++j) {
      const auto w = solved.column(j).at(solved.first_right());
      const auto b = gram_.system.column(j).at(gram_.system.first_right());
      for (std::int64_t r = 0; r < solved.right_sides(); ++r)
        sum -= w.re[r] * b.re[r] + w.im[r] * b.im[r] + lambda * (w.re[r] * w.re[r] + w.im[r] * w.im[r]);
    }
    return std::max(0.0, sum);
  }

  GrappaKernel kernel_of(HermitianSystem& solved, const RowStep& target, std::int64_t first_right,
                         const std::vector<std::size_t>& used) const {
    GrappaKernel kernel;
    for (const std::size_t s : used)
      kernel.sources.push_back({target[0] - group_.rows.sources[s][0], target[1] - group_.rows.sources[s][1]});
    kernel.weights.resize(static_cast<std::size_t>(coils_ * solved.unknowns()));
    for (std::int64_t j = 0; j < solved.unknowns(); ++j) {
      const auto w = solved.column(j).at(solved.first_right() + first_right);
      for (std::int64_t c = 0; c < coils_; ++c)
        kernel.weights[static_cast<std::size_t>(c * solved.unknowns() + j)] =
            cfloat(static_cast<float>(w.re[c]), static_cast<float>(w.im[c]));
    }
    return kernel;
  }

  Context& context_;
  std::int64_t coils_;
  Group group_;
  CalibrationGram gram_;
  double mean_ = 0, not_predicted_ = 0;
};

/// How far a row is outside those on the lattice, in steps of the lattice.
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

void check_size(const CalibrationBlock& block, const Group& group) {
  RowStep least = group.rows.sources.front(), most = least;
  for (const auto* some : {&group.rows.sources, &group.rows.targets})
    for (const RowStep& r : *some)
      for (std::size_t a = 0; a < 2; ++a) {
        least[a] = std::min(least[a], r[a]);
        most[a] = std::max(most[a], r[a]);
      }
  const std::int64_t needed_y = most[0] - least[0] + 1, needed_z = most[1] - least[1] + 1;
  const Extents& n = block.extents();
  if (n[0] < needed_z || n[1] < needed_y || n[2] < group.rows.kernel_x)
    throw std::invalid_argument(
        fmt::format("the kernel reaches over {} x {} x {} (x, y, z) points, and calibration lines have {} x {} x {}",
                    group.rows.kernel_x, needed_y, needed_z, n[2], n[1], n[0]));
  const std::int64_t unknowns =
      static_cast<std::int64_t>(group.rows.sources.size()) * group.rows.kernel_x * block.coils();
  if (3 * places(block, group.rows) < unknowns)
    throw std::invalid_argument(
        fmt::format("calibration lines of {} x {} x {} (x, y, z) give {} equations for a kernel of {} unknowns: at "
                    "least a third is needed",
                    n[2], n[1], n[0], places(block, group.rows), unknowns));
}

}  // namespace

GrappaKernels fit_grappa(Context& context, DeviceView<const cfloat> calibration, const Lattice& lattice,
                         const GrappaOptions& options, const RowPlan& rows) {
  check(calibration, lattice, options, rows);
  context.check_stop();
  const CalibrationBlock block(context, calibration);
  GrappaOptions cut = options;
  cut.kernel_x = std::min(options.kernel_x, block.extents()[2]);
  GrappaKernels made{lattice, block.coils(), cut.kernel_x, {}, {}, 0};
  made.kernels.resize(static_cast<std::size_t>(lattice.size() - 1));
  made.of_row.assign(rows.kind.size(), -1);

  const Outside outside(rows, lattice);
  double energy = 0, left = 0;
  for (Group& some : groups_of(lattice, cut)) {
    check_size(block, some);
    Fit fit(context, block, std::move(some));
    const Group& group = fit.group();
    std::vector<std::size_t> all;
    for (std::size_t s = 0; s < group.rows.sources.size(); ++s) all.push_back(s);
    const double share = fit.share(options.regularization);
    auto kernels = fit.kernels(0, group.classes.size(), all, share);
    energy += fit.energy();
    left += fit.not_predicted();

    for (std::size_t t = 0; t < group.classes.size(); ++t) {
      const std::int64_t of = group.classes[t];
      const RowStep target = group.rows.targets[t];
      std::map<std::pair<std::vector<std::size_t>, bool>, std::int32_t> refitted;
      made.kernels[static_cast<std::size_t>(of - 1)] = std::move(kernels[t]);
      for (std::int64_t z = 0; z < rows.nz; ++z)
        for (std::int64_t y = 0; y < rows.ny; ++y) {
          if (!outside.any() || lattice.class_of(y, z) != of || outside.of(y, z) > 0.5) continue;
          std::vector<std::size_t> used;
          for (const std::size_t s : all)
            if (rows.at(y - target[0] + group.rows.sources[s][0], z - target[1] + group.rows.sources[s][1]) ==
                RowPlan::on_lattice)
              used.push_back(s);
          auto& to = made.of_row[static_cast<std::size_t>(z * rows.ny + y)];
          const bool beyond = outside.of(y, z) > 0;
          if (used == all && !beyond) to = static_cast<std::int32_t>(of - 1);
          if (used.empty() || (used == all && !beyond)) continue;
          const auto key = std::pair(used, beyond);
          if (refitted.count(key) == 0) {
            refitted[key] = static_cast<std::int32_t>(made.kernels.size());
            made.kernels.push_back(
                fit.kernels(t, t + 1, used, beyond ? std::max(share, options.outside) : share).front());
          }
          to = refitted[key];
        }
    }
  }
  made.residual = energy > 0 ? std::sqrt(left / energy) : 0;
  return made;
}

}  // namespace echotrain::numerics
