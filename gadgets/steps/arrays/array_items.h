// Conversions of a pipeline's items to arrays for a step's process, and of its arrays to items.
#pragma once

#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/steps/arrays/array_link.h"

namespace echotrain {

/// The name of an item in `takes` and `gives`.
template <class T>
inline constexpr std::string_view kArrayItem;
template <>
inline constexpr std::string_view kArrayItem<Readouts> = "Readouts";
template <>
inline constexpr std::string_view kArrayItem<KSpace> = "KSpace";
template <>
inline constexpr std::string_view kArrayItem<Samples> = "Samples";
template <>
inline constexpr std::string_view kArrayItem<NormalEquations> = "NormalEquations";
template <>
inline constexpr std::string_view kArrayItem<CoilImages> = "CoilImages";
template <>
inline constexpr std::string_view kArrayItem<Image> = "Images";

/// A process has given arrays that are no such item. The text is a sentence without a subject: "has given no data".
class WrongArrays : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Describes items as arrays, and makes items of a process' results, or throws WrongArrays. A result is made of an
/// item, `from`, and has its frame, with the result's meta attributes where it brings any.
class ItemArrays {
 public:
  ItemArrays(Scan& scan, const protocol::Header& header, std::shared_ptr<SharedArea> area);

  /// Describes an item, whose memory the message keeps. Arrays of a device are copied, and this waits for the device.
  ArrayMessage of(const Readouts& readouts);
  ArrayMessage of(const KSpace& kspace);
  ArrayMessage of(const Samples& samples);
  ArrayMessage of(const NormalEquations& equations);
  ArrayMessage of(const CoilImages& images);
  ArrayMessage of(const Image& image);

  /// The number of coils may differ.
  Readouts result(const ArrayMessage& result, const Readouts& from);
  KSpace result(const ArrayMessage& result, const KSpace& from);
  Samples result(const ArrayMessage& result, const Samples& from);
  /// Coil maps may come where there are none; the right-hand side is then that of the images that they weight.
  NormalEquations result(const ArrayMessage& result, const NormalEquations& from);
  Image result(const ArrayMessage& result, const Image& from);
  /// Takes images of an item's voxels. Where `part` is not null, data may be real, too, and it tells: complex, real,
  /// or, without negative numbers, magnitude.
  template <class From>
  CoilImages images(const ArrayMessage& result, const From& from, numerics::Component* part) {
    return images(result, from.frame, voxels_of(from), part);
  }

 private:
  template <class T>
  void add(ArrayMessage& to, const char* name, const Array<T>& array);
  CoilImages images(const ArrayMessage& result, const std::shared_ptr<const Frame>& frame,
                    const numerics::Shape& voxels, numerics::Component* part);
  static numerics::Shape voxels_of(const CoilImages& images);
  static numerics::Shape voxels_of(const NormalEquations& equations);
  static numerics::Shape voxels_of(const KSpace& kspace) { return kspace.image; }
  numerics::Shape voxels_of(const Samples& samples) const { return voxels_.at(samples.frame->key.encoding); }

  Scan& scan_;
  const std::shared_ptr<SharedArea> area_;
  std::vector<numerics::Shape> voxels_;  // [z, y, x] of images, by encoding
};

}  // namespace echotrain
