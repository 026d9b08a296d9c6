// Regularised least squares with convex priors, by proximal methods (FISTA, ADMM).
#pragma once

#include <memory>
#include <vector>

#include "gadgets/numerics/inverse/proximal/priors.h"
#include "gadgets/numerics/inverse/solver/linear_operator.h"

namespace echotrain::numerics {

struct WeighedPrior {
  std::shared_ptr<ConvexPrior> prior;
  double weight = 1;  ///< factor of lambda
};

/// The problem: minimise J(x) = 1/2 |F x - d|^2 + lambda sum_i w_i h_i(G_i x) over a series x [frame, z, y, x].
struct ProximalProblem {
  /// A = F^H F of each frame, or one for all. Their images have the voxels of [z, y, x].
  std::vector<const LinearOperator*> matrices;
  DeviceView<const cfloat> b;  ///< F^H d, [frame, z, y, x]
  std::vector<WeighedPrior> priors;
  double power = 0;  ///< |d|^2 of all frames
};

enum class ProximalMethod { fista, admm };

struct ProximalOptions {
  ProximalMethod method = ProximalMethod::fista;
  int iterations = 100;
  double tolerance = 0;  ///< |x_new - x| / |x_new| at which to stop; 0: never
  double lambda = 0;     ///< absolute, in the unit of x
  double bound = 1;      ///< (nearly) no eigenvalue of A is above it: the step is 1 over it
  /// The steps of the inner solver of each iteration. fista: steps on the dual problem of the proximal map, where a
  /// prior is not direct or there are several; for a single prior at most ConvexPrior::dual_steps(). admm: steps of
  /// conjugate gradients.
  int inner = 20;
  double penalty = 0.1;  ///< weight in admm of the equality of x and its copies, relative to `bound`
};

struct ProximalResult {
  int iterations = 0;
  bool converged = false;  ///< `tolerance` was reached
  double change = 0;       ///< |x_new - x| / |x_new| of the last iteration
  double residual = 0;     ///< |F x - d|^2; rounding leaves about 1e-7 |d|^2. Not finite where numbers overflowed
  double objective = 0;    ///< J(x), without shifts
};

/// Minimises J, beginning with x. fista: the accelerated proximal gradient method (Beck and Teboulle, SIAM J. Imaging
/// Sci. 2, 2009), whose momentum begins anew where it leads uphill (O'Donoghue and Candes, Found. Comput. Math. 15,
/// 2015); the proximal map of priors without a closed form is computed by the same method on its dual (Beck and
/// Teboulle, IEEE TIP 18, 2009). admm: the alternating direction method of multipliers (Boyd et al., Found. Trends
/// Mach. Learn. 3, 2011), over-relaxed by 1.6. Vectors are fp32, sums fp64; the same bits for any number of CPU
/// threads. Checks the stop token in every iteration. Throws std::invalid_argument on shapes and numbers that do not
/// fit.
ProximalResult solve_proximal(Context& context, const ProximalProblem& problem, DeviceView<cfloat> x,
                              const ProximalOptions& options);

}  // namespace echotrain::numerics
