#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/device.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::size_t kAlignment = 64;
/// The size of huge pages: a grid's column touches thousands of small pages, whose lookup would take longer than the
/// transform.
constexpr std::size_t kHugePage = 2 << 20, kWorthHugePages = 8 << 20;

/// Blocks below kSmall [bytes] are allocated at the size asked for, without rounding: a scan may have tens of thousands
/// of them, one for each open frame, say. kBeside: the most that the allocator adds to such an aligned block; its array
/// is charged by the heap account.
constexpr std::size_t kSmall = 4096, kBeside = 80;

#ifdef ECHOTRAIN_SANITIZED
constexpr std::size_t kWorthKeeping = SIZE_MAX;  // never kept, so that sanitizers see use after release
#else
constexpr std::size_t kWorthKeeping = 64 * 1024;
#endif

/// Keeps large blocks that arrays of all contexts have released, for later arrays: fresh pages cost more than the work
/// that is done on them. They count in the budget, and are freed when anybody needs their memory.
class SpareBlocks final : public Evictable {
 public:
  explicit SpareBlocks(Resources& resources)
      : budget_(resources.memory()), most_bytes_(budget_->bounded() ? budget_->bound() / 4 : kMostBytes) {
    nodes_.reserve(kMostNodes);
    budget_->add_evictable(*this);
  }
  ~SpareBlocks() override {
    budget_->remove_evictable(*this);
    evict(UINT64_MAX);
  }

  /// Returns the block released last, so that others grow old; it is no longer counted. nullptr if there is none of
  /// this size.
  void* take(std::size_t size) noexcept {
    std::lock_guard lock(mutex_);
    auto found = blocks_.upper_bound(size);
    if (found == blocks_.begin() || (--found)->first != size) return nullptr;
    void* memory = found->second.memory;
    Blocks::node_type node = blocks_.extract(found);
    if (nodes_.size() < nodes_.capacity()) nodes_.push_back(std::move(node));
    bytes_ -= size;
    budget_->give(size);
    return memory;
  }
  /// Keeps the block, or frees it.
  void put(void* memory, std::size_t size) noexcept {
    if (!keep(memory, size)) std::free(memory);
  }
  /// Frees blocks that were released before the period that ends now.
  bool age() {
    std::lock_guard lock(mutex_);
    const std::size_t freed = std::erase_if(blocks_, [this](const auto& entry) {
      if (entry.second.period == period_) return false;
      release(entry.second.memory, entry.first);
      return true;
    });
    ++period_;
    return freed > 0;
  }

  std::optional<std::uint64_t> unused_since() const override {
    std::lock_guard lock(mutex_);
    return blocks_.empty() ? std::nullopt : std::optional<std::uint64_t>(0);
  }
  void evict(std::uint64_t wanted) override {
    std::lock_guard lock(mutex_);
    for (std::uint64_t dropped = 0; dropped < wanted && !blocks_.empty();) {
      const auto largest = std::prev(blocks_.end());
      dropped += largest->first;
      release(largest->second.memory, largest->first);
      blocks_.erase(largest);
    }
  }

 private:
  struct Block {
    void* memory;
    std::uint64_t period;  // the period in which the block was released
  };
  using Blocks = std::multimap<std::size_t, Block>;
  static constexpr std::size_t kMostNodes = 256;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{8} << 30;  // the bound where the budget has none

  bool keep(void* memory, std::size_t size) noexcept {
    std::lock_guard lock(mutex_);
    if (size > most_bytes_ - bytes_ || !budget_->take_if_it_fits(size)) return false;
    try {
      if (nodes_.empty()) {
        blocks_.emplace(size, Block{memory, period_});
      } else {
        nodes_.back().key() = size;
        nodes_.back().mapped() = {memory, period_};
        blocks_.insert(std::move(nodes_.back()));
        nodes_.pop_back();
      }
    } catch (const std::bad_alloc&) {
      budget_->give(size);
      return false;
    }
    bytes_ += size;
    return true;
  }
  void release(void* memory, std::size_t size) noexcept {  // requires the lock
    std::free(memory);
    bytes_ -= size;
    budget_->give(size);
  }

  const std::shared_ptr<MemoryBudget> budget_;
  const std::uint64_t most_bytes_;
  mutable std::mutex mutex_;
  Blocks blocks_;
  std::vector<Blocks::node_type> nodes_;  // nodes of blocks that were taken: a steady stream allocates none
  std::uint64_t bytes_ = 0;
  std::uint64_t period_ = 0;
};

/// Host memory. The device itself keeps no released memory: work made for a cache may keep the device for long.
class HostDevice final : public Device {
 public:
  HostDevice(std::uint64_t budget, std::shared_ptr<SpareBlocks> spare) : Device(budget), spare_(std::move(spare)) {}

  void* allocate(std::size_t bytes) override {
    const std::size_t size = size_of(bytes);
    void* memory = size >= kWorthKeeping ? spare_->take(size) : nullptr;
    try {
      hold(cost_of(size));
    } catch (...) {
      std::free(memory);
      throw;
    }
    if (memory == nullptr) memory = fresh(size);
    if (memory == nullptr) {
      account()->budget()->evict_unused();
      memory = fresh(size);
    }
    if (memory == nullptr) {
      let_go(cost_of(size));
      throw ResourceError("the machine has no " + bytes_text(bytes) + " of memory left");
    }
    return memory;
  }

  void release(void* memory, std::size_t bytes) noexcept override {
    const std::size_t size = size_of(bytes);
    let_go(cost_of(size));
    if (size >= kWorthKeeping)
      spare_->put(memory, size);
    else
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
  static std::size_t size_of(std::size_t bytes) {
    return bytes < kSmall ? (std::max<std::size_t>(1, bytes) + kAlignment - 1) / kAlignment * kAlignment
                          : block_size(bytes);
  }
  static std::size_t cost_of(std::size_t size) { return size < kSmall ? size + kBeside : size; }

  static void* fresh(std::size_t bytes) {
    const std::size_t alignment = bytes >= kWorthHugePages ? kHugePage : kAlignment;
    const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, size);
    if (memory != nullptr && alignment == kHugePage) madvise(memory, size, MADV_HUGEPAGE);  // may be refused
    return memory;
  }

  const std::shared_ptr<SpareBlocks> spare_;
};

}  // namespace

std::shared_ptr<Device> make_device(Resources& resources, const ContextOptions& options) {
  return std::make_shared<HostDevice>(options.memory_budget, resources.share<SpareBlocks>());
}

}  // namespace echotrain::numerics::cpu

namespace echotrain::numerics {
bool free_unused_blocks(Resources& resources) { return resources.get<cpu::SpareBlocks>().age(); }
}  // namespace echotrain::numerics
