#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "server/console/download/chosen_images.h"

namespace echotrain::server {

namespace {

/// Counts how often magnitudes occur, by the upper 16 bits that a float has beside its sign: to 1/256 of a value.
class Magnitudes {
 public:
  void add(const std::vector<float>& values) {
    for (const float value : values) {
      if (!std::isfinite(value)) continue;
      ++counts_[std::bit_cast<std::uint32_t>(std::abs(value)) >> kBits];
      ++all_;
    }
  }
  /// Returns the value that a fraction of all does not exceed.
  float quantile(double fraction) const {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(all_)));
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i)
      if ((sum += counts_[i]) >= wanted && sum > 0)
        return std::bit_cast<float>(static_cast<std::uint32_t>((i << kBits) | ((1U << kBits) - 1)));
    return 0;
  }

 private:
  static constexpr int kBits = 15;
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(std::size_t{1} << 16);
  std::uint64_t all_ = 0;
};

std::string png_of(const std::vector<std::uint8_t>& grey, std::size_t width, std::size_t height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_GRAY;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(bytes, '\0');
  if (grey.size() != width * height ||
      png_image_write_to_memory(&image, out.data(), &bytes, 0, grey.data(), 0, nullptr) == 0)
    throw DownloadError(409, fmt::format("an image cannot be told as a picture: {}", image.message));
  out.resize(bytes);
  return out;
}

/// A picture of 8 bits for each plane, with one window for all images of a series.
class PngDownload final : public ZipDownload {
 public:
  PngDownload(std::uint64_t scan, ChosenImages images) : scan_(scan), images_(std::move(images)) {}

  void plan() override {
    name_ = fmt::format("scan_{}_png.zip", scan_);
    std::uint64_t files = 0, bytes = 0;
    for (const auto& [index, numbers] : images_.by_series()) {
      series_.push_back({index, numbers});
      for (const std::size_t i : numbers) {
        const protocol::ImageHeader& head = images_.head(i);
        const std::uint64_t planes = std::uint64_t{head.channels} * head.matrix_size[2];
        files += planes;
        bytes += planes * (std::uint64_t{head.matrix_size[0]} * head.matrix_size[1] + 1024);
      }
    }
    require_room(files, bytes);
  }

 private:
  struct Series {
    std::uint16_t index;
    std::vector<std::size_t> numbers;
  };

  bool more(std::string& piece) override {
    if (at_ == series_.size()) return false;
    const Series& series = series_[at_];
    const auto image = images_.get(series.numbers[number_]);
    const protocol::ImageHeader& head = image->image.head;
    const std::size_t planes = std::size_t{head.channels} * head.matrix_size[2];
    const std::vector<float> values =
        plane_values(image->image, plane_ / head.matrix_size[2], plane_ % head.matrix_size[2], ViewPart::magnitude);
    if (measuring_) {
      magnitudes_.add(values);
    } else {
      std::string name = fmt::format("series_{}_{:04}{}", series.index, number_ + 1,
                                     channel_suffix(head, plane_ / head.matrix_size[2]));
      if (head.matrix_size[2] > 1) name += fmt::format("_z{:03}", plane_ % head.matrix_size[2]);
      const protocol::PixelPart part =
          protocol::is_complex(head) ? ViewPart::magnitude : protocol::part_of(head.image_type);
      piece = zip_.file(name + ".png", png_of(protocol::to_grey(values, protocol::grey_window(part, shown_)),
                                              head.matrix_size[0], head.matrix_size[1]));
    }
    if (++plane_ < planes) return true;
    plane_ = 0;
    if (++number_ < series.numbers.size()) return true;
    number_ = 0;
    if (measuring_) {
      shown_ = magnitudes_.quantile(protocol::kShownShare);
    } else {
      ++at_;
      magnitudes_ = {};
    }
    measuring_ = !measuring_;
    return true;
  }

  const std::uint64_t scan_;
  const ChosenImages images_;
  std::vector<Series> series_;
  std::size_t at_ = 0, number_ = 0, plane_ = 0;
  bool measuring_ = true;
  Magnitudes magnitudes_;
  float shown_ = 0;
};

}  // namespace

std::unique_ptr<Download> make_png(std::uint64_t scan, ChosenImages images) {
  return std::make_unique<PngDownload>(scan, std::move(images));
}

}  // namespace echotrain::server
