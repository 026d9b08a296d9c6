// A layout is what a sequence's k-space means for a scan: the trajectory's kind, matrix and field of view, centres, and
// which of the sequence's axes the header calls x, y and z.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "protocol/data/header.h"
#include "protocol/pulseq/kspace.h"

namespace echotrain::protocol::pulseq {

struct Layout {
  Trajectory trajectory = Trajectory::cartesian;
  std::array<std::size_t, 3> axes{0, 1, 2};  ///< of the sequence: along the readout, along lines, along partitions
  std::array<long, 3> encoded{1, 1, 1}, recon{1, 1, 1};
  std::array<double, 3> encoded_mm{1, 1, 1}, recon_mm{1, 1, 1};
  std::array<long, 2> center{};    ///< line and partition of k = 0
  std::size_t dimensions = 0;      ///< of the trajectory that goes with readouts; 0: lines are told by their counters
  bool partitions = false;         ///< the third axis is encoded by partitions
  std::array<bool, 2> by_place{};  ///< line and partition follow from k, as no label counts them
  /// k = +n/2 in a matrix of n, and none at -n/2, which voxels cannot tell from it: it is line 0.
  std::array<bool, 2> wraps{};
  bool reversed_by_place = false;  ///< so does the direction of readouts
  /// The sample of each readout that is nearest to k = 0; the later one where two are.
  std::vector<std::uint16_t> centers;

  /// Returns the place in cycles/pixel, in the order of `axes`.
  Place in_pixels(const Place& place) const;
  /// Returns the line (0) or partition (1) of a place.
  long count_of(const Place& place, std::size_t which) const;
};

/// Trajectories by their shape: lines along one axis are Cartesian, and EPI where they turn round between one
/// excitation and the next; other straight lines are radial; all else is a spiral in a plane, "other" in a volume.
/// The field of view is the definition FOV [m] (else `fov_mm`); the matrix is the definition Matrix or MatrixSize, else
/// what k-space reaches, even. Lines and partitions that no label counts are counted by their place. Throws
/// DatasetError where there is no field of view.
Layout layout_of(const KSpace& kspace, const std::optional<std::array<double, 3>>& fov_mm);

/// Returns the header with the layout's encoding in the place of the first one; `xml` may be empty. Where
/// the sequence was played several times (`plays`), repetitions go on from play to play.
std::string header_with(const std::string& xml, const KSpace& kspace, const Layout& layout, std::size_t plays = 1);

}  // namespace echotrain::protocol::pulseq
