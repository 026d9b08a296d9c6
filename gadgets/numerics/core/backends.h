// Macros that write the common parts of both backends once: declarations of operations, and functions for the host's
// and the device's compiler.
#pragma once

// Declares functions that every backend defines, in namespaces cpu and cuda. Functions that only one backend has are
// declared separately.
#define ECHOTRAIN_BACKENDS(...) \
  namespace cpu {               \
  __VA_ARGS__                   \
  }                             \
  namespace cuda {              \
  __VA_ARGS__                   \
  }

#ifdef __CUDACC__
#define ECHOTRAIN_HOST_DEVICE __host__ __device__
#else
#define ECHOTRAIN_HOST_DEVICE
#endif
