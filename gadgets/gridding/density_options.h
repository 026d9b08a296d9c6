// Options of the gadget `density_compensation`.
#pragma once

#include <cstdint>
#include <string>

namespace echotrain {

/// DensityCompensation::parameters() says what they mean.
struct DensityOptions {
  std::string method = "ramp";
  std::string share = "gaps";
  std::string normalize = "none";
  std::int64_t iterations = 10;
};

}  // namespace echotrain
