#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/device.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/core/spare_memory.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::size_t kAlignment = 64;
/// A grid's column touches thousands of small pages, whose lookup would take longer than the transform.
constexpr std::size_t kHugePage = 2 << 20, kWorthHugePages = 8 << 20;

/// Large blocks that ended contexts left for later ones.
class LeftBehind {
 public:
  ~LeftBehind() { drop(); }

  void* take(std::size_t size) {
    std::lock_guard lock(mutex_);
    auto found = blocks_.upper_bound(size);  // the newest one of this size, so that the others age
    if (found == blocks_.begin() || (--found)->first != size) return nullptr;
    void* memory = found->second.memory;
    blocks_.erase(found);
    bytes_ -= size;
    return memory;
  }
  /// Returns false when the block is not kept.
  bool put(void* memory, std::size_t size) noexcept {
    std::lock_guard lock(mutex_);
    if (size > kMostBytes - bytes_) return false;
    try {
      blocks_.emplace(size, Block{memory, period_});
    } catch (const std::bad_alloc&) {
      return false;
    }
    bytes_ += size;
    return true;
  }
  void drop() noexcept {
    std::lock_guard lock(mutex_);
    for (auto& [size, block] : blocks_) std::free(block.memory);
    blocks_.clear();
    bytes_ = 0;
  }
  /// Frees blocks that came before the period that ends now.
  bool age() {
    std::lock_guard lock(mutex_);
    const std::size_t freed = std::erase_if(blocks_, [this](const auto& entry) {
      if (entry.second.period == period_) return false;
      std::free(entry.second.memory);
      bytes_ -= entry.first;
      return true;
    });
    ++period_;
    return freed > 0;
  }

 private:
  struct Block {
    void* memory;
    std::uint64_t period;  // in which the block came
  };
  static constexpr std::size_t kMostBytes = 128 << 20;  // in all, for any number of contexts
  std::mutex mutex_;
  std::multimap<std::size_t, Block> blocks_;
  std::size_t bytes_ = 0;
  std::uint64_t period_ = 0;
};

/// Host memory. Large blocks are kept for reuse: fresh pages cost more than the work done on them.
class HostDevice final : public Device {
 public:
  HostDevice(std::uint64_t budget, std::shared_ptr<LeftBehind> left_behind)
      : Device(budget), left_behind_(std::move(left_behind)) {}
  ~HostDevice() override {
    for (auto& [size, blocks] : kept_)
      for (void* memory : blocks)
        if (!left_behind_->put(memory, size)) std::free(memory);
  }

  void* allocate(std::size_t bytes) override {
    const std::size_t size = block_size(bytes);
    if (size >= kWorthKeeping) {
      std::lock_guard lock(mutex_);
      auto found = kept_.find(size);
      if (found != kept_.end() && !found->second.empty()) {
        void* memory = found->second.back();
        found->second.pop_back();
        kept_bytes_ -= size;
        return memory;
      }
      if (void* memory = left_behind_->take(size)) return memory;
    }
    void* memory = fresh(size);
    if (memory == nullptr) {
      drop_kept();
      left_behind_->drop();
      memory = fresh(size);
    }
    if (memory == nullptr) throw ResourceError("the machine has no " + bytes_text(bytes) + " of memory left");
    return memory;
  }

  void release(void* memory, std::size_t bytes) noexcept override {
    const std::size_t size = block_size(bytes);
    if (size >= kWorthKeeping) {
      std::lock_guard lock(mutex_);
      if (kept_bytes_ + size <= budget() / 4) {
        try {
          kept_[size].push_back(memory);
          kept_bytes_ += size;
          return;
        } catch (const std::bad_alloc&) {
          // Not kept, then.
        }
      }
    }
    std::free(memory);
  }

  void* allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void release_host(void* memory, std::size_t bytes) noexcept override { release(memory, bytes); }
  void fill_zero(void* data, std::size_t bytes) override { std::memset(data, 0, bytes); }
  void copy(Source from, Target to, std::size_t bytes) override { std::memmove(to.memory, from.memory, bytes); }
  void synchronize() override {}
  void on_complete(std::function<void()> done) override { done(); }
  void check() override {}
  void* stream() const override { return nullptr; }

 private:
#ifdef ECHOTRAIN_SANITIZED
  static constexpr std::size_t kWorthKeeping = SIZE_MAX;  // so that use after release is seen
#else
  static constexpr std::size_t kWorthKeeping = 64 * 1024;
#endif

  static void* fresh(std::size_t bytes) {
    const std::size_t alignment = bytes >= kWorthHugePages ? kHugePage : kAlignment;
    const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, size);
    if (memory != nullptr && alignment == kHugePage) madvise(memory, size, MADV_HUGEPAGE);  // may be refused
    return memory;
  }

  void drop_kept() noexcept {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : kept_)
      for (void* memory : blocks) std::free(memory);
    kept_.clear();
    kept_bytes_ = 0;
  }

  const std::shared_ptr<LeftBehind> left_behind_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> kept_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace

std::shared_ptr<Device> make_device(Resources& resources, const ContextOptions& options) {
  return std::make_shared<HostDevice>(options.memory_budget, resources.share<LeftBehind>());
}

}  // namespace echotrain::numerics::cpu

namespace echotrain::numerics {
bool free_unused_blocks(Resources& resources) { return resources.get<cpu::LeftBehind>().age(); }
}  // namespace echotrain::numerics
