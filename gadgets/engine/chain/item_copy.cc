#include "gadgets/engine/chain/item_copy.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

namespace echotrain {
namespace {

template <class T>
void own(Array<T>& array, numerics::Context& compute) {
  if (array.size() == 0) return;
  Array<T> copy = compute.allocate<T>(array.shape());
  compute.copy<T>(array.cview(), copy.view());
  array = std::move(copy);
}

/// Copies an array. Host memory is read on the host, without waiting for the device.
template <class T>
void own(HostArray<T>& array, numerics::Context& compute) {
  if (array.size() == 0) return;
  HostArray<T> copy = compute.allocate_host<T>(array.shape());
  std::copy_n(array.data(), array.size(), copy.data());
  array = std::move(copy);
}

template <class T>
void own_data(T& item, numerics::Context& compute) {
  if constexpr (std::is_base_of_v<Readouts, T>) {
    own(item.data, compute);
    own(item.host_data, compute);
  } else if constexpr (std::is_same_v<T, NormalEquations>) {
    own(item.right, compute);
  } else if constexpr (std::is_same_v<T, Image>) {
    if (item.times) item.times = std::make_shared<ImageTimes>(*item.times);
  } else if constexpr (!std::is_same_v<T, RawBatch> && !std::is_same_v<T, Waveform>) {
    own(item.data, compute);
  }
}

}  // namespace

Item copy_of(const Item& item, numerics::Context& compute) {
  Item copy = item;
  std::visit([&compute](auto& each) { own_data(each, compute); }, copy);
  return copy;
}

}  // namespace echotrain
