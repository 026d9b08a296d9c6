// The GPUs' memory, used and free, for monitoring.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace echotrain::numerics {

/// One GPU's memory [bytes].
struct DeviceMemory {
  int device = 0;
  std::string pci;  ///< its PCI address: "0000:3b:00.0"; empty if the driver does not tell
  std::uint64_t total = 0;
  std::uint64_t used = 0;           ///< by all programs
  std::uint64_t pool_reserved = 0;  ///< reserved by this process for its arrays
  std::uint64_t pool_used = 0;      ///< the part of it that living arrays use
};

/// Reports the GPUs on which this process has made a Context; asking another GPU would take memory there. Leaves out a
/// device that does not answer. Thread-safe.
std::vector<DeviceMemory> device_memory();

}  // namespace echotrain::numerics
