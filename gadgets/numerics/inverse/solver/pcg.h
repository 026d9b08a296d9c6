// Regularised least squares by preconditioned conjugate gradients.
#pragma once

#include <vector>

#include "gadgets/numerics/inverse/solver/linear_operator.h"
#include "gadgets/numerics/inverse/solver/regularizer.h"

namespace echotrain::numerics {

enum class Preconditioner {
  none,
  jacobi,    ///< the diagonal of A + lambda R
  circulant  ///< a circulant matrix near A + lambda R (LinearOperator::circulant); two FFTs of the image's size per
             ///< step
};
enum class PcgStatus {
  converged,        ///< the residual is at most the tolerance
  iterations_used,  ///< it is not, after all iterations
  broke_down        ///< numbers that are not finite, or a direction in which A + lambda R is not positive
};
const char* to_string(PcgStatus status);

struct PcgOptions {
  int iterations = 30;      ///< the most iterations, 0..10000
  double tolerance = 1e-4;  ///< the tolerance of |r| / |b|; rounding leaves about 1e-6
  Preconditioner preconditioner = Preconditioner::none;
  double lambda = 0;              ///< relative to A's largest eigenvalue
  double largest_eigenvalue = 0;  ///< A's; 0: largest_eigenvalue() computes it where lambda needs it
  bool from_zero = false;         ///< the start is 0, whatever x holds, which saves A's first application
};

struct PcgItem {
  PcgStatus status = PcgStatus::iterations_used;
  int iterations = 0;             ///< steps taken
  std::vector<double> residuals;  ///< |b - (A + lambda R) x| / |b|; [0]: of the start
};
struct PcgResult {
  std::vector<PcgItem> items;  ///< one per item of the batch
  double lambda = 0;           ///< the lambda used: options.lambda times the largest eigenvalue
};

/// Solves (A + lambda R) x = b for each item of a batch on its own: items have their own steps, an item that has
/// converged keeps its value, and other items of the batch have no effect (CPU: to the bit; CUDA: up to rounding).
/// `regularizer`: R, or nullptr. b, x: [batch, image...]; x: the start (zero, or the image of the previous frame),
/// afterwards the solution.
///
/// Vectors are fp32, sums of products fp64. Residuals are those of the recursion, as is usual; rounding adds about 1e-7
/// |A| |x| / |b| to the true residual of x. b = 0 gives x = 0. x is always finite: where b or the start is not, or
/// numbers overflow on the way, it becomes 0; any other breakdown leaves the last good iterate. CUDA: waits for the
/// device only at the end: the loop is a graph that ends itself (drivers before 12.4 and several members: a check every
/// few iterations). The same bits for any number of CPU threads. Throws std::invalid_argument on shapes or numbers that
/// do not fit, or when A has no circulant neighbour. Source: Hestenes & Stiefel 1952; Stone et al., JPDC 68, 2008, sec.
/// 2.2 (docs/seeds.md).
PcgResult pcg(Context& context, const LinearOperator& a, const Regularizer* regularizer, DeviceView<const cfloat> b,
              DeviceView<cfloat> x, const PcgOptions& options);

/// Estimates A's largest eigenvalue by `steps` steps of the power iteration from a fixed start: a constant plus numbers
/// that look random. The result is never above it except by rounding, and is below it by some percent where large
/// eigenvalues crowd: a scale, not a bound. Returns 0 for A = 0. Throws ResourceError when the result is not finite.
double largest_eigenvalue(Context& context, const LinearOperator& a, int steps = 15);

struct DiscrepancyOptions {
  double smallest = 1e-6, largest = 1;  ///< range of the search for lambda, relative to the largest eigenvalue
  double accuracy = 0.02;               ///< accuracy of |F x - d|^2, relative to its target
  int solves = 12;                      ///< the most solves
};
struct DiscrepancyResult {
  enum class Status {
    matched,
    below_range,  ///< even the smallest lambda leaves a residual above the noise: it holds something else
    above_range,  ///< even the largest leaves less: the data are only noise
    not_matched   ///< too many solves; results are of the last one
  };
  Status status = Status::not_matched;
  double lambda = 0;    ///< relative
  double residual = 0;  ///< |F x - d|^2
  double target = 0;    ///< 2 sigma^2 samples
  int solves = 0;
  PcgResult last;  ///< result of the solve that gave x
};

/// Morozov's discrepancy principle: finds the lambda for which |F x - d|^2 is the residual of noise alone, 2 sigma^2
/// times the number of samples, where sigma is the noise's standard deviation in the real and in the imaginary part.
/// One image: b = F^H d, x: [1, image...], x as in pcg(). `data_power`: |d|^2. `samples`: the number in all coils. If A
/// and b contain weights (F^H W F, F^H W d), |d|^2 is sum w |d|^2 and `samples` the sum of the weights.
///
/// |F x - d|^2 = x^H A x - 2 Re x^H b + |d|^2 rises with lambda. The system is solved for decades of lambda from the
/// largest down, each from the last solution, until the residual is below the target; then regula falsi between the
/// last two (Illinois, in logarithms) until `accuracy` is reached. The three terms cancel: noise below about 1e-3 of
/// |d| is lost in rounding. options.lambda is ignored. Source: Morozov 1966; Hansen, "Rank-deficient and discrete
/// ill-posed problems", SIAM 1998, sec. 7.2.
DiscrepancyResult lambda_by_discrepancy(Context& context, const LinearOperator& a, const Regularizer* regularizer,
                                        DeviceView<const cfloat> b, DeviceView<cfloat> x, double data_power,
                                        double samples, double sigma, const PcgOptions& options,
                                        const DiscrepancyOptions& search = {});

}  // namespace echotrain::numerics
