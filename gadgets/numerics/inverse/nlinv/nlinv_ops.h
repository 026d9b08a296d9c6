// The steps of NLINV that each backend does; arguments were checked.
#pragma once

#include <functional>
#include <memory>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/inverse/nlinv/nlinv.h"

namespace echotrain::numerics {

/// A smooth function of `points` points about floor(points / 2), as a sum of waves k = -most .. most. By symmetry, only
/// cosines and sines of non-negative numbers are needed.
struct NlinvAxis {
  /// Tables are filled up with zeros to whole blocks, whose rows and columns are no more than kBlock.
  static constexpr std::int64_t kBlock = 48, kUnit = 16;
  std::int64_t points, most;
  std::int64_t waves() const { return 2 * most + 1; }
  std::int64_t half() const { return points / 2; }
  static std::int64_t padded(std::int64_t n) { return (n + kBlock + kUnit - 1) / kUnit * kUnit; }
  std::int64_t wave_rows() const { return padded(most + 1); }
  std::int64_t point_rows() const { return padded(half() + 1); }
  Array<float> cosine, sine;                      ///< [wave_rows, point_rows]: of 2 pi k r / field, over sqrt(field)
  Array<float> cosine_of_points, sine_of_points;  ///< the same as [point_rows, wave_rows]
};

/// Unknowns lie in one array: the image [y, x], then coefficients [coil, kx, ky].
struct NlinvProblem {
  std::int64_t coils;
  NlinvAxis y, x;
  Array<float> weights;   ///< [kx, ky]
  Array<cfloat> between;  ///< [coil, ky x]: working space
  std::int64_t voxels() const { return y.points * x.points; }
  std::int64_t waves() const { return y.waves() * x.waves(); }
  std::int64_t unknowns() const { return voxels() + coils * waves(); }
};

/// The lengths of a step of conjugate gradients: along the direction, and the share of the previous direction in this
/// one.
struct NlinvLengths {
  double along, before;
  /// Computes the lengths from |r|^2 of the previous step and of this one, <r, A r>, and the length of the previous
  /// step. A step has length 0 where the curvature is not positive; so have those after it.
  ECHOTRAIN_HOST_DEVICE static NlinvLengths of(bool first, double old, double now, double curvature, double last) {
    const double b = first || !(old > 0) ? 0 : now / old, bottom = first ? curvature : curvature - b * now / last;
    return {bottom > 0 ? now / bottom : 0, b};
  }
};

/// The step's arrays. r: the residual; q = A r; p: the direction; s = A p; d: the sum of the steps. The first step sets
/// p, s and d, the last one adds d to x.
struct NlinvStep {
  std::int64_t n;
  bool first, last;
  const double *old, *now;      ///< parts of |r|^2: of the previous step and of this one
  const double* product;        ///< parts of <r, q>
  std::int64_t products;        ///< number of these parts
  const double* length_before;  ///< [1]: `along` of the previous step
  double* length;               ///< [1]
  const cfloat* q;
  cfloat *r, *p, *s, *d, *x;
  double* next;  ///< parts of the new |r|^2
};

/// image, field: [y, x], as in Nlinv.
NlinvProblem make_nlinv_problem(Context& context, std::int64_t coils, const Shape& image, const Shape& field,
                                const NlinvOptions& options);

// clang-format off
ECHOTRAIN_BACKENDS(
/// The numbers of partial sums that nlinv_back() and the operations on vectors of n elements return.
std::int64_t nlinv_back_sums(const NlinvProblem& problem);
std::int64_t nlinv_vector_sums(std::int64_t n);
/// z = m C p + p_image c, where C makes coil images of the coefficients in p. If m and c are null, z = C p.
void nlinv_product(Context& context, const NlinvProblem& problem, const cfloat* m, const cfloat* c, const cfloat* p,
                   cfloat* z);
/// z = m c
void nlinv_multiply(Context& context, const NlinvProblem& problem, const cfloat* m, const cfloat* c, cfloat* z);
/// h = scale D^H y + alpha p: sum conj(c) y, and C^H (conj(m) y). sums: parts of <p, h>.
void nlinv_back(Context& context, const NlinvProblem& problem, float scale, float alpha, const cfloat* m,
                const cfloat* c, const cfloat* y, const cfloat* p, cfloat* h, double* sums);
/// to = a u + b v; `to` may be either.
void nlinv_combine(Context& context, std::int64_t n, float a, const cfloat* u, float b, const cfloat* v, cfloat* to);
/// r = h; sums: parts of |r|^2.
void nlinv_begin(Context& context, std::int64_t n, const cfloat* h, cfloat* r, double* sums);
/// A step of conjugate gradients in the form of Chronopoulos and Gear, whose vectors need one pass: p = r + before p, s
/// = q + before s, d += along p, r -= along s.
void nlinv_step(Context& context, const NlinvStep& step);
/// to = the middle [ny, nx] of factor m sqrt(sum |c|^2).
void nlinv_image(Context& context, const NlinvProblem& problem, float factor, const cfloat* m, const cfloat* c,
                 std::int64_t ny, std::int64_t nx, cfloat* to);
/// Does `work`, which is always the same, or, once it has been recorded, launches it as a graph.
void nlinv_run(Context& context, std::shared_ptr<void>& recorded, const std::function<void()>& work);
)
// clang-format on

/// The derivative and its adjoint on the context's backend, for tests.
namespace on_backend {
std::int64_t nlinv_back_sums(Context& context, const NlinvProblem& problem);
void nlinv_product(Context& context, const NlinvProblem& problem, const cfloat* m, const cfloat* c, const cfloat* p,
                   cfloat* z);
void nlinv_back(Context& context, const NlinvProblem& problem, float scale, float alpha, const cfloat* m,
                const cfloat* c, const cfloat* y, const cfloat* p, cfloat* h, double* sums);
}  // namespace on_backend

}  // namespace echotrain::numerics
