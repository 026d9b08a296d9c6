#include "gadgets/numerics/core/cuda/in_flight_owners.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::numerics::cuda {

void InFlightOwners::add(Context& context, Owners owners) {
  const cudaStream_t stream = stream_of(context);
  if (!events_) events_ = context.resources().share<EventPool>();
  while (!kept_.empty() && cudaEventQuery(kept_.front().done) == cudaSuccess) drop_first();
  cudaGetLastError();  // clears "not ready", which the next launch would take for its error
  Kept& kept = kept_.emplace_back();
  kept.owners = std::move(owners);
  cudaGetDevice(&kept.device);
  kept.done = events_->take();
  if (kept.done != nullptr && cudaEventRecord(kept.done, stream) == cudaSuccess) return;
  cudaGetLastError();
  const cudaError_t status = cudaStreamSynchronize(stream);
  drop_all();
  check(status, "waiting for the device");
}

void InFlightOwners::drop_all() noexcept {
  while (!kept_.empty()) drop_first();
}

void InFlightOwners::drop_first() noexcept {
  const Kept& first = kept_.front();
  if (first.done != nullptr) events_->give_back(first.done, first.device);
  kept_.pop_front();
}

}  // namespace echotrain::numerics::cuda
