// A suggestion is the shipped pipeline to try first with a scan, as docs/which-pipeline.md chooses.
#pragma once

#include <cstddef>
#include <string>

#include "protocol/data/header.h"

namespace echotrain::client {

/// The facts about imaging readouts that a header does not have.
struct ImagingFacts {
  std::size_t readouts = 0;
  std::size_t trajectory_dimensions = 0;
  bool weighted = false;  ///< the trajectory's last component is positive throughout: a density weight
  std::size_t channels = 0;
};

/// Returns a pipeline's name; empty where none is likely.
std::string suggested_pipeline(const protocol::Header& header, const ImagingFacts& imaging);

}  // namespace echotrain::client
