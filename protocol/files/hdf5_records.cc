#include "protocol/files/hdf5_records.h"

#include <cstdlib>
#include <new>
#include <utility>

#include "protocol/data/limits.h"

namespace echotrain::protocol::hdf5 {

std::vector<hsize_t> shape_of(const Handle& dataset) {
  const Handle space(H5Dget_space(dataset.get()), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> shape(rank > 0 ? static_cast<std::size_t>(rank) : 0);
  if (!shape.empty()) H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr);
  return shape;
}

class Records::Lists {
 public:
  Lists() = default;
  ~Lists() { clear(); }
  Lists(const Lists&) = delete;
  Lists& operator=(const Lists&) = delete;

  void clear() {
    for (void* block : blocks_) std::free(block);
    blocks_.clear();
  }

  // H5Pset_vlen_mem_manager() takes this: C calls it, so nothing may be thrown.
  static void* allocate(std::size_t bytes, void* self) {
    if (bytes > Limits{}.acquisition_bytes) return nullptr;  // no readout, text or waveform is larger
    void* block = std::malloc(bytes);
    try {
      static_cast<Lists*>(self)->blocks_.push_back(block);
    } catch (const std::bad_alloc&) {
      std::free(block);
      return nullptr;
    }
    return block;
  }
  static void give_back(void* block, void* self) {
    auto& blocks = static_cast<Lists*>(self)->blocks_;
    if (const auto found = std::find(blocks.rbegin(), blocks.rend(), block); found != blocks.rend()) {
      std::free(block);
      *found = nullptr;
    }
  }

 private:
  std::vector<void*> blocks_;
};

void Records::ListsDeleter::operator()(Lists* lists) const { delete lists; }

Records::Records(Handle dataset, Handle type)
    : dataset_(std::move(dataset)),
      type_(std::move(type)),
      lists_(new Lists),
      transfer_(H5Pcreate(H5P_DATASET_XFER), H5Pclose) {
  if (!dataset_) return;
  H5Pset_vlen_mem_manager(transfer_.get(), Lists::allocate, lists_.get(), Lists::give_back, lists_.get());
  const auto shape = shape_of(dataset_);
  count_ = shape.empty() ? 1 : static_cast<std::size_t>(shape[0]);
}

bool Records::read(std::size_t index, std::size_t n, void* to) const {
  const Handle space(H5Dget_space(dataset_.get()), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank == 0) return H5Dread(dataset_.get(), type_.get(), H5S_ALL, H5S_ALL, transfer_.get(), to) >= 0;
  if (rank < 0) return false;
  std::vector<hsize_t> start(static_cast<std::size_t>(rank), 0);
  std::vector<hsize_t> size(static_cast<std::size_t>(rank), 1);
  start[0] = index;
  size[0] = n;
  const Handle memory(H5Screate_simple(1, size.data(), nullptr), H5Sclose);
  return H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, size.data(), nullptr) >= 0 &&
         H5Dread(dataset_.get(), type_.get(), memory.get(), space.get(), transfer_.get(), to) >= 0;
}

void Records::release() {
  if (lists_) lists_->clear();
}

}  // namespace echotrain::protocol::hdf5
