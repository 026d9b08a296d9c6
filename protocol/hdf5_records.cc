#include "protocol/hdf5_records.h"

#include <utility>

namespace echotrain::protocol::hdf5 {

std::vector<hsize_t> shape_of(const Handle& dataset) {
  const Handle space(H5Dget_space(dataset.get()), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> shape(rank > 0 ? static_cast<std::size_t>(rank) : 0);
  if (!shape.empty()) H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr);
  return shape;
}

Records::Records(Handle dataset, Handle type) : dataset_(std::move(dataset)), type_(std::move(type)) {
  if (!dataset_) return;
  const auto shape = shape_of(dataset_);
  count_ = shape.empty() ? 1 : static_cast<std::size_t>(shape[0]);
}

bool Records::read(std::size_t index, std::size_t n, void* to) const {
  const Handle space(H5Dget_space(dataset_.get()), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank == 0) return H5Dread(dataset_.get(), type_.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, to) >= 0;
  if (rank < 0) return false;
  std::vector<hsize_t> start(static_cast<std::size_t>(rank), 0);
  std::vector<hsize_t> size(static_cast<std::size_t>(rank), 1);
  start[0] = index;
  size[0] = n;
  const Handle memory(H5Screate_simple(1, size.data(), nullptr), H5Sclose);
  return H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, size.data(), nullptr) >= 0 &&
         H5Dread(dataset_.get(), type_.get(), memory.get(), space.get(), H5P_DEFAULT, to) >= 0;
}

void Records::reclaim(void* records, std::size_t n) const {
  const hsize_t size = n;
  const Handle memory(H5Screate_simple(1, &size, nullptr), H5Sclose);
  H5Dvlen_reclaim(type_.get(), memory.get(), H5P_DEFAULT, records);
}

}  // namespace echotrain::protocol::hdf5
