// The k-space of an encoding, and the test for samples outside of it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gadgets/api/gadget.h"

namespace echotrain {

constexpr double kLargestComponent = 0.5005;  // cycles/pixel; a hair beyond the edge is rounding in the sender

struct SampleSpace {
  int dims = 2;
  std::array<double, 3> to_cycles_per_pixel{1, 1, 1};
  std::array<double, 3> matrix{};
  std::array<double, 3> pixel_m{};
  std::array<double, 3> voxel_ratio{1, 1, 1};  // image voxel / encoded voxel
};
/// Makes the space. planes: the samples are those of a stack's planes.
SampleSpace sample_space(const protocol::Encoding& encoding, const Scan& scan, bool planes);

/// Finds the samples that no image voxel can hold. coordinates: [sample, dims], cycles/pixel. Adds the number of
/// samples beyond k-space's edge to `dropped`; raises `largest` to the largest component, in the data's unit.
std::vector<bool> outside(const std::vector<double>& coordinates, const SampleSpace& space, std::int64_t& dropped,
                          double& largest);

}  // namespace echotrain
