// A memory file is in memory only, for libraries that want a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gadgets/numerics/core/memory_budget.h"

namespace echotrain::server {

/// A file in /dev/shm, for its owner only. Its bytes are paid for before they are written. Once sealed, it goes when
/// another needs the memory.
class MemoryFile final : public numerics::Evictable {
 public:
  /// Throws std::system_error when the system gives none.
  explicit MemoryFile(std::shared_ptr<numerics::MemoryBudget> budget);
  ~MemoryFile() override;

  const std::string& path() const { return path_; }  ///< by which it can be opened until hide()
  /// Takes the name away; programs that have the file open go on.
  void hide();
  std::uint64_t size() const;
  std::uint64_t room() const;  ///< bytes that /dev/shm has left; a container often has 64 MiB in all
  /// Pays for `bytes` in all. False: the budget has no more left.
  bool pay(std::uint64_t bytes);
  /// Says that nothing more will be written.
  void seal();
  /// Reads up to `most` bytes from `offset` on; nothing when the file has gone.
  std::optional<std::string> read(std::uint64_t offset, std::size_t most) const;

  std::optional<std::uint64_t> unused_since() const override;
  void evict(std::uint64_t wanted) override;

 private:
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  std::string path_;
  const int descriptor_;
  mutable std::mutex mutex_;
  std::uint64_t paid_ = 0, sealed_ = 0;  // when; 0: not yet
  bool gone_ = false;
};

}  // namespace echotrain::server
