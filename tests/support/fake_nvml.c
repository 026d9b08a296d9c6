/* A library in the place of NVIDIA's NVML, for the test of server/metrics/gpu_use.h. The GPU at "0000:01:00.0" is 10 %
 * busier at each question, from 10 % on; that at "0000:02:00.0" does not tell; there are no others. */
#include <string.h>

struct rates {
  unsigned gpu, memory;
};

static int ready = 0;
static unsigned busy = 0;

int nvmlInit_v2(void) {
  ready = 1;
  return 0;
}

int nvmlShutdown(void) {
  ready = 0;
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** device) {
  if (!ready) return 1;
  if (strcmp(pci, "0000:01:00.0") == 0)
    *device = &busy;
  else if (strcmp(pci, "0000:02:00.0") == 0)
    *device = &ready;
  else
    return 6;
  return 0;
}

int nvmlDeviceGetUtilizationRates(void* device, struct rates* out) {
  if (device != &busy) return 3;
  busy += 10;
  out->gpu = busy;
  out->memory = 99;
  return 0;
}
