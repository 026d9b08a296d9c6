// A Context is the place where work runs: a device, its stream, its memory and the CPU threads. It is the first
// argument of every operation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/numerics_errors.h"
#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::numerics {

class MemoryAccount;
class Resources;

enum class Backend { cpu, cuda };
const char* to_string(Backend backend);

/// True if `backend` can run here; if not, `reason` (when given) says why in one sentence: not built in, no driver, no
/// device, device too old. Tried once per process.
bool available(Backend backend, std::string* reason = nullptr);
/// The number of CUDA devices that this process may use; ContextOptions::device is less than this. 0 when CUDA is not
/// available().
int device_count();
/// "NVIDIA H200 (CUDA 13.0)" or "CPU, 2 threads (AVX-512)".
std::string describe(Backend backend, Resources& resources);

struct ContextOptions {
  int device = 0;
  std::uint64_t memory_budget = 8ull << 30;  ///< bytes of arrays alive at once (device and host together)
  std::stop_token stop_token = {};           ///< tells the scan to stop; never, by default
  std::shared_ptr<HelperTime> group = {};    ///< the group of scans that count as one when the CPU's threads help;
                                             ///< null: none
  /// The account that pays for the host memory of arrays; by default one of the resources' budget without a
  /// reservation.
  std::shared_ptr<MemoryAccount> account = {};
};

/// One end of a copy, source or target, and the kind of its memory.
struct Source {
  const void* memory;
  MemoryKind kind;
};
struct Target {
  void* memory;
  MemoryKind kind;
};

/// One session's device, stream and memory. Not thread-safe except where a member says so. Operations on CUDA are
/// asynchronous: they are ordered on the context's stream and synchronize() waits for them; on the CPU they are done
/// when they return.
class Context {
  struct State;

 public:
  /// Throws ResourceError with the reason when the backend is not available. `resources` must not be null.
  Context(Backend backend, std::shared_ptr<Resources> resources, const ContextOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Backend backend() const { return backend_; }
  bool cuda() const { return backend_ == Backend::cuda; }
  int device() const { return options_.device; }
  void* stream() const;  ///< cudaStream_t; nullptr on the CPU
  /// The CPU threads, which all scans share; work on them stops when this scan is to stop.
  ThreadPool& threads() { return threads_; }
  /// The caches, pools and threads that all scans share.
  Resources& resources() const { return *resources_; }
  const std::shared_ptr<Resources>& shared_resources() const { return resources_; }
  /// The token that tells the scan to stop. Every operation checks it before it begins, and work on threads() before
  /// each piece; work that takes longer than some 100 ms checks it in between.
  const std::stop_token& stop_token() const { return options_.stop_token; }
  const std::shared_ptr<HelperTime>& group() const { return options_.group; }
  /// Throws Stopped when the scan is to stop.
  void check_stop() const { threads_.check_stop(); }

  /// Allocates uninitialised memory where this context computes. Throws ResourceError when the budget or the device is
  /// exhausted; the message says how much was asked for and how much is left. Arrays may outlive the context.
  template <class T>
  Array<T> allocate(Shape shape) {
    return Array<T>(raw(bytes_of<T>(shape)), shape);
  }
  template <class T>
  Array<T> zeros(Shape shape) {
    Array<T> array = allocate<T>(shape);
    fill_zero(array.data(), static_cast<std::size_t>(array.size()) * sizeof(T));
    return array;
  }
  /// Sets every element to zero, in stream order.
  template <class T>
  void clear(DeviceView<T> array) {
    fill_zero(array.data(), static_cast<std::size_t>(array.size()) * sizeof(T));
  }
  /// Allocates uninitialised host memory, pinned on CUDA. Fill it before the copies that read it are enqueued.
  template <class T>
  HostArray<T> allocate_host(Shape shape) {
    return HostArray<T>(raw_host(bytes_of<T>(shape)), shape, cuda() ? MemoryKind::pinned : MemoryKind::pageable);
  }
  /// Copies between any two places (host, device), in stream order. Sizes must be equal. Host memory that does not come
  /// from allocate_host() has been read when this returns.
  template <class T>
  void copy(View<const std::type_identity_t<T>> from, View<T> to) {
    if (from.size() != to.size())
      throw std::invalid_argument("copy " + from.shape().text() + " to " + to.shape().text());
    const auto bytes = static_cast<std::size_t>(from.size()) * sizeof(T);
    copy_bytes({from.data(), from.memory_kind()}, {to.data(), to.memory_kind()}, bytes);
  }
  /// Copies host elements to where this context computes.
  template <class T>
  Array<T> upload(HostView<const T> from) {
    Array<T> array = allocate<T>(from.shape());
    copy<T>(from, array.view());
    return array;
  }
  /// Moves a host array to where this context computes: on the CPU the same array, on CUDA an asynchronous copy.
  template <class T>
  Array<T> place(const HostArray<T>& host) {
    return cuda() ? upload<T>(host.view()) : Array<T>(host.memory(), host.shape());
  }
  /// Moves an array to the host: on the CPU the same array, on CUDA an asynchronous copy.
  template <class T>
  HostArray<T> place_on_host(const Array<T>& array) {
    if (!cuda()) return HostArray<T>(array.memory(), array.shape(), MemoryKind::pageable);
    HostArray<T> host = allocate_host<T>(array.shape());
    copy<T>(array.view(), host.view());
    return host;
  }
  /// Copies to the host and waits for the copy (synchronises; for tests and tools).
  template <class T>
  HostArray<T> download(DeviceView<const T> from) {
    HostArray<T> array = allocate_host<T>(from.shape());
    copy<T>(from, array.view());
    synchronize();
    return array;
  }

  /// Waits for all work enqueued so far. Throws ResourceError when the device reports an error.
  void synchronize();
  /// Calls `done` once all work enqueued so far has finished, on some thread (on the CPU: on this one, at once). `done`
  /// must be short, must not throw and must not call CUDA or this context.
  void on_complete(std::function<void()> done);
  /// Throws ResourceError when the device has reported an error (CUDA: sticky or of the last launch). Does not wait.
  void check();

  /// While one exists, device memory that arrays release is kept for arrays of the same size, so that repeated work
  /// asks the device for no memory and can be recorded as a CUDA graph. Kept memory counts only while an array uses it.
  class KeepMemory {
   public:
    explicit KeepMemory(Context& context);
    ~KeepMemory();
    KeepMemory(const KeepMemory&) = delete;
    KeepMemory& operator=(const KeepMemory&) = delete;

   private:
    std::shared_ptr<State> state_;
  };

  /// Must exist while the context's stream is recorded as a CUDA graph.
  class Recording {
   public:
    explicit Recording(Context& context);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    std::shared_ptr<State> state_;
  };

  /// The account that pays for the host memory of this context's arrays.
  const std::shared_ptr<MemoryAccount>& account() const;
  /// From now on, another account pays for this context's arrays, also for those that exist. Throws OverBudget when
  /// they do not fit there; then nothing changes. No other thread may use them meanwhile.
  void hand_over(std::shared_ptr<MemoryAccount> account);
  std::uint64_t bytes_in_use() const;
  std::uint64_t peak_bytes() const;
  /// The number of bytes copied from device to host so far (0 on the CPU).
  std::uint64_t device_to_host_bytes() const;

  /// A store of reusable plans (cuFFT, FFTW), one per context, keyed by their owner's type; a plan is made on first
  /// use. Thread-confined.
  template <class P>
  P& cache() {
    static const char key = 0;
    std::shared_ptr<void>& slot = cache_slot(&key);
    if (!slot) slot = std::make_shared<P>();
    return *static_cast<P*>(slot.get());
  }

 private:
  template <class T>
  static std::size_t bytes_of(const Shape& shape) {
    // Every caller checked the extents against limits far below this, so no product that wraps gets here.
    std::size_t n = sizeof(T);
    for (auto e : shape)
      if (__builtin_mul_overflow(n, static_cast<std::size_t>(e), &n))
        throw ResourceError("array of shape " + shape.text() + " is too large");
    return n;
  }
  std::shared_ptr<void> raw(std::size_t bytes);
  std::shared_ptr<void> raw_host(std::size_t bytes);
  void fill_zero(void* data, std::size_t bytes);
  void copy_bytes(Source from, Target to, std::size_t bytes);
  template <class Do>
  void in_pieces(std::size_t bytes, bool by_cpu, const Do& run) const;
  std::shared_ptr<void>& cache_slot(const void* key);

  Backend backend_;
  const std::shared_ptr<Resources> resources_;
  ContextOptions options_;
  ThreadPool threads_;
  std::shared_ptr<State> state_;
};

}  // namespace echotrain::numerics
