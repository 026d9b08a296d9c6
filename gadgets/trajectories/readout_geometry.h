// A readout's positions in physical units, and the orientation of its slice.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/numerics/mri/trajectory/spokes.h"
#include "gadgets/shared/measurement.h"
#include "protocol/data/header.h"

namespace echotrain {

/// The meaning of an encoding's trajectory.
struct TrajectorySpace {
  bool corrected = false;               ///< not Cartesian
  int dims = 2;                         ///< components that are positions; others (density weights) are unchanged
  std::array<double, 3> to_physical{};  ///< factors from the pipeline's unit to cycles/mm
};
TrajectorySpace trajectory_space(const protocol::Encoding& encoding, config::TrajectoryUnit unit);

/// read_dir, phase_dir, slice_dir; no value when they are not orthonormal to 1 %.
std::optional<std::array<std::array<double, 3>, 3>> slice_axes(const protocol::AcquisitionHeader& head);

/// The encoding and the orientation (directions in steps of 1/1000): readouts that agree in it share delays.
using Orientation = std::array<std::int32_t, 10>;
Orientation orientation_of(const protocol::AcquisitionHeader& head, std::uint16_t encoding);

/// Positions [sample, dims] of readout i in cycles/mm.
std::vector<double> physical_positions(const Readouts& readouts, std::size_t i, const TrajectorySpace& space);
/// Writes the positions back.
void set_positions(Readouts& readouts, std::size_t i, const TrajectorySpace& space,
                   const std::vector<double>& positions);

/// A straight, evenly sampled readout through the centre of its plane.
struct Spoke {
  numerics::Plane direction{};
  double first = 0;                 ///< position of sample `begin` along it [steps]
  double step = 0;                  ///< [cycles/mm]
  double z = 0;                     ///< [cycles/mm]; 0 in 2D
  std::int64_t begin = 0, end = 0;  ///< samples that are not discarded
};
/// The spoke of readout i; no value when it is bent, uneven, beside k = 0 by a step or more, or with fewer than 16
/// samples or fewer than 6 on either side of k = 0.
std::optional<Spoke> spoke_of(const Readouts& readouts, std::size_t i, const TrajectorySpace& space);

}  // namespace echotrain
