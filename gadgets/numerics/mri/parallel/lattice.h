// The lattice of acquired rows of an accelerated Cartesian scan, and the rows that predict a missing one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/extents.h"

namespace echotrain::numerics {

/// A step in rows: y, z.
using RowStep = std::array<std::int64_t, 2>;

/// Rows of k-space at regular steps: y = y0 + (j * shift) mod step_y + i * step_y in the planes z = z0 + j * step_z. A
/// shift is CAIPIRINHA's (Breuer et al., MRM 55, 2006).
struct Lattice {
  std::int64_t step_y = 1, step_z = 1;
  std::int64_t shift = 0;
  std::int64_t y0 = 0, z0 = 0;

  std::int64_t size() const { return step_y * step_z; }  ///< R: one row of so many is on the lattice
  /// The class of a row, 1 .. size() - 1, or 0 on the lattice. The lattice looks the same from all rows of one class.
  std::int64_t class_of(std::int64_t y, std::int64_t z) const;
  bool contains(std::int64_t y, std::int64_t z) const { return class_of(y, z) == 0; }
  /// The step from a lattice row to a row of a class.
  RowStep class_step(std::int64_t of) const { return {of % step_y, of / step_y}; }
};

/// The rows that predict a row of class `of`, as steps target - source, ascending in z and y: the `kernel_y` nearest
/// rows of each of the `kernel_z` nearest planes of the lattice. On an axis where the target is on the lattice, an even
/// number is reduced by one, so that as many lie on either side. On an axis with a step of 1 there is only the target's
/// own place.
std::vector<RowStep> kernel_sources(const Lattice& lattice, std::int64_t of, std::int64_t kernel_y,
                                    std::int64_t kernel_z);

/// The rows that predict others, all counted from one lattice row, and the extent of the kernel along x, whose target
/// is at kernel_x / 2.
struct KernelRows {
  std::vector<RowStep> sources;  ///< ascending in z, then y
  std::vector<RowStep> targets;
  std::int64_t kernel_x = 1;

  std::int64_t elements() const { return static_cast<std::int64_t>(sources.size()) * kernel_x; }  ///< elements per coil
  /// The least and the greatest of all rows on each axis.
  std::array<RowStep, 2> span() const;
};

/// The places of kernels in a block without gaps: their lattice row at [first, last] of y and z, and their first sample
/// along x at 0 .. width - 1.
struct KernelPlaces {
  RowStep first, last;
  std::int64_t width = 0;

  std::int64_t along(std::size_t axis) const { return std::max<std::int64_t>(0, last[axis] - first[axis] + 1); }
  std::int64_t count() const { return along(0) * along(1) * width; }
  bool contains(std::int64_t y, std::int64_t z) const {
    return y >= first[0] && y <= last[0] && z >= first[1] && z <= last[1];
  }
};
KernelPlaces places_of(const Extents& block, const KernelRows& rows);

/// The kind of each row of a frame.
struct RowPlan {
  enum Kind : std::uint8_t { missing = 0, on_lattice = 1, put_back = 2 };
  std::int64_t ny = 0, nz = 0;
  std::vector<std::uint8_t> kind;  ///< [z, y]; put_back: acquired, and not on the lattice

  std::uint8_t at(std::int64_t y, std::int64_t z) const {
    return y < 0 || z < 0 || y >= ny || z >= nz ? std::uint8_t{missing} : kind[static_cast<std::size_t>(z * ny + y)];
  }
};

/// Makes the plan from the acquired rows: [z, y], not 0 where a row was acquired. Throws std::invalid_argument for
/// another size.
RowPlan plan_rows(const Lattice& lattice, std::int64_t ny, std::int64_t nz, const std::vector<std::uint8_t>& came);

}  // namespace echotrain::numerics
