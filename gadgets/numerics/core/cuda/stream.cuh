// A stream that its owner makes and destroys.
#pragma once

#include "gadgets/numerics/core/cuda_support.cuh"

namespace echotrain::numerics::cuda {

/// A stream of the device that is current when it is made; the same must be current when it is destroyed.
class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  ~Stream() {
    cudaStreamDestroy(stream_);
    cudaGetLastError();  // an error of this call must not be blamed on the next launch
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace echotrain::numerics::cuda
