// Where a simulated scan samples k-space.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clients/cpp/phantom.h"

namespace echotrain::client {

enum class TrajectoryKind { cartesian, radial, golden_radial, spiral, kooshball };
const std::vector<std::string>& trajectory_names();
TrajectoryKind parse_trajectory(std::string_view name);  ///< UsageError for an unknown name

/// One readout: positions in cycles/pixel of the encoded matrix, and density weights where they are known in closed
/// form (spiral), else none.
struct ReadoutPath {
  std::vector<Vec3> positions;
  std::vector<double> weights;
};

/// The readouts of a scan. Zeros for readouts and samples mean enough of them for the Nyquist criterion.
class ScanPath {
 public:
  /// UsageError when the numbers do not go together.
  ScanPath(TrajectoryKind kind, int matrix, int readouts, int samples, int oversampling);

  TrajectoryKind kind() const { return kind_; }
  int matrix() const { return matrix_; }
  int readouts() const { return readouts_; }          ///< of one frame
  int samples() const { return samples_; }            ///< of one readout
  int oversampling() const { return oversampling_; }  ///< of Cartesian readouts; 1 otherwise
  int dims() const { return kind_ == TrajectoryKind::kooshball ? 3 : 2; }
  bool cartesian() const { return kind_ == TrajectoryKind::cartesian; }
  bool changes_with_frame() const { return kind_ == TrajectoryKind::golden_radial; }
  int center_sample() const;  ///< the sample nearest to k = 0

  /// Cartesian: lines -R/2.. of the matrix, the last S samples of matrix * oversampling (fewer: a partial echo).
  /// radial: diameters at angles pi r / R; golden_radial: every 111.246117975 degrees, on through all frames.
  /// spiral: R interleaves of 1.25 matrix / (2 R) turns, radius 0.5 t^(2/3); the weights of all sum to pi/4.
  /// kooshball: spokes from the centre, ends spread over the sphere by the golden angle.
  ReadoutPath readout(int readout, int frame) const;
  /// The share of the cell of size `cell` (cycles/pixel) about k that lies in the disc or ball the scan samples, or,
  /// for Cartesian scans, whether the point itself is sampled.
  double coverage(const Vec3& k, double cell) const;

 private:
  TrajectoryKind kind_;
  int matrix_, readouts_, samples_, oversampling_;
};

}  // namespace echotrain::client
