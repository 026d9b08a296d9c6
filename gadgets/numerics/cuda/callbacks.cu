#include <utility>

#include "gadgets/numerics/cuda/callbacks.cuh"

namespace echotrain::numerics::cuda {
namespace {

thread_local bool in_stream_callback = false;

}  // namespace

void Callbacks::add(cudaStream_t work, std::function<void()> done) {
  check(cudaEventRecord(reached_.get(), work), "recording an event");
  check(cudaStreamWaitEvent(stream_.get(), reached_.get()), "waiting for an event");
  auto* callback = new std::function<void()>(std::move(done));
  const cudaError_t status = cudaLaunchHostFunc(
      stream_.get(),
      [](void* data) {
        auto* function = static_cast<std::function<void()>*>(data);
        in_stream_callback = true;
        (*function)();
        delete function;  // may release arrays
        in_stream_callback = false;
      },
      callback);
  if (status != cudaSuccess) {
    delete callback;
    check(status, "scheduling a callback");
  }
}

bool Callbacks::in_one() { return in_stream_callback; }

}  // namespace echotrain::numerics::cuda
