// The Toeplitz operator's parts for each backend; arguments were checked.
#pragma once

#include <limits>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/transforms/fft/fft_ops.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"

namespace echotrain::numerics {

/// A spectrum's range: the real parts' extremes, and the largest magnitude of the imaginary parts, which is infinite
/// when any value is not finite.
struct SpectrumRange {
  float smallest = std::numeric_limits<float>::infinity(), largest = -std::numeric_limits<float>::infinity();
  float imaginary = 0;
  ECHOTRAIN_HOST_DEVICE void join(const SpectrumRange& other) {
    smallest = other.smallest < smallest ? other.smallest : smallest;
    largest = other.largest > largest ? other.largest : largest;
    imaginary = other.imaginary > imaginary ? other.imaginary : imaginary;
  }
  ECHOTRAIN_HOST_DEVICE void take(float re, float im) {
    const bool finite = re - re == 0 && im - im == 0;
    join({re, re, finite ? im < 0 ? -im : im : std::numeric_limits<float>::infinity()});
  }
};

/// One application. With `maps`, `batch` counts them: y = sum_c conj(maps_c) T (maps_c x). Without, it counts
/// independent items of x and y.
struct ToeplitzJob {
  std::int64_t batch = 1;
  const cfloat* x = nullptr;
  cfloat* y = nullptr;
  const cfloat* maps = nullptr;
  const AroundApply* around = nullptr;  ///< operations in the first and last pass; x is then written;
                                        ///< Impl::around_parts > 0
  cfloat* work = nullptr;               ///< toeplitz_work_size() elements; nullptr: working memory is allocated
};

/// The input of a spectrum's refill.
struct ToeplitzRefill {
  const cfloat* transformed;  ///< [grid...] in FFT order
  float scale;
  float* largest;         ///< [1]: the largest of the real parts of `transformed`
  float* partial;         ///< [toeplitz_parts()]: working space
  std::int32_t* arrived;  ///< [1], zero between operations
};

struct ToeplitzOperator::Impl {
  Shape image, grid;
  Backend backend;
  int dims;
  Extents n, padded;  ///< leading ones are 1
  double smallest, largest, diagonal;
  Array<float> spectrum;             ///< divided by the voxels of the grid; laid out as the backend wants it
  Array<float> circulant;            ///< [image...]
  std::shared_ptr<const void> axes;  ///< the backend's plans; CUDA: none where cuFFT does all the work
  std::int64_t around_parts = 0;     ///< NormalOperator::around_parts()
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// The size of an axis's transform, at least 2n.
std::int64_t toeplitz_extent(std::int64_t n);
/// grid = the lags -n + 1 .. n - 1 of q, 0 elsewhere.
void toeplitz_place(Context& context, const cfloat* q, const Extents& n, const Extents& padded, int dims, cfloat* grid);
/// Makes the first column of T. Chan's circulant: per axis, lags j and j - n weighed by (n - j) / n and j / n.
void circulant_place(Context& context, const cfloat* q, const Extents& n, int dims, cfloat* column);
/// to = scale * Re(from), with the ranges of kBlocks parts.
SpectrumRange real_part(Context& context, const cfloat* from, std::int64_t n, float scale, float* to);
/// Sets `axes` and `around_parts` for a context with `n`, `padded` and `dims`.
void toeplitz_plan(Context& context, ToeplitzOperator::Impl& impl);
/// Sets `spectrum` and `axes` from the spectrum in FFT order.
void toeplitz_prepare(Context& context, Array<float> natural, ToeplitzOperator::Impl& impl);
void toeplitz_apply(Context& context, const ToeplitzOperator::Impl& impl, const ToeplitzJob& job);
/// The number of elements of `spectrum` as toeplitz_prepare() makes it. Call it after toeplitz_plan().
std::int64_t toeplitz_spectrum_size(const ToeplitzOperator::Impl& impl);
/// The number of elements that toeplitz_apply() works in for so many coils at once; 0: it always allocates its working
/// memory.
std::int64_t toeplitz_work_size(const ToeplitzOperator::Impl& impl, std::int64_t coils);
std::int64_t toeplitz_parts(const ToeplitzOperator::Impl& impl);
/// Fills the spectrum, whose memory is there already. Waits for nothing.
void toeplitz_refill(Context& context, const ToeplitzRefill& refill, ToeplitzOperator::Impl& impl);
)
// clang-format on

}  // namespace echotrain::numerics
