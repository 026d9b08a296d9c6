#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/device.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::size_t kStagingBytes = 16u << 20;     // that a copy from pageable memory stages at a time
constexpr std::size_t kMostKeptPinned = 1ull << 30;  // pinned memory kept for reuse by all contexts
constexpr std::size_t kMostKeptDevice = 96u << 20;   // device memory kept for reuse by a context
constexpr std::size_t kMostSpareEvents = 64;         // of a device

/// True while this thread runs a callback of a stream, where no CUDA call is allowed.
thread_local bool in_stream_callback = false;

/// Events kept for reuse, as making one takes longer than recording it. They belong to the current device.
class SpareEvents {
 public:
  SpareEvents() = default;
  ~SpareEvents() {
    for (auto& [device, events] : spare_)
      for (cudaEvent_t event : events) cudaEventDestroy(event);
    cudaGetLastError();
  }
  SpareEvents(const SpareEvents&) = delete;
  SpareEvents& operator=(const SpareEvents&) = delete;
  /// nullptr where none can be made.
  cudaEvent_t take() noexcept {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return nullptr;
    {
      std::lock_guard lock(mutex_);
      const auto spare = spare_.find(device);
      if (spare != spare_.end() && !spare->second.empty()) {
        cudaEvent_t event = spare->second.back();
        spare->second.pop_back();
        return event;
      }
    }
    cudaEvent_t event = nullptr;
    return cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess ? event : nullptr;
  }
  /// `device`: the one that the event was taken for.
  void give_back(cudaEvent_t event, int device) noexcept {
    {
      std::lock_guard lock(mutex_);
      try {
        std::vector<cudaEvent_t>& spare = spare_[device];
        if (spare.size() < kMostSpareEvents) {
          spare.push_back(event);
          return;
        }
      } catch (const std::bad_alloc&) {
        // Not kept, then.
      }
    }
    cudaEventDestroy(event);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<cudaEvent_t>> spare_;
};

/// Pinned host memory of all contexts. Pinning is slow and stops the device, so blocks are kept, each with an event
/// that says when the last work which may use it is done.
class PinnedMemory {
 public:
  explicit PinnedMemory(Resources& resources) : events_(resources.share<SpareEvents>()) {}
  /// No device is left here, so all work that used the blocks is done.
  ~PinnedMemory() {
    for (auto& [size, blocks] : kept_)
      for (const Block& block : blocks) free_now(block);
    cudaGetLastError();
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  void* allocate(std::size_t bytes) {
    const std::size_t size = block_size(bytes);
    {
      std::lock_guard lock(mutex_);
      auto& blocks = kept_[size];
      for (auto block = blocks.begin(); block != blocks.end(); ++block) {
        if (!finished(block->done)) continue;
        void* memory = block->memory;
        events_->give_back(block->done, block->device);
        blocks.erase(block);
        kept_bytes_ -= size;
        return memory;
      }
    }
    void* memory = nullptr;
    cudaError_t status = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
    if (status != cudaSuccess) {
      cudaGetLastError();
      drop_finished();
      status = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
    }
    if (status != cudaSuccess) {
      cudaGetLastError();
      if (is_sticky(status)) check(status, "pinning memory");
      throw ResourceError("the machine has no " + bytes_text(bytes) +
                          " of pinned memory left: " + cudaGetErrorString(status));
    }
    return memory;
  }

  /// Keeps the block until the work now on `stream` is done. The stream's device must be current.
  void release(void* memory, std::size_t bytes, cudaStream_t stream) noexcept {
    const std::size_t size = block_size(bytes);
    int device = 0;
    cudaGetDevice(&device);
    if (cudaEvent_t done = events_->take(); done != nullptr) {
      if (cudaEventRecord(done, stream) == cudaSuccess) {
        std::lock_guard lock(mutex_);
        if (kept_bytes_ + size <= kMostKeptPinned) {
          try {
            kept_[size].push_back({memory, done, device});
            kept_bytes_ += size;
            return;
          } catch (const std::bad_alloc&) {
            // Not kept, then.
          }
        }
      }
      cudaEventDestroy(done);
    }
    cudaStreamSynchronize(stream);
    cudaFreeHost(memory);
    cudaGetLastError();
  }

 private:
  struct Block {
    void* memory;
    cudaEvent_t done;
    int device;  // that `done` belongs to
  };

  static bool finished(cudaEvent_t done) noexcept {
    if (cudaEventQuery(done) == cudaSuccess) return true;
    cudaGetLastError();  // clears "not ready", which the next launch would take for its error
    return false;
  }

  static void free_now(const Block& block) noexcept {
    cudaEventDestroy(block.done);
    cudaFreeHost(block.memory);
  }

  void drop_finished() noexcept {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : kept_)
      for (auto block = blocks.begin(); block != blocks.end();) {
        if (!finished(block->done)) {
          ++block;
          continue;
        }
        free_now(*block);
        kept_bytes_ -= size;
        block = blocks.erase(block);
      }
    cudaGetLastError();
  }

  const std::shared_ptr<SpareEvents> events_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<Block>> kept_;
  std::size_t kept_bytes_ = 0;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<PinnedMemory> pinned, const ContextOptions& options)
      : Device(options.memory_budget), device_(options.device), pinned_(std::move(pinned)) {
    check(cudaSetDevice(device_), "choosing the device");
    check(cudaDeviceGetDefaultMemPool(&pool_, device_), "finding the memory pool");
    std::uint64_t keep_all = UINT64_MAX;
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all), "setting up the memory pool");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    check(cudaStreamCreateWithFlags(&callbacks_, cudaStreamNonBlocking), "making a stream");
    check(cudaEventCreateWithFlags(&reached_, cudaEventDisableTiming), "making an event");
    note_use(device_);
  }

  ~CudaDevice() override {
    cudaSetDevice(device_);
    release_deferred();
    free_kept();
    cudaStreamSynchronize(stream_);
    cudaStreamSynchronize(callbacks_);
    cudaEventDestroy(reached_);
    cudaStreamDestroy(callbacks_);
    cudaStreamDestroy(stream_);
    cudaGetLastError();
  }

  void* allocate(std::size_t bytes) override {
    enter();
    if (void* kept = take_kept(bytes)) return kept;
    void* memory = nullptr;
    cudaError_t status = cudaMallocAsync(&memory, block_size(bytes), stream_);
    if (status != cudaSuccess) {
      // The pool may hold memory that is free but in the wrong pieces, or about to become free.
      cudaGetLastError();
      free_kept();
      check(cudaStreamSynchronize(stream_), "waiting for the device");
      check(cudaMemPoolTrimTo(pool_, 0), "trimming the memory pool");
      status = cudaMallocAsync(&memory, block_size(bytes), stream_);
    }
    if (status != cudaSuccess) {
      cudaGetLastError();
      std::size_t free = 0, total = 0;
      if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
      throw ResourceError("the device cannot give " + bytes_text(bytes) + " (" + bytes_text(free) + " of " +
                          bytes_text(total) + " free): " + cudaGetErrorString(status));
    }
    return memory;
  }

  void* allocate_host(std::size_t bytes) override {
    enter();
    return pinned_->allocate(bytes);
  }

  void release(void* memory, std::size_t bytes) noexcept override { give_back({memory, bytes, false}); }
  void release_host(void* memory, std::size_t bytes) noexcept override { give_back({memory, bytes, true}); }

  void keep_memory(bool on) noexcept override {
    {
      std::lock_guard lock(kept_mutex_);
      keepers_ += on ? 1 : -1;
      if (keepers_ > 0 || kept_bytes_ <= kMostKeptDevice) return;
    }
    free_kept();
  }

  void recording(bool on) noexcept override {
    const std::lock_guard lock(recording_mutex_);
    recording_ = on;
  }

  void fill_zero(void* data, std::size_t bytes) override {
    enter();
    check(cudaMemsetAsync(data, 0, bytes, stream_), "clearing memory");
  }

  void copy(Source from, Target to, std::size_t bytes) override {
    enter();
    if (from.place == Place::pageable && to.place == Place::device) {
      copy_staged(static_cast<const char*>(from.memory), static_cast<char*>(to.memory), bytes);
    } else if (from.place != Place::device && to.place != Place::device) {
      // A copy within host memory waits for the stream, so that it stays in order with its work.
      check(cudaStreamSynchronize(stream_), "waiting for the device");
      std::memmove(to.memory, from.memory, bytes);
    } else {
      check(cudaMemcpyAsync(to.memory, from.memory, bytes, cudaMemcpyDefault, stream_), "copying memory");
      if (to.place != Place::device) device_to_host_ += bytes;
    }
  }

  void synchronize() override {
    enter();
    check(cudaStreamSynchronize(stream_), "waiting for the device");
    check(cudaStreamSynchronize(callbacks_), "waiting for the device");
  }

  /// Callbacks have a stream of their own, so that the device need not wait for the host.
  void on_complete(std::function<void()> done) override {
    enter();
    check(cudaEventRecord(reached_, stream_), "recording an event");
    check(cudaStreamWaitEvent(callbacks_, reached_), "waiting for an event");
    auto* callback = new std::function<void()>(std::move(done));
    const cudaError_t status = cudaLaunchHostFunc(
        callbacks_,
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
      numerics::cuda::check(status, "scheduling a callback");
    }
  }

  void check() override {
    enter();
    numerics::cuda::check(cudaGetLastError(), "earlier work");
  }

  void* stream() const override { return stream_; }

 private:
  struct Block {
    void* memory;
    std::size_t bytes;
    bool host;
  };

  static void check(cudaError_t status, const char* what) { numerics::cuda::check(status, what); }

  void enter() {
    check(cudaSetDevice(device_), "choosing the device");
    release_deferred();
  }

  void copy_staged(const char* from, char* to, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kStagingBytes) {
      const std::size_t n = std::min(kStagingBytes, bytes - at);
      void* staging = pinned_->allocate(n);
      std::memcpy(staging, from + at, n);
      const cudaError_t status = cudaMemcpyAsync(to + at, staging, n, cudaMemcpyHostToDevice, stream_);
      pinned_->release(staging, n, stream_);
      check(status, "copying memory");
      // The next part can then use the same block, so that pinned memory stays small.
      if (at + n < bytes) check(cudaStreamSynchronize(stream_), "waiting for the device");
    }
  }

  /// A kept block of this size, or nullptr. Only work that is on the stream already may still use the block.
  /// ResourceError where there is none and the stream is being recorded.
  void* take_kept(std::size_t bytes) {
    {
      std::lock_guard lock(kept_mutex_);
      // The block given back last is the likeliest to be in the device's cache.
      for (std::size_t i = kept_.size(); i-- > 0;) {
        if (kept_[i].bytes != block_size(bytes)) continue;
        void* memory = kept_[i].memory;
        kept_bytes_ -= kept_[i].bytes;
        kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
        return memory;
      }
      if (keepers_ == 0) return nullptr;
    }
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream_, &status), "asking whether a stream is recorded");
    if (status != cudaStreamCaptureStatusNone) throw ResourceError("work that needs new memory cannot be recorded");
    return nullptr;
  }

  bool keep(const Block& block) noexcept {
    if (block.host) return false;
    const std::size_t size = block_size(block.bytes);
    std::lock_guard lock(kept_mutex_);
    if (keepers_ == 0 && kept_bytes_ + size > kMostKeptDevice) return false;
    try {
      kept_.push_back({block.memory, size, false});
      kept_bytes_ += size;
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void give_back(Block block) noexcept {
    if (keep(block)) return;
    if (in_stream_callback) {
      defer(block);
      return;
    }
    const std::lock_guard lock(recording_mutex_);  // the calls below must not become part of a recording
    if (recording_) {
      defer(block);
      return;
    }
    int before = device_;
    cudaGetDevice(&before);
    cudaSetDevice(device_);
    free_now(block);
    if (before != device_) cudaSetDevice(before);
    cudaGetLastError();
  }

  void defer(const Block& block) noexcept {
    const std::lock_guard lock(deferred_mutex_);
    try {
      deferred_.push_back(block);
    } catch (const std::bad_alloc&) {
      // The block is lost: nothing may be freed here, and there is no memory to remember it.
    }
  }

  void free_now(const Block& block) noexcept {
    if (block.host) {
      pinned_->release(block.memory, block.bytes, stream_);
    } else {
      cudaFreeAsync(block.memory, stream_);
    }
  }

  void free_kept() noexcept {
    std::vector<Block> blocks;
    {
      std::lock_guard lock(kept_mutex_);
      blocks.swap(kept_);
      kept_bytes_ = 0;
    }
    int before = device_;
    cudaGetDevice(&before);
    cudaSetDevice(device_);
    for (const Block& block : blocks) free_now(block);
    if (before != device_) cudaSetDevice(before);
    cudaGetLastError();
  }

  void release_deferred() noexcept {
    if (recording_) return;
    std::vector<Block> blocks;
    {
      std::lock_guard lock(deferred_mutex_);
      blocks.swap(deferred_);
    }
    for (const Block& block : blocks) free_now(block);
  }

  int device_;
  const std::shared_ptr<PinnedMemory> pinned_;
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr, callbacks_ = nullptr;
  cudaEvent_t reached_ = nullptr;  // how far stream_ must be before the next callback
  std::mutex kept_mutex_;
  int keepers_ = 0;
  std::vector<Block> kept_;  // free blocks, for the next array of their size
  std::size_t kept_bytes_ = 0;
  std::mutex recording_mutex_;
  std::atomic<bool> recording_ = false;  // written by the context's own thread only
  std::mutex deferred_mutex_;
  std::vector<Block> deferred_;  // released in a callback or a recording, freed at the next call after it
};

}  // namespace

int device_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "counting devices");
  return count;
}

std::shared_ptr<Device> make_device(Resources& resources, const ContextOptions& options) {
  const int count = device_count();
  if (options.device < 0 || options.device >= count)
    throw ResourceError("no CUDA device " + std::to_string(options.device) + ": this machine has " +
                        std::to_string(count));
  return std::make_shared<CudaDevice>(resources.share<PinnedMemory>(), options);
}

bool probe(std::string& reason) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    cudaGetLastError();
    reason = "no CUDA driver is installed";
    return false;
  }
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    reason = status == cudaSuccess || status == cudaErrorNoDevice
                 ? "there is no CUDA device"
                 : std::string("the CUDA driver reports: ") + cudaGetErrorString(status);
    return false;
  }
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  if (major < 8) {
    cudaGetLastError();
    reason = "the CUDA device is too old: compute capability " + std::to_string(major) + "." + std::to_string(minor) +
             ", needed 8.0";
    return false;
  }
  void* memory = nullptr;
  status = cudaSetDevice(0);
  if (status == cudaSuccess) status = cudaMalloc(&memory, 256);
  if (status == cudaSuccess) status = cudaMemset(memory, 0, 256);
  if (memory != nullptr) cudaFree(memory);
  if (status != cudaSuccess) {
    cudaGetLastError();
    reason = std::string("the CUDA device cannot be used: ") + cudaGetErrorString(status);
    return false;
  }
  return true;
}

std::string describe() {
  cudaDeviceProp properties{};
  int version = 0;
  check(cudaGetDeviceProperties(&properties, 0), "asking for the device's name");
  check(cudaRuntimeGetVersion(&version), "asking for the version");
  return std::string(properties.name) + " (CUDA " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10) + ")";
}

}  // namespace echotrain::numerics::cuda
