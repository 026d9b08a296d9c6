#include "server/console/live/image_view.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/data/meta.h"
#include "protocol/data/text.h"

namespace echotrain::server {

namespace {

struct Plane {
  std::size_t width = 0, height = 0;
  std::vector<float> values;
};

Plane plane_of(const protocol::Image& image, std::size_t channel, std::size_t z, ViewPart part) {
  const protocol::ImageHeader& head = image.head;
  Plane plane{head.matrix_size[0], head.matrix_size[1], {}};
  const std::size_t size = plane.width * plane.height, first = (channel * head.matrix_size[2] + z) * size;
  const std::size_t each = protocol::bytes_per_pixel(head.data_type);
  // Nothing is sent of an image that has fewer pixels than its header says: the header alone must not take memory.
  if (each == 0 || (first + size) * each > image.pixels.bytes.size()) return {};
  plane.values = protocol::pixel_values(image.pixels, head.data_type, first, size, part);
  return plane;
}

/// `mean`: of the pixels that one stands for, else the first of them.
Plane shrunk(const Plane& plane, std::size_t by, bool mean) {
  Plane small{(plane.width + by - 1) / by, (plane.height + by - 1) / by, {}};
  small.values.resize(small.width * small.height);
  for (std::size_t y = 0; y < small.height; ++y)
    for (std::size_t x = 0; x < small.width; ++x) {
      const std::size_t end_y = std::min(plane.height, (y + 1) * by), end_x = std::min(plane.width, (x + 1) * by);
      float sum = 0;
      for (std::size_t v = y * by; v < end_y; ++v)
        for (std::size_t u = x * by; u < end_x; ++u) sum += plane.values[v * plane.width + u];
      const auto pixels = static_cast<float>((end_y - y * by) * (end_x - x * by));
      small.values[y * small.width + x] = mean ? sum / pixels : plane.values[y * by * plane.width + x * by];
    }
  return small;
}

const char* type_name(const protocol::ImageHeader& head) {
  switch (head.image_type) {
    case 1:
      return "magnitude";
    case 2:
      return "phase";
    case 3:
      return "real";
    case 4:
      return "imaginary";
    case 5:
      return "complex";
    default:
      return protocol::is_complex(head) ? "complex" : "image";
  }
}

std::optional<double> finite_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// What the meta attributes of a map say; null for other images, and for attributes that are too long to be read for
/// each viewer.
nlohmann::ordered_json map_of(const std::string& attributes) {
  constexpr std::size_t kLongest = 64 << 10, kLongestName = 16;
  constexpr std::string_view kMark = "map_quantity";
  if (attributes.size() > kLongest || attributes.find(kMark) == std::string::npos) return nullptr;
  std::map<std::string, std::string, std::less<>> said;  // the first value of each
  protocol::for_each_meta(attributes, [&](std::string_view name, std::string_view value) {
    if (name.size() <= kMark.size() + kLongestName) said.try_emplace(std::string(name), value);
  });
  if (!said.contains(kMark)) return nullptr;
  const auto text = [&](const char* name) { return protocol::printable(said[name], kLongestName); };
  const auto number = [&](const char* name) { return finite_number(said[name]); };
  const double slope = number("RescaleSlope").value_or(1);
  const auto center = number("WindowCenter"), width = number("WindowWidth");
  nlohmann::ordered_json window;
  if (center && width && *width > 0) window = {*center - *width / 2, *center + *width / 2};
  return {{"quantity", text("map_quantity")},
          {"unit", text("map_unit")},
          {"deviation", said["map_statistic"] == "sd"},
          {"slope", slope == 0 ? 1 : slope},
          {"intercept", number("RescaleIntercept").value_or(0)},
          {"window", std::move(window)}};
}

nlohmann::ordered_json json_of(const KeptImage& kept) {
  const protocol::ImageHeader& head = kept.image.head;
  const auto list = [](const auto& values) { return std::vector<double>(std::begin(values), std::end(values)); };
  // The header is as on the wire, so that its floats may lie at any even address.
  const auto three = [](const void* floats) {
    std::array<float, 3> values{};
    std::memcpy(values.data(), floats, sizeof(values));
    return std::vector<double>(values.begin(), values.end());
  };
  return {{"number", kept.number},
          {"scan", kept.session},
          {"series", head.image_series_index},
          {"index", head.image_index},
          {"type", type_name(head)},
          {"complex", protocol::is_complex(head)},
          {"slice", head.slice},
          {"contrast", head.contrast},
          {"phase", head.phase},
          {"repetition", head.repetition},
          {"set", head.set},
          {"average", head.average},
          {"matrix", list(head.matrix_size)},
          {"channels", head.channels},
          {"fov_mm", three(&head.field_of_view)},
          {"position", three(&head.position)},
          {"read_dir", three(&head.read_dir)},
          {"phase_dir", three(&head.phase_dir)},
          {"slice_dir", three(&head.slice_dir)},
          {"map", map_of(kept.image.attributes)}};
}

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::vector<float> plane_values(const protocol::Image& image, std::size_t channel, std::size_t z, ViewPart part) {
  return plane_of(image, channel, z, part).values;
}

std::string view_of(const KeptImage& kept, const ViewRequest& wish) {
  const protocol::ImageHeader& head = kept.image.head;
  const auto within = [](int value, std::size_t count) {
    return std::min(static_cast<std::size_t>(std::max(0, value)), std::max<std::size_t>(1, count) - 1);
  };
  const std::size_t channel = within(wish.channel, head.channels), z = within(wish.z, head.matrix_size[2]);
  const bool phases = protocol::is_complex(head) ? wish.part == ViewPart::phase : head.image_type == 2;
  Plane plane = plane_of(kept.image, channel, z, wish.part);
  float low = std::numeric_limits<float>::infinity(), high = -low;
  for (const float value : plane.values)
    if (std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  const bool any = low <= high;
  if (wish.shrink > 1) plane = shrunk(plane, static_cast<std::size_t>(wish.shrink), !phases);
  nlohmann::ordered_json json = json_of(kept);
  json["z"] = z;
  json["channel"] = channel;
  json["part"] = phases ? "phase" : "magnitude";
  json["low"] = any ? low : 0;
  json["high"] = any ? high : 0;
  json["shrink"] = wish.shrink;
  json["width"] = plane.width;
  json["height"] = plane.height;
  std::string text = dumped(json);
  text.resize((text.size() + 3) / 4 * 4, ' ');
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  out += text;
  out.append(reinterpret_cast<const char*>(plane.values.data()), plane.values.size() * sizeof(float));
  return out;
}

std::uint64_t view_bytes(const KeptImage& kept, const ViewRequest& wish) {
  constexpr std::uint64_t kHead = 2048;
  const auto shrink = static_cast<std::uint64_t>(std::max(1, wish.shrink));
  const auto pixels = [&](std::size_t a) { return (kept.image.head.matrix_size[a] + shrink - 1) / shrink; };
  return kHead + pixels(0) * pixels(1) * sizeof(float);
}

std::string images_json(const RecentImages& images, std::uint64_t session, std::uint64_t after) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const auto some = images.of(session, after, kMostListed);
  for (const auto& kept : some) all.push_back(json_of(*kept));
  const RecentImages::Extent extent = images.extent(session);
  return dumped({{"first", extent.first},
                 {"more", !some.empty() && extent.last > some.back()->number},
                 {"images", std::move(all)}});
}

}  // namespace echotrain::server
