#include "gadgets/numerics/inverse/proximal/proximal_solver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/proximal/admm.h"
#include "gadgets/numerics/inverse/proximal/fista.h"
#include "gadgets/numerics/inverse/proximal/proximal_parts.h"
#include "gadgets/numerics/inverse/proximal/vectors.h"

namespace echotrain::numerics {
namespace {

void require_for_proximal(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("proximal: " + problem);
}

void check_problem(const ProximalProblem& problem, const Shape& x, const ProximalOptions& options) {
  const Shape& shape = problem.b.shape();
  require_for_proximal(shape.rank() == 4, "expected a series [frame, z, y, x], got " + shape.text());
  require_for_proximal(x == shape, fmt::format("{} is not {}", x.text(), shape.text()));
  const auto frames = static_cast<std::size_t>(shape[0]);
  require_for_proximal(problem.matrices.size() == 1 || problem.matrices.size() == frames,
                       fmt::format("{} matrices for {} frames", problem.matrices.size(), frames));
  for (const LinearOperator* matrix : problem.matrices)
    require_for_proximal(matrix->image().size() == shape[1] * shape[2] * shape[3],
                         fmt::format("a matrix for {} is not for {}", matrix->image().text(), shape.text()));
  for (const WeighedPrior& each : problem.priors) {
    require_for_proximal(each.weight >= 0 && std::isfinite(each.weight),
                         fmt::format("a prior's weight cannot be {}", each.weight));
    const Shape c = each.prior->coefficients();
    require_for_proximal(!each.prior->is_direct() || c == shape,
                         fmt::format("a prior of {} is not for {}", c.text(), shape.text()));
  }
  require_for_proximal(options.iterations >= 0 && options.inner >= 1, "iterations are 0 or more, inner ones 1 or more");
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  require_for_proximal(positive(options.bound) && positive(options.penalty),
                       "the largest eigenvalue's bound and the penalty are above 0");
  require_for_proximal(options.lambda >= 0 && std::isfinite(options.lambda),
                       fmt::format("lambda cannot be {}", options.lambda));
  require_for_proximal(options.tolerance >= 0, fmt::format("the tolerance cannot be {}", options.tolerance));
}

}  // namespace

void apply_matrices(Context& context, const ProximalProblem& problem, DeviceView<const cfloat> x,
                    DeviceView<cfloat> y) {
  const std::int64_t frames = x.shape()[0], voxels = x.size() / std::max<std::int64_t>(1, frames);
  for (std::int64_t f = 0; f < frames; ++f) {
    const LinearOperator& matrix = *problem.matrices[problem.matrices.size() == 1 ? 0 : static_cast<std::size_t>(f)];
    Shape one{1};
    for (const auto extent : matrix.image()) one.push_back(extent);
    matrix.apply(context, x.part(f * voxels, one), y.part(f * voxels, one));
  }
}

ProximalResult solve_proximal(Context& context, const ProximalProblem& problem, DeviceView<cfloat> x,
                              const ProximalOptions& options) {
  check_problem(problem, x.shape(), options);
  ProximalResult result;
  const Context::KeepMemory keep(context);
  Array<cfloat> work = context.allocate<cfloat>(x.shape());
  const auto iteration = options.method == ProximalMethod::fista ? make_fista(context, problem, options, x)
                                                                 : make_admm(context, problem, options, x);
  for (int i = 0; i < options.iterations && !result.converged; ++i) {
    context.check_stop();
    for (const WeighedPrior& each : problem.priors) each.prior->shift_on();
    const bool last = i + 1 == options.iterations, looks = options.tolerance > 0 || last;
    if (looks) context.copy<cfloat>(DeviceView<const cfloat>(x), work.view());
    ++result.iterations;
    if (!iteration->step(x)) {
      result.residual = result.objective = std::numeric_limits<double>::quiet_NaN();
      return result;
    }
    if (!looks) continue;
    weighted_sum(context, {1, x}, {-1, work.cview()}, work.view());
    const double size = norm(context, DeviceView<const cfloat>(x)), change = norm(context, work.cview());
    result.change = change == 0 ? 0 : change / size;
    result.converged = result.change <= options.tolerance && options.tolerance > 0;
  }
  apply_matrices(context, problem, x, work.view());
  const DeviceView<const cfloat> found(x);
  const double residual = dot(context, found, work.cview()) - 2 * dot(context, found, problem.b) + problem.power;
  result.residual = residual < 0 ? 0 : residual;  // rounding; NaN stays NaN
  result.objective = result.residual / 2;
  for (const WeighedPrior& each : problem.priors) {
    Array<cfloat> c = context.allocate<cfloat>(each.prior->coefficients());
    each.prior->forward(context, found, c.view());
    result.objective += options.lambda * each.weight * each.prior->value(context, c.cview());
  }
  return result;
}

}  // namespace echotrain::numerics
