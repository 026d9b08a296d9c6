#include "clients/cpp/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <ostream>
#include <stdexcept>

#include "clients/cpp/errors.h"
#include "clients/cpp/pixels.h"
#include "clients/cpp/png_writer.h"
#include "protocol/dataset.h"

namespace echotrain::client {
namespace {

struct Window {
  float low = 0, high = 1;
};

std::vector<float> shown(const Pixels& pixels) {
  std::vector<float> values;
  values.reserve(pixels.values.size());
  for (const auto& v : pixels.values) values.push_back(static_cast<float>(pixels.is_complex ? std::abs(v) : v.real()));
  return values;
}

Window window_of(const protocol::DatasetReader& reader, const std::string& series) {
  const auto type = reader.image(series, 0).head.image_type;
  if (type == ISMRMRD::ISMRMRD_IMTYPE_PHASE) return {-std::numbers::pi_v<float>, std::numbers::pi_v<float>};
  std::vector<float> magnitudes;
  for (std::size_t i = 0; i < reader.images(series); ++i) {
    for (const float v : shown(read_pixels(reader.image(series, i)))) magnitudes.push_back(std::abs(v));
  }
  const float high = percentile(magnitudes, 99.5);
  const bool is_signed = type == ISMRMRD::ISMRMRD_IMTYPE_REAL || type == ISMRMRD::ISMRMRD_IMTYPE_IMAG;
  return {is_signed ? -high : 0, high};
}

}  // namespace

void export_images(const ExportOptions& o, std::ostream& out) {
  if (!o.window.empty() && (o.window.size() != 2 || !(o.window[0] < o.window[1]))) {
    throw UsageError("--window takes two values, the lower one first");
  }
  const protocol::DatasetReader reader(o.input, o.group);
  std::vector<std::string> names = reader.image_series();
  if (!o.series.empty()) {
    if (std::find(names.begin(), names.end(), o.series) == names.end()) {
      throw std::runtime_error(
          fmt::format("{}: has no image series '{}'; it has: {}", o.input.string(), o.series, fmt::join(names, ", ")));
    }
    names = {o.series};
  }
  if (names.empty()) throw std::runtime_error(o.input.string() + ": holds no images");
  std::filesystem::create_directories(o.png);
  std::size_t written = 0;
  for (const auto& name : names) {
    if (reader.images(name) == 0) continue;
    const Window window = o.window.empty() ? window_of(reader, name)
                                           : Window{static_cast<float>(o.window[0]), static_cast<float>(o.window[1])};
    for (std::size_t i = 0; i < reader.images(name); ++i) {
      const Pixels pixels = read_pixels(reader.image(name, i));
      const auto grey = to_grey(shown(pixels), window.low, window.high);
      for (std::size_t plane = 0; plane < pixels.channels * pixels.z; ++plane) {
        std::string file = fmt::format("{}_{:03}", name, i);
        if (pixels.channels > 1) file += fmt::format("_c{:02}", plane / pixels.z);
        if (pixels.z > 1) file += fmt::format("_z{:03}", plane % pixels.z);
        const std::size_t size = pixels.y * pixels.x;
        write_png(o.png / (file + ".png"), pixels.x, pixels.y, std::span(grey).subspan(plane * size, size));
        ++written;
      }
    }
    out << fmt::format("{}: {} images, window {:g} .. {:g}\n", name, reader.images(name), window.low, window.high);
  }
  out << fmt::format("{} pictures written to {}\n", written, o.png.string());
}

}  // namespace echotrain::client
