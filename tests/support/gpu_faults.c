// Makes a GPU fail on purpose; for LD_PRELOAD.
//   ECHOTRAIN_GPU_FAULT=FILE   when FILE appears, a kernel of this process writes to address 0, after which CUDA
//   refuses
//                              every call of the process
//   ECHOTRAIN_GPU_FILL=MIB     takes all memory of the GPU but so many mebibytes, and holds it until the process ends;
//                              FILE is made when that is done
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char kFaultyKernel[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry fault() {\n.reg .u64 %address;\nmov.u64 %address, 0;\nst.global.u64 [%address], "
    "%address;\nret;\n}\n";

static void* driver(const char* name) {
  static void* library;
  if (library == NULL) library = dlopen("libcuda.so.1", RTLD_NOW);
  void* function = library == NULL ? NULL : dlsym(library, name);
  if (function == NULL) {
    fprintf(stderr, "gpu_faults: no %s\n", name);
    _exit(97);
  }
  return function;
}
#define CALL(name, types, ...)                                                   \
  do {                                                                           \
    const int status = ((int(*) types)driver(name))(__VA_ARGS__);                \
    if (status != 0) fprintf(stderr, "gpu_faults: %s gives %d\n", name, status); \
  } while (0)

// The context that the CUDA runtime uses.
static void enter_context(void) {
  int device = 0;
  void* context = NULL;
  CALL("cuInit", (unsigned), 0);
  CALL("cuDeviceGet", (int*, int), &device, 0);
  CALL("cuDevicePrimaryCtxRetain", (void**, int), &context, device);
  CALL("cuCtxSetCurrent", (void*), context);
}

static void fault(void) {
  void *module = NULL, *function = NULL;
  enter_context();
  CALL("cuModuleLoadData", (void**, const void*), &module, kFaultyKernel);
  CALL("cuModuleGetFunction", (void**, void*, const char*), &function, module, "fault");
  CALL("cuLaunchKernel",
       (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**), function,
       1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void fill(size_t leave) {
  size_t free_bytes = 0, total = 0;
  enter_context();
  for (size_t part = (size_t)8 << 30; part >= (size_t)1 << 20;) {
    uint64_t memory = 0;
    CALL("cuMemGetInfo_v2", (size_t*, size_t*), &free_bytes, &total);
    if (free_bytes < leave + part || ((int (*)(uint64_t*, size_t))driver("cuMemAlloc_v2"))(&memory, part) != 0)
      part /= 2;
  }
  fprintf(stderr, "gpu_faults: %zu MiB of %zu left\n", free_bytes >> 20, total >> 20);
}

static void* wait_and_fault(void* file) {
  while (access(file, F_OK) != 0) usleep(2000);
  fault();
  return NULL;
}

__attribute__((constructor)) static void begin(void) {
  char* file = getenv("ECHOTRAIN_GPU_FAULT");
  const char* leave = getenv("ECHOTRAIN_GPU_FILL");
  pthread_t thread;
  if (leave != NULL) {
    fill((size_t)atol(leave) << 20);
    if (file != NULL) fclose(fopen(file, "w"));
  } else if (file != NULL) {
    pthread_create(&thread, NULL, wait_and_fault, file);
  }
}
