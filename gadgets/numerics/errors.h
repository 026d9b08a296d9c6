// What numerics throws.
#pragma once

#include <stdexcept>

namespace echotrain::numerics {

/// Memory, device or disk is short. One session fails, the others go on.
class ResourceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace echotrain::numerics
