// A Device is a backend's memory, copies and ordering, as a Context needs them. Arrays keep it alive after their
// Context is gone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/device_memory.h"
#include "gadgets/numerics/core/memory_budget.h"

namespace echotrain::numerics {

class Device {
 public:
  explicit Device(std::uint64_t budget) : budget_(budget) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Allocates memory where the backend computes, or host memory that it copies from and to fast. Throws ResourceError
  /// when none is left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void* allocate_host(std::size_t bytes) = 0;
  /// May be called from any thread, also after the Context is gone. `bytes` is the size asked for.
  virtual void release(void* memory, std::size_t bytes) noexcept = 0;
  virtual void release_host(void* memory, std::size_t bytes) noexcept = 0;

  /// Begins (true) or ends (false) a period in which released memory is kept for reuse; periods may be nested.
  virtual void keep_memory(bool) noexcept {}
  /// Begins (true) or ends (false) a period in which the stream is recorded as a graph: memory that other threads
  /// release during it must not become part of the graph.
  virtual void recording(bool) noexcept {}

  /// `data` is memory where the backend computes.
  virtual void fill_zero(void* data, std::size_t bytes) = 0;
  virtual void copy(Source from, Target to, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
  virtual void on_complete(std::function<void()> done) = 0;
  virtual void check() = 0;
  virtual void* stream() const = 0;

  /// Takes `bytes` from the budget. Throws ResourceError when less is left.
  void charge(std::size_t bytes);
  void refund(std::size_t bytes) noexcept { in_use_ -= bytes; }
  std::uint64_t budget() const { return budget_; }
  std::uint64_t in_use() const { return in_use_; }
  std::uint64_t peak() const { return peak_; }
  std::uint64_t device_to_host() const { return device_to_host_; }

  /// Moves the count of host memory held to another account, for what is held now and from now on. Throws OverBudget
  /// when it does not fit; then nothing changes. No other thread may use the device meanwhile.
  void bill(std::shared_ptr<MemoryAccount> account) {
    if (account_) account_->give(held_);
    try {
      account->take(held_);
    } catch (const OverBudget&) {
      if (account_) account_->add(held_);
      throw;
    }
    account_ = std::move(account);
  }
  const std::shared_ptr<MemoryAccount>& account() const { return account_; }
  /// Host memory that is held for arrays [bytes].
  std::uint64_t held() const { return held_; }
  /// Takes `bytes` of host memory from the account. Throws OverBudget when they do not fit.
  void hold(std::size_t bytes) {
    account_->take(bytes);
    held_ += bytes;
  }
  void let_go(std::size_t bytes) noexcept {
    held_ -= bytes;
    account_->give(bytes);
  }

 protected:
  std::atomic<std::uint64_t> device_to_host_{0};

 private:
  const std::uint64_t budget_;
  std::atomic<std::uint64_t> in_use_{0};
  std::atomic<std::uint64_t> peak_{0};
  std::atomic<std::uint64_t> held_{0};
  std::shared_ptr<MemoryAccount> account_;
};

/// Rounds up to a size class, by at most 1/8, so that blocks kept for reuse fit batches of varying size.
std::size_t block_size(std::size_t bytes);

/// "12.5 MiB"
std::string bytes_text(std::uint64_t bytes);

/// Does a little work on a GPU, anew at each call, and returns CUDA's error (cudaError_t), 0 if there is none. A
/// program without CUDA has no device (100).
int try_device(int device);

namespace cpu {
std::shared_ptr<Device> make_device(Resources& resources, const ContextOptions& options);
}
namespace cuda {
std::shared_ptr<Device> make_device(Resources& resources, const ContextOptions& options);
int device_count();
int try_device(int device);
bool probe(std::string& reason);  ///< true if a device is usable; else `reason` says why not
std::string describe();
void note_use(int device);  ///< from now on, device_memory() reports this device
std::vector<DeviceMemory> device_memory();
}  // namespace cuda

}  // namespace echotrain::numerics
