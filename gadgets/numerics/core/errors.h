// What numerics throws.
#pragma once

#include <exception>
#include <stdexcept>

namespace echotrain::numerics {

/// Memory, device or disk is short. One session fails, the others go on.
class ResourceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The device has an error that stays until the process ends (CUDA calls it sticky): no session can use it any more.
class DeviceLost : public ResourceError {
 public:
  using ResourceError::ResourceError;
};

/// The scan's stop token was set: whoever asked for the work no longer wants it. This is not an error: catch it before
/// std::exception.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

}  // namespace echotrain::numerics
