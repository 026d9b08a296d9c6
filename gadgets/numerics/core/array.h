// Shapes, views and arrays. Row-major: the last axis runs fastest, so [coil, z, y, x] has x contiguous.
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

/// Contiguous elements that belong to somebody else, on the host or the device. View<const T> is read-only.
template <class T>
class View {
 public:
  View() = default;
  View(T* data, Shape shape) : data_(data), shape_(shape) {}
  // A view that may be written to is one that may be read. NOLINTBEGIN(google-explicit-constructor)
  template <class U>
  requires(std::is_same_v<const U, T>) View(View<U> other) : data_(other.data()), shape_(other.shape()) {}
  // NOLINTEND(google-explicit-constructor)

  T* data() const { return data_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return data_ == nullptr ? 0 : shape_.size(); }
  T& operator[](std::int64_t i) const { return data_[i]; }  ///< host only
  /// The part at index i of the first axis.
  View slice(std::int64_t i) const {
    Shape rest;
    for (std::size_t a = 1; a < shape_.rank(); ++a) rest.push_back(shape_[a]);
    return {data_ + i * rest.size(), rest};
  }
  View reshaped(Shape shape) const {
    if (shape.size() != shape_.size()) throw std::invalid_argument("reshape " + shape_.text() + " to " + shape.text());
    return {data_, shape};
  }

 private:
  T* data_ = nullptr;
  Shape shape_;
};

/// An array that owns its memory together with all copies of itself: copying an Array shares, it never duplicates.
/// Made by Context, which also says where the memory is. Contents are uninitialised unless said otherwise.
template <class T>
class Array {
 public:
  Array() = default;
  Array(std::shared_ptr<void> memory, Shape shape) : memory_(std::move(memory)), shape_(shape) {}

  View<T> view() { return {static_cast<T*>(memory_.get()), shape_}; }
  View<const T> view() const { return {static_cast<const T*>(memory_.get()), shape_}; }
  View<const T> cview() const { return view(); }
  T* data() { return static_cast<T*>(memory_.get()); }
  const T* data() const { return static_cast<const T*>(memory_.get()); }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return memory_ ? shape_.size() : 0; }
  explicit operator bool() const { return memory_ != nullptr; }
  const std::shared_ptr<void>& memory() const { return memory_; }
  /// The same memory under another shape of the same size.
  Array reshaped(Shape shape) const {
    if (shape.size() != shape_.size()) throw std::invalid_argument("reshape " + shape_.text() + " to " + shape.text());
    return Array(memory_, shape);
  }

 private:
  std::shared_ptr<void> memory_;
  Shape shape_;
};

}  // namespace echotrain::numerics
