// Options of the gadget `density_compensation`.
#pragma once

#include <cstdint>
#include <string>

namespace echotrain {

/// The options; DensityCompensation::parameters() explains them.
struct DensityOptions {
  std::string method = "ramp";
  std::string share = "gaps";
  std::string normalize = "none";
  std::int64_t iterations = 10;
};

}  // namespace echotrain
