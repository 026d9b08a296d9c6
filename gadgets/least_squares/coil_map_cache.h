// CoilMapCache is a cache of coil maps for frames with the same reference lines.
#pragma once

#include <cstdint>
#include <list>
#include <utility>

#include "gadgets/api/items.h"

namespace echotrain {

/// Keeps maps by the number of the block that they were made from, within a bound: the least recently used are dropped.
/// The context of the maps pays for them.
class CoilMapCache {
 public:
  static constexpr std::uint64_t kMostBytes = 1ull << 30;

  /// The newest maps stay, however large they are.
  explicit CoilMapCache(std::uint64_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  /// The maps of this block and shape; null if they have to be made.
  const Array<cfloat>* find(std::uint64_t block, const numerics::Shape& shape) {
    for (auto at = kept_.begin(); at != kept_.end(); ++at)
      if (at->block == block && at->maps.shape() == shape) {
        kept_.splice(kept_.begin(), kept_, at);
        return &at->maps;
      }
    return nullptr;
  }
  /// Makes room for `bytes` more; call it before maps of that size are made.
  void make_room(std::uint64_t bytes) {
    while (!kept_.empty() && bytes_ + bytes > most_bytes_) {
      bytes_ -= size(kept_.back().maps);
      kept_.pop_back();
    }
  }
  void keep(std::uint64_t block, Array<cfloat> maps) {
    make_room(size(maps));
    bytes_ += size(maps);
    kept_.push_front({block, std::move(maps)});
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::uint64_t block;
    Array<cfloat> maps;
  };
  static std::uint64_t size(const Array<cfloat>& maps) {
    return static_cast<std::uint64_t>(maps.size()) * sizeof(cfloat);
  }

  std::uint64_t most_bytes_, bytes_ = 0;
  std::list<Entry> kept_;  // most recently used first
};

}  // namespace echotrain
