// Line unmixing: the combined image of an accelerated frame of one plane, in one pass over its columns.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/mri/parallel/line_correction.h"

namespace echotrain::numerics {

/// The plan that frames with the same weights share.
///
/// Rows first + j step of n give, at the image's lines r, sum_j d_j exp(2 pi i step j r / n), which is the same for
/// lines whose (step r) mod n agree: there are only n / gcd(step, n) different values, and a transform of that many
/// points of the acquired rows alone gives them all.
///
/// The corrected rows are few. Two rows at equal distances d on either side of a point of k-space give, at the lines r
/// and -r, C +- D with C = (e+ + e-) cos(2 pi d r / n) and D = i (e+ - e-) sin(2 pi d r / n). The point is chosen so
/// that most rows have a partner; the phases about it are in `maps`.
struct LineUnmixing {
  struct Pair {
    double distance;           ///< [rows]
    std::int32_t plus, minus;  ///< indices in LineCorrections::rows; minus: -1 for none
  };
  LineGeometry geometry;
  std::int64_t coils = 0;                       ///< 0: there is no plan
  std::int64_t first = 0, step = 1, count = 0;  ///< rows of the encoded matrix that are unmixed
  std::int64_t points = 0, folds = 0;           ///< different values along y, and how many lines may have each
  std::vector<std::int32_t> place;              ///< for each line of the image: fold * points + point
  std::vector<Pair> pairs;                      ///< pairs of corrected rows
  std::vector<std::int32_t> frequencies;        ///< for each corrected row: k along y
  std::vector<std::int32_t> sources;            ///< CPU: acquired rows that corrections use, each once
  std::vector<std::int32_t> own, terms;         ///< CPU: index in it, for each corrected row (or -1) and for each term
  Array<cfloat> weights;                        ///< CPU: [block of columns, coil, kHybridLanes, fold, point]
  Array<float> turns;                           ///< CPU: [distance from the middle line, pair, cos and sin]
  Array<float> maps;                            ///< CPU: [block, coil, distance, + and -, re and im, kHybridLanes]
  Array<cfloat> factors;                        ///< CUDA: the weights given to plan_line_unmixing()
  Array<std::int32_t> frequencies_there;        ///< CUDA
  float scale = 1;                              ///< CUDA

  bool made() const { return coils > 0; }
  std::uint64_t bytes() const;  ///< memory of its own arrays
};

/// Plans for weights `factors` as combine() takes them, [coil, z, y, x]: conj(u) of unmixing() or unfold(), and where
/// there are corrections the maps after them, so that there are twice as many. There is no plan for volumes, for rows
/// that no single step leads through, or where unmixing would take longer than transforms do. Throws
/// std::invalid_argument on shapes that do not fit.
LineUnmixing plan_line_unmixing(Context& context, const Lattice& lattice, const RowPlan& rows,
                                const LineGeometry& geometry, const LineCorrections& corrections,
                                const Array<cfloat>& factors, float scale);

/// image = scale * (sum_c u_c A_c + sum_c S_c^H E_c): A the images of the lattice's rows of `half`, E those of the
/// corrected rows (correct_lines()). Only acquired rows of `half` are read. half: [coil, encoded z * y, image x], as
/// transform_lines() gives it; image: [1, z, y, x]. `hybrid` and `corrections` are those of the plan. Asynchronous on
/// CUDA. Throws std::invalid_argument on shapes that do not fit.
void unmix_lines(Context& context, const LineUnmixing& plan, const HybridKernels& hybrid,
                 const LineCorrections& corrections, DeviceView<const cfloat> half, DeviceView<cfloat> image);

}  // namespace echotrain::numerics
