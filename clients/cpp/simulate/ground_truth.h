// The truth is the image that a perfect reconstruction of a simulated scan gives.
#pragma once

#include <vector>

#include "clients/cpp/simulate/subject/coils.h"
#include "clients/cpp/simulate/subject/phantom.h"
#include "clients/cpp/simulate/trajectory.h"

namespace echotrain::client {

/// Coil images limited to the k-space that the scan samples, summed in float64 from the analytic k-space:
/// Cartesian scans on their own sample positions; others on a Cartesian k-grid twice as fine as the image needs, cells
/// on the rim of the disc or ball weighted by their share. Stacks are Cartesian along z.
class GroundTruth {
 public:
  GroundTruth(const Phantom& phantom, const CoilSet& coils, const ScanPath& scan);

  const std::vector<std::size_t>& shape() const { return shape_; }  ///< [y, x] or [z, y, x]
  std::vector<std::complex<float>> coil_image(int coil) const;
  std::vector<float> root_sum_of_squares() const;

 private:
  cdouble value(int coil, std::size_t voxel) const;

  CoilSet coils_;
  std::vector<std::size_t> shape_;
  std::vector<std::vector<cdouble>> components_;  // per shared coil frequency: the image of the shifted k-space
};

}  // namespace echotrain::client
