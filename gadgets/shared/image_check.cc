#include "gadgets/shared/image_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "protocol/data/meta.h"

namespace echotrain {
namespace {

using numerics::PixelTally;

/// Calls look(elements, n) for one piece after another; the bytes may have any alignment.
template <class T, class Look>
void for_pieces(std::span<const std::byte> bytes, Look&& look) {
  constexpr std::size_t kPiece = 2048;
  T piece[kPiece];
  while (bytes.size() >= sizeof(T)) {
    const std::size_t n = std::min(kPiece, bytes.size() / sizeof(T));
    std::memcpy(piece, bytes.data(), n * sizeof(T));
    look(piece, n);
    bytes = bytes.subspan(n * sizeof(T));
  }
}

template <class T>
void count_integers(std::span<const std::byte> bytes, PixelTally& tally) {
  T any = 0;
  for_pieces<T>(bytes, [&any](const T* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) any |= values[i];
  });
  tally.any = any != 0 ? 1 : 0;
}

/// Checks bits. Word: the bits of a float or double; `infinity`: those of infinity. Pixels have `parts` of them.
template <class Word, std::size_t parts>
void count_floats(std::span<const std::byte> bytes, Word infinity, PixelTally& tally) {
  constexpr Word kSize = static_cast<Word>(~Word{0}) >> 1;
  Word any = 0;
  for_pieces<std::array<Word, parts>>(bytes, [&](const std::array<Word, parts>* pixels, std::size_t n) {
    Word not_finite = 0;
    for (std::size_t i = 0; i < n; ++i) {
      Word most = 0;
      for (const Word part : pixels[i]) most = std::max(most, part & kSize);
      not_finite += most >= infinity ? 1 : 0;
      any |= most;
    }
    tally.not_finite += not_finite;
  });
  tally.any = any != 0 ? 1 : 0;
}

PixelTally tally_of(const protocol::Image& image) {
  constexpr std::uint32_t kFloat = 0x7f800000u;
  constexpr std::uint64_t kDouble = 0x7ff0000000000000u;
  const std::span<const std::byte> bytes = image.pixels.bytes;
  PixelTally tally;
  switch (image.head.data_type) {
    case ISMRMRD::ISMRMRD_FLOAT:
      count_floats<std::uint32_t, 1>(bytes, kFloat, tally);
      break;
    case ISMRMRD::ISMRMRD_DOUBLE:
      count_floats<std::uint64_t, 1>(bytes, kDouble, tally);
      break;
    case ISMRMRD::ISMRMRD_CXFLOAT:
      count_floats<std::uint32_t, 2>(bytes, kFloat, tally);
      break;
    case ISMRMRD::ISMRMRD_CXDOUBLE:
      count_floats<std::uint64_t, 2>(bytes, kDouble, tally);
      break;
    default:  // uint16, int16, uint32, int32
      count_integers<std::uint16_t>(bytes, tally);
  }
  return tally;
}

std::uint64_t pixels_of(const protocol::ImageHeader& head) {
  std::uint64_t n = head.channels;
  for (const std::uint16_t extent : head.matrix_size) n *= extent;
  return n;
}

// The texts about images, by the kinds of ImageCheck; advice is for images that were made of samples.
constexpr std::array<const char*, 3> kFound{" are not finite (infinite or not a number)",
                                            " are larger than 65535 and were cut to that", " is zero everywhere"};
constexpr const char* kCut = " are beyond what their type holds and were cut to that";
constexpr std::array<const char*, 3> kAdvice{
    ": the samples, or what is made of them, are larger than single precision holds (3.4e38); scale them down",
    "; lower the pipeline's scale, or let image have {type: float}",
    ": the samples are zero, or what is made of them is smaller than single precision or the type of the pixels holds; "
    "scale them up"};

}  // namespace

void ImageCheck::look(Image& image) {
  const PixelTally tally = image.tally ? *image.tally.data() : tally_of(image.message);
  const std::uint64_t pixels = pixels_of(image.message.head);
  if (tally.not_finite > 0) note(kNotFinite, tally.not_finite, "echotrain_not_finite_pixels", image);
  if (tally.saturated > 0) note(kSaturated, tally.saturated, "echotrain_saturated_pixels", image);
  if (tally.any == 0 && tally.not_finite == 0 && pixels > 0) note(kAllZero, 1, "echotrain_all_zero", image);
}

void ImageCheck::note(std::size_t kind, std::uint64_t pixels, const char* attribute, Image& image) {
  const protocol::ImageHeader head = image.message.head;
  try {
    if (image.frame) {
      protocol::add_meta(image.message.attributes, attribute, std::to_string(pixels));
      image.message.head.attribute_string_len = static_cast<std::uint32_t>(image.message.attributes.size());
    }
  } catch (const std::bad_alloc&) {  // it is still counted
  }
  const std::scoped_lock lock(mutex_);
  news_ = true;
  if (++kinds_.at(kind).images > 1) return;
  try {
    const bool sent = !image.frame;  // by the client
    const std::string which =
        fmt::format("image {} of series {}{}", +head.image_index, +head.image_series_index,  // + copies packed fields
                    sent ? ", which the client sent," : "");
    const std::string what =
        (kind == kAllZero ? which : fmt::format("{} of {} pixels of {}", pixels, pixels_of(head), which)) +
        (kind == kSaturated && head.data_type != ISMRMRD::ISMRMRD_USHORT ? kCut : kFound.at(kind));
    const bool own_samples = !sent && !image.frame->source;  // advice on samples is for senders of samples
    kinds_.at(kind).first = sent ? what + "; further ones are only counted"
                                 : what + (own_samples ? kAdvice.at(kind) : "") +
                                       "; further such images are only counted, and their meta attributes say so";
  } catch (const std::bad_alloc&) {  // it is still counted
  }
}

void ImageCheck::report(Scan& scan) {
  if (!news_.exchange(false)) return;
  const std::scoped_lock lock(mutex_);
  scan.numbers.images_not_finite = kinds_[kNotFinite].images;
  scan.numbers.images_saturated = kinds_[kSaturated].images;
  scan.numbers.images_all_zero = kinds_[kAllZero].images;
  for (Kind& kind : kinds_) {
    if (kind.first.empty()) continue;
    scan.warn(kind.first);
    kind.first.clear();
  }
}

}  // namespace echotrain
