#include "gadgets/least_squares/equation_solver.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "gadgets/least_squares/eigenvalues.h"
#include "gadgets/least_squares/team_results.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain {
namespace {

/// The shape [coil, z, y, x] as the operator's images have it: without z when they are planes.
numerics::Shape as_solved(const numerics::Shape& shape, const numerics::NormalOperator& matrix) {
  numerics::Shape out{shape[0]};
  for (const auto extent : matrix.image()) out.push_back(extent);
  return out;
}

/// The shape of one item that holds the images of all sets, one after the other.
numerics::Shape of_sets(std::int64_t sets, const numerics::NormalOperator& matrix) {
  numerics::Shape out{1};
  for (const auto extent : matrix.image()) out.push_back(out.rank() == 1 ? sets * extent : extent);
  return out;
}

numerics::Preconditioner preconditioner(const std::string& name) {
  return name == "jacobi"      ? numerics::Preconditioner::jacobi
         : name == "circulant" ? numerics::Preconditioner::circulant
                               : numerics::Preconditioner::none;
}

double largest_eigenvalue(numerics::Context& own, const NormalEquations& equations,
                          const numerics::LinearOperator& matrix) {
  auto& eigenvalues = own.resources().get<Eigenvalues>();
  if (const double known = eigenvalues.find(equations); known > 0) return known;
  const double value = numerics::largest_eigenvalue(own, matrix);
  eigenvalues.add(equations, value);
  return value;
}

/// Turns std::invalid_argument of numerics into ClientError: the data are at fault, as types and headers have ruled out
/// wrong shapes.
template <class Work>
auto with_clear_errors(const Work& work) {
  try {
    return work();
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("pcg: {}", error.what()));
  }
}

}  // namespace

double EquationSolver::power_of(const NormalEquations& equations) {
  if (options_.noise_level == 0) return 0;
  const double power = scan_->compute.download<double>(equations.power.view()).data()[0];
  if (!std::isfinite(power)) refuse_numbers();
  return power;
}

/// Allocates the image.
Array<cfloat> EquationSolver::not_set(const NormalEquations& equations) const {
  return scan_->compute.allocate<cfloat>(equations.right.shape());
}

numerics::PcgOptions EquationSolver::solver_options(const numerics::Regularizer* prior) const {
  numerics::PcgOptions options;
  options.iterations = static_cast<int>(options_.iterations);
  options.tolerance = options_.tolerance;
  options.preconditioner = preconditioner(options_.preconditioner);
  options.lambda = prior == nullptr ? 0 : options_.lambda;
  return options;
}

Array<cfloat> EquationSolver::solve(NormalEquations& equations, const numerics::Regularizer* prior,
                                    Array<cfloat> image) {
  const bool from_zero = !image;
  if (from_zero) image = not_set(equations);
  return with_clear_errors([&] {
    const std::int64_t parts = equations.maps ? equations.maps.shape()[0] : image.shape()[0];
    if (scan_->team != nullptr && options_.noise_level == 0 && parts >= scan_->team->size() && equations.sets == 1) {
      numerics::PcgOptions options = solver_options(prior);
      options.from_zero = from_zero;
      return solve_together(equations, prior, options, image);
    }
    note(*scan_, equations,
         solve_alone(equations, prior,
                     {scan_->compute, equations.matrix, equations.maps, equations.right, image, power_of(equations),
                      from_zero}));
    return image;
  });
}

/// Solves on one device. Several members may call it at the same time.
Solved EquationSolver::solve_alone(const NormalEquations& equations, const numerics::Regularizer* prior,
                                   Placed at) const {
  const numerics::Shape shape =
      equations.sets > 1 ? of_sets(equations.sets, *at.matrix) : as_solved(at.x.shape(), *at.matrix);
  const auto right = at.right.view().reshaped(shape);
  auto x = at.x.view().reshaped(shape);
  std::unique_ptr<numerics::LinearOperator> matrix;
  if (at.maps)
    matrix = std::make_unique<numerics::SenseNormal>(
        at.own, at.matrix, at.maps.reshaped(as_solved(at.maps.shape(), *at.matrix)), numerics::alone(), equations.sets);
  else
    matrix = std::make_unique<numerics::PlainNormal>(at.matrix);
  numerics::PcgOptions options = solver_options(prior);
  options.from_zero = at.from_zero;
  if (prior != nullptr) options.largest_eigenvalue = largest_eigenvalue(at.own, equations, *matrix);
  if (options_.noise_level == 0) return {numerics::pcg(at.own, *matrix, prior, right, x, options), {}};
  auto found = numerics::lambda_by_discrepancy(at.own, *matrix, prior, right, x, at.power,
                                               equations.weight * static_cast<double>(equations.coils),
                                               options_.noise_level, options);
  return {found.last, std::move(found)};
}

void EquationSolver::solve_side_by_side(std::vector<NormalEquations>& all, const std::vector<RegularizerPtr>& priors,
                                        std::vector<Array<cfloat>>& images) {
  std::vector<Solved> found(all.size());
  std::vector<double> powers;
  std::vector<bool> from_zero;
  for (std::size_t i = 0; i < all.size(); ++i) {
    powers.push_back(power_of(all[i]));
    from_zero.push_back(!images[i]);
    if (!images[i]) images[i] = not_set(all[i]);
  }
  copies_.resize(static_cast<std::size_t>(scan_->team->size()) - 1);
  with_clear_errors([&] {
    scan_->team->run(numerics::Team::Sums::none, [&](numerics::Member& member) {
      const auto i = static_cast<std::size_t>(member.rank());
      if (i >= all.size()) return;
      numerics::Context& own = member.context;
      const auto here = [&](const Array<cfloat>& array) {
        if (i == 0 || !array) return array;
        Array<cfloat> copy = own.allocate<cfloat>(array.shape());
        own.copy<cfloat>(array.view(), copy.view());
        return copy;
      };
      const auto prior = i == 0 || !priors[i] ? nullptr : priors[i]->copy(own);
      const Array<cfloat> right = here(all[i].right),
                          x = from_zero[i] && i > 0 ? own.allocate<cfloat>(right.shape()) : here(images[i]);
      Placed at{own, matrix_of(member, all[i]), here(all[i].maps), right, x, powers[i], from_zero[i]};
      found[i] = solve_alone(all[i], prior ? prior.get() : priors[i].get(), at);
      if (i > 0) own.copy<cfloat>(at.x.view(), images[i].view());
    });
  });
  for (std::size_t i = 0; i < all.size(); ++i) note(*scan_, all[i], found[i]);
}

/// The operator where a member computes.
std::shared_ptr<const numerics::NormalOperator> EquationSolver::matrix_of(numerics::Member& member,
                                                                          const NormalEquations& equations) {
  if (&member.context == &scan_->compute) return equations.matrix;
  Copy& copy = copies_[static_cast<std::size_t>(member.rank()) - 1];
  if (copy.of.lock() != equations.matrix) {
    copy.matrix = equations.matrix->copy(member.context);
    copy.of = equations.matrix;
  }
  return copy.matrix;
}

/// Solves on the devices of a team: each has some of the coils and all of the image, or, without coil maps, some of the
/// images.
Array<cfloat> EquationSolver::solve_together(NormalEquations& equations, const numerics::Regularizer* prior,
                                             const numerics::PcgOptions& options, Array<cfloat> image) {
  const numerics::Shape shape = as_solved(image.shape(), *equations.matrix);
  const std::int64_t voxels = equations.matrix->image().size();
  const bool sense = static_cast<bool>(equations.maps);
  auto& eigenvalues = scan_->compute.resources().get<Eigenvalues>();
  const double known = known_to_all(*scan_->team, prior == nullptr ? 0 : eigenvalues.find(equations));
  std::vector<numerics::PcgResult> results(static_cast<std::size_t>(scan_->team->size()));
  copies_.resize(results.size() - 1);
  scan_->team->run(sense ? numerics::Team::Sums::some : numerics::Team::Sums::none, [&](numerics::Member& member) {
    numerics::Context& own = member.context;
    const bool here = &own == &scan_->compute;
    /// Copies items first .. last - 1 of an array of such images to where this member computes.
    const auto part_of = [&](const Array<cfloat>& all, std::int64_t first, std::int64_t last) {
      numerics::Shape part{last - first};
      for (const auto extent : equations.matrix->image()) part.push_back(extent);
      Array<cfloat> copy = own.allocate<cfloat>(part);
      own.copy<cfloat>(all.view().part(first * voxels, part), copy.view());
      return copy;
    };
    const std::int64_t first = sense ? 0 : member.first(shape[0]), last = sense ? shape[0] : member.last(shape[0]);
    const Array<cfloat> b = part_of(equations.right, first, last);
    Array<cfloat> x = options.from_zero ? own.allocate<cfloat>(b.shape()) : part_of(image, first, last);
    const auto matrix = matrix_of(member, equations);
    std::unique_ptr<numerics::LinearOperator> a;
    if (sense) {
      const std::int64_t coils = equations.maps.shape()[0];
      a = std::make_unique<numerics::SenseNormal>(
          own, matrix, part_of(equations.maps, member.first(coils), member.last(coils)), member.others);
    } else {
      a = std::make_unique<numerics::PlainNormal>(matrix);
    }
    const auto own_prior = prior == nullptr || here ? nullptr : prior->copy(own);
    numerics::PcgOptions own_options = options;
    own_options.largest_eigenvalue = known;
    results[static_cast<std::size_t>(member.rank())] =
        numerics::pcg(own, *a, own_prior ? own_prior.get() : prior, b.view(), x.view(), own_options);
    if (here || !sense) own.copy<cfloat>(x.view(), image.view().part(first * voxels, x.shape()));
  });
  if (!scan_->team->in_one_process()) share_results(*scan_->team, scan_->compute, results, sense ? 0 : voxels, image);
  numerics::PcgResult& all = results.front();
  for (std::size_t i = 1; i < results.size() && !sense; ++i)
    all.items.insert(all.items.end(), results[i].items.begin(), results[i].items.end());
  if (known == 0 && options.lambda > 0) eigenvalues.add(equations, all.lambda / options.lambda);
  note(*scan_, equations, all);
  return image;
}

}  // namespace echotrain
