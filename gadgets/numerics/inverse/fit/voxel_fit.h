// The fit of a signal curve to the images of each voxel.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// A voxel's signal in image i is offset + amplitude curve(at_i): amplitude, and offset where there is one, are
/// complex.
struct VoxelCurve {
  enum class Shape {
    decay,     ///< exp(-at / T). With an offset also inversion and saturation recovery of three parameters
    recovery,  ///< 1 - (1 - c) exp(-at / T) - c exp(-period / T), c the longitudinal magnetisation after preparation
    sine,      ///< sin(at B), at in radians
  };
  enum class Value {
    time,        ///< T; of `sine`, B
    rate,        ///< 1 / T
    look_locker  ///< T (-amplitude / offset - 1): T is the apparent T1* (Deichmann & Haase, J. Magn. Reson. 96, 1992)
  };
  Shape shape = Shape::decay;
  Value value = Value::time;
  bool offset = false;
  bool turning = false;  ///< the signal also turns by exp(2 pi i f at), of f [cycles per unit of `at`]; without offset
  double prepared = -1;  ///< `recovery`: c; -1 after an ideal inversion, 0 after saturation
  double period = 0;     ///< `recovery`: from one preparation to the next, in the unit of `at`; 0: long
  double least = 0, most = 0;  ///< the range of T, or B
  double turns = 0;  ///< the range of |f|; 0: half a turn between the closest `at`; at most 341 from first to last
};

struct VoxelFit {
  VoxelCurve curve;
  /// Where on the curve each image is; infinity: far beyond T. At most kMostImages.
  std::vector<double> at;
  /// One for each image: 1 over its noise's variance, in units of that of `noise`; empty: all are 1. Not with an
  /// offset.
  std::vector<double> weights;
  bool magnitude = false;  ///< fits |images|
  bool real = false;       ///< fits the real part of images that have no other, with its sign
  /// Magnitudes of signals that change their sign once: all places of that change are tried, the best fit stands.
  bool polarity = false;
  /// Magnitudes: the signal is that whose mean magnitude in such noise is the image (Rice's distribution); needs noise.
  bool rician = false;
  /// Takes off the bias that least squares have by the curve's bend, to second order in the noise.
  bool unbiased = false;
  double noise = 0;  ///< standard deviation of the noise of the images' real part; 0: estimated from the residuals
  /// Voxels whose root mean square over the images is less than this many standard deviations of their noise get 0.
  double threshold = 0;
  /// A number where the context computes: voxels whose root mean square is less get 0. Empty: none do.
  DeviceView<const float> floor;
  double most_error = 0;  ///< voxels whose standard deviation is above this part of the value get 0; 0: none do
  static constexpr int kMostImages = 64;

  /// The numbers that a voxel gives beyond those that the fit uses up (N - p): complex images count twice.
  std::int64_t freedom() const;
};

/// Fits each voxel by least squares, with the amplitudes projected out (variable projection: Golub & Pereyra, SIAM J.
/// Numer. Anal. 10, 1973): the best point of a grid over ln T, then a fixed number of Gauss-Newton steps within its
/// neighbours (Kaufman, BIT 15, 1975).
///
/// images: [image, voxel]; more than at.size() images may lie there, those beyond are not read. maps: [2, voxel], or
/// [4, voxel] of a turning curve: the value, its standard deviation, f, its standard deviation. The deviation is that
/// of the linearised fit, by `noise` or else by the residuals' sum of squares over N - p; with N = p the residuals, and
/// with them the deviation, are no more than roundings. Voxels without a value have 0 in all maps: at a bound of the
/// range, below the threshold, with a larger error than most_error, or with pixels that are not finite.
///
/// Asynchronous on CUDA; the same bits in every run. Throws std::invalid_argument on shapes that do not fit, on fewer
/// numbers than unknowns, on a range or times that make no curve.
void fit_voxels(Context& context, const VoxelFit& fit, DeviceView<const cfloat> images, DeviceView<float> maps);

}  // namespace echotrain::numerics
