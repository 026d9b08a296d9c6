#include "clients/cpp/images/png_writer.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gadgets/numerics/core/reduce/reductions.h"

namespace echotrain::client {

void write_png(const std::filesystem::path& file, std::size_t width, std::size_t height,
               std::span<const std::uint8_t> pixels) {
  if (pixels.size() != width * height || pixels.empty())
    throw std::invalid_argument("write_png: pixels do not fill the picture");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_GRAY;
  if (png_image_write_to_file(&image, file.c_str(), 0, pixels.data(), 0, nullptr) == 0) {
    throw std::runtime_error("cannot write " + file.string() + ": " + image.message);
  }
}

float percentile(std::span<const float> values, double percent) {
  const float found =
      numerics::on_host::quantile({values.data(), {static_cast<std::int64_t>(values.size())}}, percent / 100);
  return std::isnan(found) ? 0 : found;
}

}  // namespace echotrain::client
