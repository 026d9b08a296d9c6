// A SharedArea is the memory that one step's process shares with this program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/shared/program/item_memory.h"
#include "gadgets/steps/stream_peer.h"

namespace echotrain {

/// Two files in memory of one size, which nobody can change. `inputs`: this program writes, and the process can map it
/// for reading only. `results`: the process writes. Each is made for one process and holds one scan's data only. Always
/// held by a shared_ptr: arrays in it keep it. Thread-safe.
class SharedArea final : public ItemMemory, public std::enable_shared_from_this<SharedArea> {
 public:
  static constexpr std::size_t kAligned = 64;  ///< of each array [bytes]

  /// Makes both files of `bytes` each, which `account` pays for. Throws ResourceError when there is no memory.
  SharedArea(std::size_t bytes, std::shared_ptr<numerics::MemoryAccount> account);
  ~SharedArea() override;

  std::size_t bytes() const { return bytes_; }
  int inputs() const { return inputs_.file.get(); }
  int results() const { return results_.file.get(); }

  /// Returns memory of `inputs`; null if there is no room.
  std::shared_ptr<void> take(std::size_t bytes) override;
  /// Returns the place of such memory, or -1 for other memory.
  std::int64_t place_of(const void* memory) const;
  /// Returns memory of `results`, which the process has filled. When it is released, its place is among those of
  /// released(). Null where no array can lie.
  std::shared_ptr<void> result(std::uint64_t place, std::uint64_t bytes);
  /// Returns the places of results that nobody holds any more, once each.
  std::vector<std::uint64_t> released();

 private:
  struct Mapped {
    OwnDescriptor file;
    std::byte* memory = nullptr;
  };
  static Mapped make(const char* name, std::size_t bytes, unsigned seals);

  const std::size_t bytes_;
  numerics::MemoryShare share_;
  Mapped inputs_, results_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // of `inputs`: place -> bytes
  std::vector<std::uint64_t> released_;
};

}  // namespace echotrain
