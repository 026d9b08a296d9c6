// Priors of image series as convex functions that are small for likely images: wavelets, total variation, low rank.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/inverse/sparse/differences.h"

namespace echotrain::numerics {

/// h(G x) of a series x [frame, z, y, x] of one shape, h convex with h(s c) = |s| h(c), G linear. If is_direct(), G is
/// 1 and c = G x has the series' shape; else c has another shape. Not thread-safe: random shifts have a state.
class ConvexPrior {
 public:
  virtual ~ConvexPrior() = default;
  virtual bool is_direct() const { return true; }
  /// The number of steps on the dual problem of the proximal map of h(G x) that suffices where each call begins with
  /// the last one's end.
  virtual int dual_steps() const { return std::numeric_limits<int>::max(); }
  virtual Shape coefficients() const = 0;     ///< the shape of c
  virtual double bound() const { return 1; }  ///< no eigenvalue of G^H G is above it
  /// c = G x, and x = G^H c; both copy if is_direct().
  virtual void forward(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> c) const;
  virtual void adjoint(Context& context, DeviceView<const cfloat> c, DeviceView<cfloat> x) const;
  /// The proximal map of threshold h, in place: the c' with the least |c' - c|^2 / 2 + threshold h(c').
  virtual void shrink(Context& context, double threshold, DeviceView<cfloat> c) const = 0;
  /// c minus that map, which is the nearest element of the set whose support function is threshold h (Moreau).
  virtual void project(Context& context, double threshold, DeviceView<cfloat> c) const;
  virtual double value(Context& context, DeviceView<const cfloat> c) const = 0;  ///< h(c). Waits for the device.
  /// Draws new shifts, if there are any: the same ones in every run.
  virtual void shift_on() {}
};

/// The sum of the magnitudes of the wavelet coefficients of each frame (wavelet.h). Where wavelet_extents() are larger
/// than the frame, G continues it by zeros to these, so that wavelets are cut off at the ends instead of wrapping
/// round; as G^H G = 1, three steps on the dual are enough. shifts: shift_on() draws the begin of wavelets, as
/// translation-invariant denoising does (Coifman and Donoho, 1995); value() is taken without a shift.
std::unique_ptr<ConvexPrior> wavelet_prior(const Shape& series, std::int64_t smallest = 16, bool shifts = false);

/// The same prior of series of another shape with as many values, which hold the same memory: x and, if is_direct(), c
/// have that shape.
std::unique_ptr<ConvexPrior> reshaped(std::unique_ptr<ConvexPrior> prior, const Shape& from, const Shape& to);

/// Total variation: the sum over voxels and frames of the root of the sum of squared differences (differences.h) along
/// `axes`. Source: Rudin, Osher, Fatemi, Physica D 60, 1992. Null where the series has no neighbours along them.
std::unique_ptr<ConvexPrior> variation_prior(const Shape& series, const DifferenceAxes& axes);

/// The sum of the singular values of blocks of voxels by frames (low_rank.h), times sqrt(M) + sqrt(N) + sqrt(log(B
/// min(M, N))), M a block's voxels, N the frames, B the blocks: about the largest singular value of noise of 1, so that
/// the weight means the same for all shapes (Ong and Lustig, IEEE JSTSP 10, 2016). shifts: shift_on() draws the begin
/// of blocks.
std::unique_ptr<ConvexPrior> low_rank_prior(const Shape& series, std::int64_t block, bool shifts = false);

}  // namespace echotrain::numerics
