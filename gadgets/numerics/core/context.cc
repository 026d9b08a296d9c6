#include "gadgets/numerics/core/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/device.h"
#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::numerics {
namespace {

struct CudaProbe {
  bool usable = false;
  std::string reason;
};

const CudaProbe& cuda_probe() {
  static const CudaProbe probe = [] {
    CudaProbe result;
#if ECHOTRAIN_HAS_CUDA
    result.usable = cuda::probe(result.reason);
#else
    result.reason = "this program was built without CUDA";
#endif
    return result;
  }();
  return probe;
}

std::shared_ptr<Device> make_device(Backend backend, Resources& resources, const ContextOptions& options) {
#if ECHOTRAIN_HAS_CUDA
  if (backend == Backend::cuda) return cuda::make_device(resources, options);
#else
  static_cast<void>(backend);
#endif
  return cpu::make_device(resources, options);
}

// The vector instructions of loops with ECHOTRAIN_CLONES: a program without clones says SSE on any machine.
std::string cpu_instructions() {
#if ECHOTRAIN_HAS_CLONES
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (v3 && __builtin_cpu_supports("avx512f")) return "AVX-512";
  return v3 ? "AVX2" : "SSE";
#elif defined(__x86_64__)
  return "SSE";
#else
  return "scalar";
#endif
}

}  // namespace

const char* to_string(Backend backend) { return backend == Backend::cuda ? "cuda" : "cpu"; }

bool available(Backend backend, std::string* reason) {
  if (backend == Backend::cpu) return true;
  const CudaProbe& probe = cuda_probe();
  if (reason != nullptr) *reason = probe.reason;
  return probe.usable;
}

int device_count() {
#if ECHOTRAIN_HAS_CUDA
  if (cuda_probe().usable) return cuda::device_count();
#endif
  return 0;
}

int try_device([[maybe_unused]] int device) {
#if ECHOTRAIN_HAS_CUDA
  return cuda::try_device(device);
#else
  constexpr int kNoDevice = 100;
  return kNoDevice;
#endif
}

std::string describe(Backend backend, Resources& resources) {
  const int threads = resources.threads().size();
  if (backend == Backend::cpu)
    return fmt::format("CPU, {} thread{} ({})", threads, threads == 1 ? "" : "s", cpu_instructions());
#if ECHOTRAIN_HAS_CUDA
  if (cuda_probe().usable) return cuda::describe();
#endif
  return "no CUDA: " + cuda_probe().reason;
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 10240) return fmt::format("{} bytes", bytes);
  const double kib = static_cast<double>(bytes) / 1024;
  if (kib < 1024) return fmt::format("{:.1f} KiB", kib);
  if (kib < 1024 * 1024) return fmt::format("{:.1f} MiB", kib / 1024);
  return fmt::format("{:.1f} GiB", kib / (1024 * 1024));
}

std::size_t block_size(std::size_t bytes) {
  constexpr std::size_t kSmallest = 4096;
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t step = std::max<std::size_t>(1, std::bit_floor(bytes) / 8);
  const std::size_t rounded = (bytes + step - 1) / step * step;
  return rounded < bytes ? bytes : rounded;
}

void Device::charge(std::size_t bytes) {
  std::uint64_t used = in_use_.load();
  do {
    if (bytes > budget_ || used > budget_ - bytes)
      throw OverLimit(fmt::format("out of memory: {} asked for, {} left of this session's {}", bytes_text(bytes),
                                  bytes_text(used > budget_ ? 0 : budget_ - used), bytes_text(budget_)));
  } while (!in_use_.compare_exchange_weak(used, used + bytes));
  std::uint64_t peak = peak_.load();
  while (peak < used + bytes && !peak_.compare_exchange_weak(peak, used + bytes)) {
  }
}

struct Context::State {
  std::shared_ptr<Device> device;
  std::map<const void*, std::shared_ptr<void>> cache;
};

Context::Context(Backend backend, std::shared_ptr<Resources> resources, const ContextOptions& options)
    : backend_(backend),
      resources_(std::move(resources)),
      options_(options),
      threads_(resources_->threads(), options.stop_token, options.group) {
  if (Progress* const progress = Progress::of_thread().get(); progress != nullptr && cuda()) progress->note_device();
  std::string reason;
  if (!available(backend, &reason)) throw ResourceError("no usable CUDA device: " + reason);
  state_ = std::make_shared<State>();
  state_->device = make_device(backend, *resources_, options);
  state_->device->bill(options.account ? options.account : std::make_shared<MemoryAccount>(resources_->memory()));
}

Context::~Context() {
  try {
    synchronize();  // work that uses the cache's plans must end before they go
  } catch (const ResourceError&) {
    // The operation that caused the error reports it; a destructor can tell nobody.
  }
  state_->cache.clear();
}

Context::KeepMemory::KeepMemory(Context& context) : state_(context.state_) { state_->device->keep_memory(true); }
Context::KeepMemory::~KeepMemory() { state_->device->keep_memory(false); }
Context::Recording::Recording(Context& context) : state_(context.state_) { state_->device->recording(true); }
Context::Recording::~Recording() { state_->device->recording(false); }

void* Context::stream() const { return state_->device->stream(); }

std::shared_ptr<void> Context::raw(std::size_t bytes) {
  std::shared_ptr<Device> device = state_->device;
  device->charge(bytes);
  void* memory = nullptr;
  try {
    memory = device->allocate(bytes);
  } catch (...) {
    device->refund(bytes);
    throw;
  }
  // The memory's deleter keeps the device alive; a weak_ptr that only watches the memory must not.
  return {memory, [device, bytes](void* released) mutable {
            const std::shared_ptr<Device> last = std::move(device);
            last->release(released, bytes);
            last->refund(bytes);
          }};
}

std::shared_ptr<void> Context::raw_host(std::size_t bytes) {
  std::shared_ptr<Device> device = state_->device;
  device->charge(bytes);
  // On the CPU, the device counts its memory itself.
  const std::size_t held = cuda() ? block_size(bytes) : 0;
  void* memory = nullptr;
  try {
    device->hold(held);
    try {
      memory = device->allocate_host(bytes);
    } catch (...) {
      device->let_go(held);
      throw;
    }
  } catch (...) {
    device->refund(bytes);
    throw;
  }
  // The memory's deleter keeps the device alive; a weak_ptr that only watches the memory must not.
  return {memory, [device, bytes, held](void* released) mutable {
            const std::shared_ptr<Device> last = std::move(device);
            last->let_go(held);  // first: the kept part of it counts there
            last->release_host(released, bytes);
            last->refund(bytes);
          }};
}

namespace {
/// One core does not reach the full memory bandwidth, least of all where memory is touched for the first time.
constexpr std::size_t kWorthSharing = 4 << 20, kShare = 1 << 20;

template <class Do>
void by_all_cores(ThreadPool& threads, std::size_t bytes, const Do& run) {
  const auto shares = static_cast<std::int64_t>(bytes / kShare);
  threads.parallel_for(shares, 2, [&](std::int64_t begin, std::int64_t end) {
    const std::size_t from = static_cast<std::size_t>(begin) * kShare;
    run(from, (end == shares ? bytes : static_cast<std::size_t>(end) * kShare) - from);
  });
}
}  // namespace

void Context::fill_zero(void* data, std::size_t bytes) {
  const auto fill = [&](std::size_t at, std::size_t count) {
    state_->device->fill_zero(static_cast<std::byte*>(data) + at, count);
  };
  if (cuda() || bytes < kWorthSharing)
    in_pieces(bytes, !cuda(), fill);
  else
    by_all_cores(threads_, bytes, fill);
}

void Context::copy_bytes(Source from, Target to, std::size_t bytes) {
  const bool by_cpu = !cuda() || from.kind == MemoryKind::pageable || to.kind == MemoryKind::pageable;
  const auto copy = [&](std::size_t at, std::size_t count) {
    state_->device->copy({static_cast<const std::byte*>(from.memory) + at, from.kind},
                         {static_cast<std::byte*>(to.memory) + at, to.kind}, count);
  };
  if (cuda() || bytes < kWorthSharing)
    in_pieces(bytes, by_cpu, copy);
  else
    by_all_cores(threads_, bytes, copy);
}

// The CPU moves some GB/s.
template <class Do>
void Context::in_pieces(std::size_t bytes, bool by_cpu, const Do& run) const {
  const std::size_t most = by_cpu ? std::size_t{64} << 20 : bytes;
  for (std::size_t at = 0; at < bytes; at += most) {
    check_stop();
    run(at, std::min(most, bytes - at));
  }
}

void Context::synchronize() {
  if (Yield* const yield = Yield::of_thread(); yield != nullptr && cuda()) yield->rest();  // the GPU works meanwhile
  state_->device->synchronize();
}
void Context::on_complete(std::function<void()> done) { state_->device->on_complete(std::move(done)); }
void Context::check() { state_->device->check(); }
const std::shared_ptr<MemoryAccount>& Context::account() const { return state_->device->account(); }
void Context::hand_over(std::shared_ptr<MemoryAccount> account) { state_->device->bill(std::move(account)); }
std::uint64_t Context::bytes_in_use() const { return state_->device->in_use(); }
std::uint64_t Context::peak_bytes() const { return state_->device->peak(); }
std::uint64_t Context::device_to_host_bytes() const { return state_->device->device_to_host(); }
std::shared_ptr<void>& Context::cache_slot(const void* key) { return state_->cache[key]; }

}  // namespace echotrain::numerics
