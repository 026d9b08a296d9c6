#include <algorithm>
#include <iterator>
#include <utility>

#include "gadgets/numerics/core/cuda/pinned_slabs.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::size_t kMostLooks = 8;  // slabs that are searched for a block

}  // namespace

PinnedSlabs::~PinnedSlabs() {
  for (auto& [memory, slab] : slabs_)
    for (const Block& block : slab.kept)
      if (block.done != nullptr) cudaEventDestroy(block.done);
}

bool PinnedSlabs::finished(Block& block) noexcept {
  if (block.done == nullptr) return true;
  if (cudaEventQuery(block.done) != cudaSuccess) {
    cudaGetLastError();  // clears "not ready", which the next launch would take for its error
    return false;
  }
  events_.give_back(std::exchange(block.done, nullptr), block.device);
  return true;
}

void* PinnedSlabs::take(std::size_t size) {
  const auto found = of_size_.find(size);
  if (found == of_size_.end()) return nullptr;
  std::vector<Slab*>& slabs = found->second;
  std::size_t looks = 0;
  for (std::size_t i = slabs.size(); i-- > 0 && looks < kMostLooks;) {
    Slab& slab = *slabs[i];
    if (slab.kept.empty()) continue;
    ++looks;
    if (!finished(slab.kept.front())) continue;
    void* const memory = slab.kept.front().memory;
    slab.kept.erase(slab.kept.begin());
    std::swap(slabs[i], slabs.back());
    return memory;
  }
  return nullptr;
}

void PinnedSlabs::add(void* slab, std::size_t size) {
  Slab made{size, kSlabBytes / size, {}};
  made.kept.reserve(made.blocks);
  for (std::size_t i = 0; i < made.blocks; ++i) made.kept.push_back({static_cast<char*>(slab) + i * size, nullptr, 0});
  std::vector<Slab*>& slabs = of_size_[size];
  slabs.reserve(slabs.size() + 1);
  const auto added = slabs_.emplace(static_cast<const char*>(slab), std::move(made)).first;
  slabs.push_back(&added->second);
}

bool PinnedSlabs::has(const void* block) const {
  const auto after = slabs_.upper_bound(static_cast<const char*>(block));
  return after != slabs_.begin() && static_cast<const char*>(block) < std::prev(after)->first + kSlabBytes;
}

void PinnedSlabs::give_back(void* block, cudaEvent_t done, int device) noexcept {
  Slab& slab = std::prev(slabs_.upper_bound(static_cast<const char*>(block)))->second;
  slab.kept.push_back({block, done, device});  // there is room for all of its blocks
}

PinnedSlabs::Slabs::iterator PinnedSlabs::first_unused() {
  return std::find_if(slabs_.begin(), slabs_.end(), [this](auto& entry) {
    Slab& slab = entry.second;
    return slab.kept.size() == slab.blocks &&
           std::all_of(slab.kept.begin(), slab.kept.end(), [this](Block& block) { return finished(block); });
  });
}

void* PinnedSlabs::drop() {
  const auto found = first_unused();
  if (found == slabs_.end()) return nullptr;
  std::erase(of_size_[found->second.size], &found->second);
  char* const memory = const_cast<char*>(found->first);
  slabs_.erase(found);
  return memory;
}

std::vector<void*> PinnedSlabs::all() const {
  std::vector<void*> slabs;
  for (const auto& entry : slabs_) slabs.push_back(const_cast<char*>(entry.first));
  return slabs;
}

}  // namespace echotrain::numerics::cuda
