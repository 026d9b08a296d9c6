// Shapes, views and arrays, whose types say where their memory is. Arrays are row-major: the last axis runs fastest, so
// [coil, z, y, x] has x contiguous.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace echotrain::numerics {

using cfloat = std::complex<float>;
using cdouble = std::complex<double>;

/// Up to five extents, slowest first.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 5;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    if (extents.size() > kMaxRank) throw std::invalid_argument("a shape has at most five axes");
    for (auto e : extents) push_back(e);
  }
  void push_back(std::int64_t extent) {
    if (rank_ == kMaxRank) throw std::invalid_argument("a shape has at most five axes");
    if (extent < 0) throw std::invalid_argument("an extent is never negative");
    extents_[rank_++] = extent;
  }
  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (std::size_t i = 0; i < rank_; ++i) n *= extents_[i];
    return n;
  }
  const std::int64_t* begin() const { return extents_.data(); }
  const std::int64_t* end() const { return extents_.data() + rank_; }
  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (std::size_t i = 0; i < rank_; ++i)
      if (extents_[i] != other.extents_[i]) return false;
    return true;
  }
  std::string text() const {  ///< "[16, 1, 256, 256]"
    std::string out = "[";
    for (std::size_t i = 0; i < rank_; ++i) out += (i ? ", " : "") + std::to_string(extents_[i]);
    return out + "]";
  }

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  std::size_t rank_ = 0;
};

/// The kind of memory: on the device or on the host. Pinned host memory is copied to and from a device fast.
enum class MemoryKind : std::uint8_t { device, pinned, pageable };

/// Contiguous elements owned elsewhere, for code that takes both kinds of memory: a HostView or a DeviceView converts
/// to a View, which remembers the MemoryKind. All three are read-only for const T.
template <class T>
class View {
 public:
  View() = default;
  // A view that may be written to converts to one that may be read. NOLINTBEGIN(google-explicit-constructor)
  template <class U>
  requires(std::is_same_v<const U, T>) View(View<U> other)
      : data_(other.data()), shape_(other.shape()), kind_(other.memory_kind()) {}
  // NOLINTEND(google-explicit-constructor)

  T* data() const { return data_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return data_ == nullptr ? 0 : shape_.size(); }
  MemoryKind memory_kind() const { return kind_; }

 protected:
  View(T* data, Shape shape, MemoryKind kind) : data_(data), shape_(shape), kind_(kind) {}

 private:
  T* data_ = nullptr;
  Shape shape_;
  MemoryKind kind_ = MemoryKind::pageable;
};

/// The common part of HostView and DeviceView. Self is one of them, of T.
template <class Self, class T>
class ViewOfKind : public View<T> {
 public:
  /// The part at index i of the first axis.
  Self slice(std::int64_t i) const {
    Shape rest;
    for (std::size_t a = 1; a < this->shape().rank(); ++a) rest.push_back(this->shape()[a]);
    return part(i * rest.size(), rest);
  }
  Self reshaped(Shape shape) const {
    if (shape.size() != this->shape().size())
      throw std::invalid_argument("reshape " + this->shape().text() + " to " + shape.text());
    return part(0, shape);
  }
  /// The elements from index `first` on, in the given shape.
  Self part(std::int64_t first, Shape shape) const { return Self(this->data() + first, shape, this->memory_kind()); }

 protected:
  ViewOfKind() = default;
  ViewOfKind(T* data, Shape shape, MemoryKind kind) : View<T>(data, shape, kind) {}
};

/// Elements that the CPU can read.
template <class T>
class HostView : public ViewOfKind<HostView<T>, T> {
  using Base = ViewOfKind<HostView<T>, T>;

 public:
  HostView() = default;
  /// Views ordinary memory of the process. For pinned memory, use HostArray::view().
  HostView(T* data, Shape shape) : Base(data, shape, MemoryKind::pageable) {}
  // NOLINTBEGIN(google-explicit-constructor)
  template <class U>
  requires(std::is_same_v<const U, T>) HostView(HostView<U> other)
      : Base(other.data(), other.shape(), other.memory_kind()) {}
  // NOLINTEND(google-explicit-constructor)

  T& operator[](std::int64_t i) const { return this->data()[i]; }

 private:
  friend Base;
  template <class>
  friend class HostArray;
  HostView(T* data, Shape shape, MemoryKind kind) : Base(data, shape, kind) {}
};

/// Elements in the memory where a context computes. On the CPU backend this is host memory, which kernels read through
/// data().
template <class T>
class DeviceView : public ViewOfKind<DeviceView<T>, T> {
  using Base = ViewOfKind<DeviceView<T>, T>;

 public:
  DeviceView() = default;
  /// `data` must be memory where the context computes; this is not checked.
  explicit DeviceView(T* data, Shape shape) : Base(data, shape, MemoryKind::device) {}
  // NOLINTBEGIN(google-explicit-constructor)
  template <class U>
  requires(std::is_same_v<const U, T>) DeviceView(DeviceView<U> other)
      : Base(other.data(), other.shape(), other.memory_kind()) {}
  // NOLINTEND(google-explicit-constructor)

 private:
  friend Base;
  DeviceView(T* data, Shape shape, MemoryKind kind) : Base(data, shape, kind) {}
};

/// Shared memory and its shape: the common part of Array and HostArray. All copies share the memory.
template <class Self, class T>
class OwnedMemory {
 public:
  T* data() { return static_cast<T*>(memory_.get()); }
  const T* data() const { return static_cast<const T*>(memory_.get()); }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return memory_ ? shape_.size() : 0; }
  explicit operator bool() const { return memory_ != nullptr; }
  const std::shared_ptr<void>& memory() const { return memory_; }
  /// The memory under another shape of the same size.
  Self reshaped(Shape shape) const {
    if (shape.size() != shape_.size()) throw std::invalid_argument("reshape " + shape_.text() + " to " + shape.text());
    Self other = static_cast<const Self&>(*this);
    other.shape_ = shape;
    return other;
  }

 protected:
  OwnedMemory() = default;
  OwnedMemory(std::shared_ptr<void> memory, Shape shape) : memory_(std::move(memory)), shape_(shape) {}

 private:
  std::shared_ptr<void> memory_;
  Shape shape_;
};

/// An array in the memory where a context computes. All copies of an Array own that memory together: copying never
/// duplicates it. A Context makes it. Contents are uninitialised unless said otherwise.
template <class T>
class Array : public OwnedMemory<Array<T>, T> {
 public:
  Array() = default;
  Array(std::shared_ptr<void> memory, Shape shape) : OwnedMemory<Array<T>, T>(std::move(memory), shape) {}

  DeviceView<T> view() { return DeviceView<T>(this->data(), this->shape()); }
  DeviceView<const T> view() const { return DeviceView<const T>(this->data(), this->shape()); }
  DeviceView<const T> cview() const { return view(); }
};

/// An array in memory that the CPU can read; all else as Array.
template <class T>
class HostArray : public OwnedMemory<HostArray<T>, T> {
 public:
  HostArray() = default;
  /// `kind` is pinned or pageable.
  HostArray(std::shared_ptr<void> memory, Shape shape, MemoryKind kind)
      : OwnedMemory<HostArray<T>, T>(std::move(memory), shape), kind_(kind) {}

  HostView<T> view() { return HostView<T>(this->data(), this->shape(), kind_); }
  HostView<const T> view() const { return HostView<const T>(this->data(), this->shape(), kind_); }
  HostView<const T> cview() const { return view(); }
  MemoryKind memory_kind() const { return kind_; }

 private:
  MemoryKind kind_ = MemoryKind::pageable;
};

namespace cpu {
/// Views the data of a CPU kernel as the host memory that it is. Only the CPU backend may call it.
template <class T>
HostView<T> readable(DeviceView<T> view) {
  return HostView<T>(view.data(), view.shape());
}
}  // namespace cpu

}  // namespace echotrain::numerics
