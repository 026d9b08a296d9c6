// Coil compression: fewer virtual coils that hold nearly all of the signal.
#pragma once

#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// gram[a, b] += sum of d_a conj(d_b) over readouts and their samples [first, last), in float64. data: [readout, coil,
/// sample]; gram: [coil, coil]. Readouts are added one after the other, so the bits do not depend on how they are
/// divided among calls. Throws std::invalid_argument for shapes that do not fit.
void add_coil_gram(Context& context, DeviceView<const cfloat> data, std::int64_t first, std::int64_t last,
                   DeviceView<cdouble> gram);

/// Sums each sample separately: grams[a, b, s] += sum over readouts of d_a(s) conj(d_b(s)). grams: [coil, coil,
/// sample]; all else as add_coil_gram().
void add_coil_grams(Context& context, DeviceView<const cfloat> data, DeviceView<cdouble> grams);

/// The number of virtual coils to keep.
struct CompressionOptions {
  std::int64_t channels = 0;  ///< this many, at most all; 0: the fewest that hold `energy`
  double energy = 0.995;      ///< share of the Gram matrix' trace, in (0, 1]
};

/// Matrices whose rows are orthonormal, so that white noise stays white.
struct Compression {
  std::int64_t kept = 0;
  std::int64_t samples = 0;    ///< 0: one matrix for all samples
  std::vector<cfloat> matrix;  ///< [kept, coil], or [kept, coil, sample]
  double energy = 0;           ///< share of the trace that the virtual coils hold
};

/// The eigenvectors of the largest eigenvalues of `gram`, [coil, coil], the largest first; the largest element of each
/// row is real and positive. Source: Buehrer et al., "Array compression for MRI with large coil arrays", MRM 57, 2007.
/// Throws std::invalid_argument when the matrix is not finite or has no positive trace; Stopped.
Compression compression_by_pca(const ThreadPool& threads, const std::vector<cdouble>& gram, std::int64_t coils,
                               const CompressionOptions& options);

/// The most virtual coils that geometric_compression() finds: the SVD of one position takes 0.2 s for so many.
inline constexpr std::int64_t kMostGeometric = 128;

/// Computes one matrix for each position along a transformed readout: from the Gram matrices `grams`, [coil, coil,
/// position], summed over the nearest five positions, and aligned from the middle outwards so that virtual coils are
/// smooth along the readout: V_x <- W U^H V_x, where V_x V_(x-1)^H = U S W^H. The number kept is the same everywhere.
/// Throws std::invalid_argument for more than kMostGeometric. Source: Zhang et al., "Coil compression for
/// accelerated imaging with Cartesian sampling", MRM 69, 2013. Errors as above.
Compression geometric_compression(ThreadPool& threads, const std::vector<cdouble>& grams, std::int64_t coils,
                                  std::int64_t positions, const CompressionOptions& options);

/// to[i, k, s] = sum_c matrix[k, c] data[i, c, s], or with matrix[k, c, s]. matrix: [kept, coil] or [kept, coil,
/// sample]; data: [readout, coil, sample]; to: [readout, kept, sample], which must not overlap `data`. Throws
/// std::invalid_argument for shapes that do not fit.
void compress(Context& context, DeviceView<const cfloat> matrix, DeviceView<const cfloat> data, DeviceView<cfloat> to);

}  // namespace echotrain::numerics
