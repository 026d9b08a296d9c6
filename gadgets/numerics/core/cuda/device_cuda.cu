#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "gadgets/numerics/core/cuda/callbacks.cuh"
#include "gadgets/numerics/core/cuda/completion_poller.h"
#include "gadgets/numerics/core/cuda/deferred_releases.cuh"
#include "gadgets/numerics/core/cuda/device_pool.cuh"
#include "gadgets/numerics/core/cuda/pinned_memory.cuh"
#include "gadgets/numerics/core/cuda/stream.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/device.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::size_t kStagingBytes = 16u << 20;  // bytes that a copy from pageable memory stages at a time

/// A block of pinned memory, for as long as this lives.
class PinnedBlock {
 public:
  PinnedBlock(PinnedMemory& from, cudaStream_t stream, std::size_t bytes)
      : from_(from), stream_(stream), bytes_(bytes), memory_(from.allocate(bytes)) {}
  ~PinnedBlock() { from_.release(memory_, bytes_, stream_); }
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  void* memory() const { return memory_; }

 private:
  PinnedMemory& from_;
  const cudaStream_t stream_;
  const std::size_t bytes_;
  void* const memory_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<PinnedMemory> pinned, std::shared_ptr<CompletionPoller> polled,
             const ContextOptions& options)
      : Device(options.memory_budget),
        device_(made_current(options.device)),
        pinned_(std::move(pinned)),
        raised_(polled ? std::make_unique<PinnedBlock>(*pinned_, stream_.get(), sizeof(std::uint64_t)) : nullptr),
        callbacks_(std::move(polled), raised_ ? static_cast<std::uint64_t*>(raised_->memory()) : nullptr) {
    note_use(device_);
  }

  ~CudaDevice() override {
    cudaSetDevice(device_);
    releases_.free_deferred();
    pool_.free_kept();
    cudaStreamSynchronize(stream_.get());
  }

  void* allocate(std::size_t bytes) override {
    enter();
    return pool_.take(bytes);
  }

  void* allocate_host(std::size_t bytes) override {
    enter();
    return pinned_->allocate(bytes);
  }

  void release(void* memory, std::size_t bytes) noexcept override { releases_.give_back({memory, bytes, false}); }
  void release_host(void* memory, std::size_t bytes) noexcept override { releases_.give_back({memory, bytes, true}); }

  void keep_memory(bool on) noexcept override { pool_.keep_all(on); }
  void recording(bool on) noexcept override { releases_.recording(on); }

  void fill_zero(void* data, std::size_t bytes) override {
    enter();
    check(cudaMemsetAsync(data, 0, bytes, stream_.get()), "clearing memory");
  }

  void copy(Source from, Target to, std::size_t bytes) override {
    enter();
    if (from.kind == MemoryKind::pageable && to.kind == MemoryKind::device) {
      copy_staged(static_cast<const char*>(from.memory), static_cast<char*>(to.memory), bytes);
    } else if (from.kind != MemoryKind::device && to.kind != MemoryKind::device) {
      // A copy within host memory waits for the stream, to stay in order with its work.
      check(cudaStreamSynchronize(stream_.get()), "waiting for the device");
      std::memmove(to.memory, from.memory, bytes);
    } else {
      check(cudaMemcpyAsync(to.memory, from.memory, bytes, cudaMemcpyDefault, stream_.get()), "copying memory");
      if (to.kind != MemoryKind::device) device_to_host_ += bytes;
    }
  }

  void synchronize() override {
    enter();
    check(cudaStreamSynchronize(stream_.get()), "waiting for the device");
    callbacks_.wait();
  }

  void on_complete(std::function<void()> done) override {
    enter();
    callbacks_.add(stream_.get(), std::move(done));
  }

  void check() override {
    enter();
    numerics::cuda::check(cudaGetLastError(), "earlier work");
  }

  void* stream() const override { return stream_.get(); }

 private:
  static void check(cudaError_t status, const char* what) { numerics::cuda::check(status, what); }

  static int made_current(int device) {
    check(cudaSetDevice(device), "choosing the device");
    return device;
  }

  void enter() {
    made_current(device_);
    releases_.free_deferred();
  }

  void copy_staged(const char* from, char* to, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kStagingBytes) {
      const std::size_t n = std::min(kStagingBytes, bytes - at);
      void* staging = pinned_->allocate(n);
      std::memcpy(staging, from + at, n);
      const cudaError_t status = cudaMemcpyAsync(to + at, staging, n, cudaMemcpyHostToDevice, stream_.get());
      pinned_->release(staging, n, stream_.get());
      check(status, "copying memory");
      // The next part can then use the same block, so that little pinned memory is needed.
      if (at + n < bytes) check(cudaStreamSynchronize(stream_.get()), "waiting for the device");
    }
  }

  const int device_;  // first: the members below are made on it
  const std::shared_ptr<PinnedMemory> pinned_;
  Stream stream_;
  DevicePool pool_{device_, stream_.get()};
  DeferredReleases releases_{device_, stream_.get(), pool_, *pinned_};
  const std::unique_ptr<PinnedBlock> raised_;  // raised by work whose end is polled for; null: none is
  Callbacks callbacks_;                        // last: they may release arrays until they have been waited for
};

}  // namespace

std::shared_ptr<Device> make_device(Resources& resources, const ContextOptions& options) {
  const int count = device_count();
  if (options.device < 0 || options.device >= count)
    throw ResourceError("no CUDA device " + std::to_string(options.device) + ": this machine has " +
                        std::to_string(count));
  const auto completions = resources.share<CompletionPoller>();
  return std::make_shared<CudaDevice>(resources.share<PinnedMemory>(), completions->polled() ? completions : nullptr,
                                      options);
}

}  // namespace echotrain::numerics::cuda
