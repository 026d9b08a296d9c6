// How full the GPUs are, for whoever watches them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace echotrain::numerics {

/// One GPU's memory [bytes].
struct DeviceMemory {
  int device = 0;
  std::string pci;  ///< where it is: "0000:3b:00.0"; empty: it does not say
  std::uint64_t total = 0;
  std::uint64_t used = 0;           ///< by all programs
  std::uint64_t pool_reserved = 0;  ///< held by this process for its arrays
  std::uint64_t pool_used = 0;      ///< of that, by arrays that are alive
};

/// The GPUs on which this process has made a Context; asking about another one would take memory there. Leaves out a
/// device that does not answer. Thread-safe.
std::vector<DeviceMemory> device_memory();

}  // namespace echotrain::numerics
