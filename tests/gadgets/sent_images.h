// A sent image is one as clients send it, for tests of pipelines whose input is images.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/data/meta.h"
#include "tests/gadgets/scan.h"

namespace echotrain::testing {

template <class T>
constexpr std::uint16_t wire_type() {
  if constexpr (std::is_same_v<T, std::uint16_t>) return 1;
  if constexpr (std::is_same_v<T, std::int16_t>) return 2;
  if constexpr (std::is_same_v<T, std::uint32_t>) return 3;
  if constexpr (std::is_same_v<T, std::int32_t>) return 4;
  if constexpr (std::is_same_v<T, float>) return 5;
  if constexpr (std::is_same_v<T, double>) return 6;
  if constexpr (std::is_same_v<T, cfloat>) return 7;
  return 8;
}

/// Attributes with one value, or several of one name, each in its own element.
using Attributes = std::vector<std::pair<std::string, std::string>>;
inline std::string attributes_xml(const Attributes& attributes) {
  std::string xml = "<?xml version=\"1.0\"?><ismrmrdMeta>";
  for (const auto& [name, value] : attributes)
    xml += "<meta><name>" + name + "</name><value>" + value + "</value></meta>";
  return xml + "</ismrmrdMeta>";
}

/// An axial image of 2 mm voxels; pixels: [channel, z, y, x].
template <class T>
protocol::Image sent_image(const std::vector<T>& pixels, const std::array<int, 3>& matrix, const Attributes& meta = {},
                           int image_type = 1) {
  protocol::Image out;
  out.head.version = 1;
  out.head.data_type = wire_type<T>();
  out.head.image_type = static_cast<std::uint16_t>(image_type);
  out.head.channels =
      static_cast<std::uint16_t>(pixels.size() / static_cast<std::size_t>(matrix[0] * matrix[1] * matrix[2]));
  for (std::size_t a = 0; a < 3; ++a) {
    out.head.matrix_size[a] = static_cast<std::uint16_t>(matrix[a]);
    out.head.field_of_view[a] = 2.0f * static_cast<float>(matrix[a]);
  }
  out.head.read_dir[0] = out.head.phase_dir[1] = out.head.slice_dir[2] = 1;
  out.head.image_series_index = 1;
  out.head.image_index = 1;
  if (!meta.empty()) out.attributes = attributes_xml(meta);
  out.pixels = protocol::Payload::take(pixels);
  return out;
}

inline protocol::Header no_measurement() { return *protocol::parse_header("Dummy XML header", {}); }

/// Runs a pipeline whose input is images.
inline Outcome run_images(const std::string& gadgets, std::vector<protocol::Image> images, RunOptions options = {},
                          const protocol::Header& measurement = no_measurement()) {
  options.images = std::move(images);
  return run(yaml(gadgets, "input: images\n"), measurement, {}, options);
}

/// All values of an attribute, in order.
inline std::vector<std::string> meta_of(const protocol::Image& image, const std::string& name) {
  std::vector<std::string> values;
  for (const auto& [key, value] : protocol::meta_values(image.attributes))
    if (key == name) values.push_back(value);
  return values;
}
using Values = std::vector<std::string>;

}  // namespace echotrain::testing
