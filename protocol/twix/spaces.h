// The spaces of a measurement: matrix, field of view and centre of its encoding, from protocol and readouts.
#pragma once

#include <array>
#include <string>

#include "protocol/twix/parameters.h"
#include "protocol/twix/survey.h"

namespace echotrain::protocol::twix {

struct Spaces {
  std::array<long, 3> encoded{1, 1, 1}, recon{1, 1, 1};  ///< voxels
  std::array<double, 3> encoded_mm{}, recon_mm{};
  std::array<long, 3> center{};  ///< line and partition of k = 0 (elements 1 and 2)
  std::string trajectory;        ///< as in the header
  std::string note;              ///< where readouts have another matrix than the protocol; empty for nothing
};

/// x: the base resolution times the oversampling, and wide enough for the samples on both sides of the centre; of EPI
/// sampled on ramps, as much of it as the samples between the ramps encode. y and z:
/// the lengths of the scanner's transforms, and enough for the counters around the centre of the scan heads (the
/// matrix' middle where they have none, as in Pulseq's sequences). Throws DatasetError without a field of view or base
/// resolution.
Spaces spaces(const Parameters& parameters, const Survey& survey);

}  // namespace echotrain::protocol::twix
