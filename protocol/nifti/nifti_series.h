// A NIfTI series has the images of a series as the planes of NIfTI volumes.
#pragma once

#include <cstddef>
#include <vector>

#include "protocol/data/messages.h"
#include "protocol/nifti/nifti_header.h"

namespace echotrain::protocol::nifti {

struct Arrangement {
  /// Numbers of the images: [volume][slice]. Volumes in the order of set, contrast, repetition, phase and average,
  /// slices in the order of their positions along slice_dir.
  std::vector<std::vector<std::size_t>> volumes;
  Shape shape;  ///< of each channel's file; not complex
};

/// Arranges the images of one series in one file. Throws std::runtime_error, which says what of the series stands
/// against it: images of several sizes, fields of view or orientations, several of the same counters, volumes that lack
/// slices, several slabs, slices whose distances differ by more than 1 % or that are shifted against each other, places
/// that are not finite, or more than a file holds. Volumes may be turned by 5 degrees and moved by 20 mm: a scanner
/// follows motion.
Arrangement arrange(const std::vector<ImageHeader>& heads);

}  // namespace echotrain::protocol::nifti
