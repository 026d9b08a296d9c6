// The trajectory of a simulated scan says where it samples k-space.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clients/cpp/simulate/subject/phantom.h"

namespace echotrain::client {

enum class TrajectoryKind { cartesian, radial, golden_radial, spiral, kooshball, stack_of_stars, stack_of_spirals };
const std::vector<std::string>& trajectory_names();
TrajectoryKind parse_trajectory(std::string_view name);  ///< UsageError for an unknown name

/// The delays of the gradients, in samples; negative where gradients come late.
struct GradientDelays {
  double x = 0, y = 0, xy = 0;
};
/// Reads "X:Y:XY" or nothing. Throws UsageError for anything else.
GradientDelays parse_gradient_delays(std::string_view text);

/// One readout: positions in cycles/pixel of the encoded matrix, and density weights where they are known in closed
/// form (spirals), else none.
struct ReadoutPath {
  std::vector<Vec3> positions;
  std::vector<double> weights;
};

/// Returns the positions as ISMRMRD has them: [sample, dimension], after `dims` of them a density weight where there is
/// one.
std::vector<float> interleaved(const ReadoutPath& path, int dims);

/// The sizes of a scan. Zero readouts or samples mean enough for the Nyquist criterion; zero partitions mean a quarter
/// of the matrix.
struct ScanShape {
  int matrix = 128;
  int readouts = 0;                   ///< of one frame and partition: lines, spokes or interleaves
  int samples = 0;                    ///< of one readout
  int oversampling = 1;               ///< of Cartesian readouts
  int partitions = 0;                 ///< of stacks
  bool partitions_outermost = false;  ///< all spokes of a partition first, not all partitions of a spoke
  int depth = 1;                      ///< of Cartesian scans: planes of a volume; 1 in 2D
  bool elliptical = false;            ///< of Cartesian volumes: the corners of k-space are never sampled
};

class ScanPath {
 public:
  /// Throws UsageError when the numbers do not go together.
  ScanPath(TrajectoryKind kind, const ScanShape& shape);
  ScanPath(TrajectoryKind kind, int matrix, int readouts, int samples, int oversampling)
      : ScanPath(kind, ScanShape{matrix, readouts, samples, oversampling, 0, false}) {}

  TrajectoryKind kind() const { return kind_; }
  int matrix() const { return shape_.matrix; }              ///< in x and y
  int depth() const;                                        ///< matrix in z; 1 in 2D
  int readouts() const { return shots() * partitions(); }   ///< of one frame
  int shots() const { return shape_.readouts; }             ///< of one frame and partition: encoding steps 1
  int partitions() const { return shape_.partitions; }      ///< of a stack or a volume: encoding steps 2; 1 otherwise
  int samples() const { return shape_.samples; }            ///< of one readout
  int oversampling() const { return shape_.oversampling; }  ///< of Cartesian readouts; 1 otherwise
  int dims() const { return kind_ == TrajectoryKind::kooshball || stack() || partitions() > 1 ? 3 : 2; }
  bool cartesian() const { return kind_ == TrajectoryKind::cartesian; }
  bool stack() const { return kind_ == TrajectoryKind::stack_of_stars || kind_ == TrajectoryKind::stack_of_spirals; }
  bool weighted() const { return in_plane() == TrajectoryKind::spiral; }  ///< readouts come with density weights
  bool changes_with_frame() const { return in_plane() == TrajectoryKind::golden_radial; }
  int center_sample() const;  ///< the sample nearest to k = 0 in the plane
  /// True if an elliptical scan has this line of this plane; all other scans do.
  bool in_shutter(int line, int plane) const;

  struct Steps {
    int shot, partition;
  };
  /// Returns the encoding steps of a frame's readout: its partition goes fastest, unless partitions are outermost.
  Steps steps(int readout) const;

  /// Cartesian: lines -R/2.. of the matrix, the last S samples of matrix * oversampling (fewer: a partial echo); of a
  /// volume, at kz = (p - floor(P/2)) / P of every plane p of P.
  /// radial: diameters at angles pi r / R; golden_radial: every 111.246117975 degrees, continued through all frames.
  /// spiral: R interleaves of 1.25 matrix / (2 R) turns, radius 0.5 t^(2/3); the weights of all sum to pi/4.
  /// kooshball: spokes from the centre, ends spread over the sphere by the golden angle.
  /// stack_of_stars, stack_of_spirals: golden_radial or spiral in the plane, each at kz = (p - floor(P/2)) / P of every
  /// partition p of P.
  ReadoutPath readout(int readout, int frame) const;
  /// Returns where the data are sampled when gradients come late: readout()'s positions moved by S times their step, in
  /// the plane, S = [[x, xy], [xy, y]] of `delays`.
  ReadoutPath played(int readout, int frame, const GradientDelays& delays) const;
  /// Returns the share of the cell of size `cell` (cycles/pixel) about k that lies in the disc or ball the scan
  /// samples, or, for Cartesian scans, whether the point itself is sampled. For a stack: the disc's share, at any kz.
  double coverage(const Vec3& k, double cell) const;

 private:
  TrajectoryKind in_plane() const;  ///< the kind of a stack's partitions; the kind itself otherwise
  ReadoutPath shot(int shot, int frame) const;

  TrajectoryKind kind_;
  ScanShape shape_;
};

}  // namespace echotrain::client
