#include "gadgets/numerics/core/device_memory.h"

#include "gadgets/numerics/core/device.h"
#include "gadgets/numerics/core/dispatch.h"

namespace echotrain::numerics {

std::vector<DeviceMemory> device_memory() {
#if ECHOTRAIN_HAS_CUDA
  return cuda::device_memory();
#else
  return {};
#endif
}

}  // namespace echotrain::numerics
