#include "gadgets/numerics/device_memory.h"

#include "gadgets/numerics/device.h"
#include "gadgets/numerics/dispatch.h"

namespace echotrain::numerics {

std::vector<DeviceMemory> device_memory() {
#if ECHOTRAIN_HAS_CUDA
  return cuda::device_memory();
#else
  return {};
#endif
}

}  // namespace echotrain::numerics
