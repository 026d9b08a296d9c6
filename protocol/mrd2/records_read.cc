#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <pugixml.hpp>
#include <span>
#include <sstream>
#include <type_traits>
#include <utility>

#include "protocol/mrd2/head_fields.h"
#include "protocol/mrd2/model.h"
#include "protocol/mrd2/records.h"

namespace echotrain::protocol::mrd2 {
namespace {

constexpr std::uint64_t kMostTrajectoryDimensions = 3;
constexpr std::size_t kMaskBits = 64;

const Value& field_of(const Value& record, std::string_view name) {
  const Value* found = record.find(name);
  if (found == nullptr) throw DoesNotFit(fmt::format("the stream's records have no field '{}'", name));
  return *found;
}

/// A number of a field that may be absent, as T.
template <class T>
T whole(const Value& value, std::string_view name) {
  const auto fits = [&](auto number) {
    if (std::cmp_greater(number, std::numeric_limits<T>::max()) || std::cmp_less(number, std::numeric_limits<T>::min()))
      throw DoesNotFit(fmt::format("{} is {}; at most {} fits", name, number, std::numeric_limits<T>::max()));
    return static_cast<T>(number);
  };
  if (const auto* natural = std::get_if<std::uint64_t>(&value.content)) return fits(*natural);
  if (const auto* integer = std::get_if<std::int64_t>(&value.content)) return fits(*integer);
  if (value.is_null()) return 0;
  throw DoesNotFit(fmt::format("{} is no whole number", name));
}

/// A field that may be absent, as T. The headers' fields lie at any even address, so no reference is made to them.
template <class T>
T get(const Value& record, std::string_view name) {
  const Value& value = field_of(record, name);
  if constexpr (std::is_floating_point_v<T>) {
    if (value.is_null()) return 0;
    const auto* number = std::get_if<double>(&value.content);
    if (number == nullptr) throw DoesNotFit(fmt::format("{} is no number", name));
    return static_cast<T>(*number);
  } else {
    return whole<T>(value, name);
  }
}

template <class T, std::size_t n>
std::array<T, n> list(const Value& record, std::string_view name) {
  std::array<T, n> out{};
  const auto* items = std::get_if<List>(&field_of(record, name).content);
  if (items == nullptr) throw DoesNotFit(fmt::format("{} is no list", name));
  if (items->size() > n) throw DoesNotFit(fmt::format("{} has {} values; at most {} fit", name, items->size(), n));
  for (std::size_t i = 0; i < items->size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      if (const auto* number = std::get_if<double>(&(*items)[i].content)) out[i] = static_cast<T>(*number);
    } else {
      out[i] = whole<T>((*items)[i], name);
    }
  }
  return out;
}

/// Elements of a field's array, which has to be of this type and number of dimensions.
const Numbers& numbers(const Value& record, std::string_view name, std::string_view items, std::size_t dimensions) {
  const Value& value = field_of(record, name);
  const auto* found = std::get_if<Numbers>(&value.content);
  if (found == nullptr || value.type->items->name != items || found->shape.size() != dimensions)
    throw DoesNotFit(fmt::format("{} is no array of {} with {} dimensions", name, items, dimensions));
  return *found;
}

std::uint16_t side(std::uint64_t length, std::string_view what) {
  if (length > std::numeric_limits<std::uint16_t>::max())
    throw DoesNotFit(fmt::format("it has {} {}; at most 65535 fit", length, what));
  return static_cast<std::uint16_t>(length);
}

template <class T>
void store(const T& value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

void read_vector(const Value& record, std::string_view name, std::byte* to) {
  const Numbers& from = numbers(record, name, "float32", 1);
  if (from.shape[0] != 3) throw DoesNotFit(fmt::format("{} has {} values; 3 are needed", name, from.shape[0]));
  std::memcpy(to, from.elements.bytes.data(), 3 * sizeof(float));
}

void read_field(const Value& record, const HeadField& field, std::byte* to) {
  switch (field.kind) {
    case FieldKind::u16:
      return store(get<std::uint16_t>(record, field.name), to);
    case FieldKind::u32:
      return store(get<std::uint32_t>(record, field.name), to);
    case FieldKind::u64:
      return store(get<std::uint64_t>(record, field.name), to);
    case FieldKind::real:
      return store(get<float>(record, field.name), to);
    case FieldKind::vector:
      return read_vector(record, field.name, to);
    case FieldKind::stamps:
      return store(list<std::uint32_t, ISMRMRD::ISMRMRD_PHYS_STAMPS>(record, field.name), to);
    case FieldKind::user_u16:
      return store(list<std::uint16_t, ISMRMRD::ISMRMRD_USER_INTS>(record, field.name), to);
    case FieldKind::user_i32:
      return store(list<std::int32_t, ISMRMRD::ISMRMRD_USER_INTS>(record, field.name), to);
    case FieldKind::user_real:
      return store(list<float, ISMRMRD::ISMRMRD_USER_FLOATS>(record, field.name), to);
  }
}

template <class Head>
void read_fields(const Value& record, std::span<const HeadField> fields, Head& head) {
  for (const HeadField& field : fields) read_field(record, field, reinterpret_cast<std::byte*>(&head) + field.at);
}

void read_channels(const Value& head, AcquisitionHeader& to) {
  std::vector<std::uint16_t> channels;
  if (const auto* order = std::get_if<List>(&field_of(head, "channelOrder").content))
    for (const Value& each : *order) channels.push_back(whole<std::uint16_t>(each, "channelOrder"));
  const bool known = channels.size() == to.active_channels;
  to.available_channels = to.active_channels;
  for (std::uint16_t i = 0; i < to.active_channels; ++i) {
    const std::uint16_t channel = known ? channels[i] : i;
    if (channel >= kMaskBits * ISMRMRD::ISMRMRD_CHANNEL_MASKS)
      throw DoesNotFit(fmt::format("channel {} is used; the last that fits is {}", channel,
                                   kMaskBits * ISMRMRD::ISMRMRD_CHANNEL_MASKS - 1));
    to.channel_mask[channel / kMaskBits] |= std::uint64_t{1} << channel % kMaskBits;
    to.available_channels = std::max<std::uint16_t>(to.available_channels, channel + 1);
  }
}

/// Turns [dimension, sample] into [sample, dimension].
Payload turned(const Numbers& from, std::size_t dimensions, std::size_t samples) {
  std::vector<float> in(dimensions * samples), out(dimensions * samples);
  from.elements.copy_to(in.data());
  for (std::size_t d = 0; d < dimensions; ++d)
    for (std::size_t s = 0; s < samples; ++s) out[s * dimensions + d] = in[d * samples + s];
  return Payload::take(std::move(out));
}

std::string text_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value.content)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&value.content)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value.content)) return fmt::format("{}", *number);
  return "";
}

std::string attributes_of(const Value& meta) {
  const auto* entries = std::get_if<List>(&meta.content);
  if (entries == nullptr || entries->empty()) return "";
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("ismrmrdMeta");
  for (std::size_t i = 0; i + 1 < entries->size(); i += 2) {
    pugi::xml_node node = root.append_child("meta");
    node.append_child("name").text().set(text_of((*entries)[i]).c_str());
    if (const auto* values = std::get_if<List>(&(*entries)[i + 1].content))
      for (const Value& value : *values) node.append_child("value").text().set(text_of(value).c_str());
  }
  std::ostringstream text;
  document.save(text, "", pugi::format_raw | pugi::format_no_declaration, pugi::encoding_utf8);
  return text.str();
}

}  // namespace

Acquisition read_acquisition(const Value& record) {
  Acquisition out;
  AcquisitionHeader& to = out.head;
  const Value& head = field_of(record, "head");
  const Numbers& data = numbers(record, "data", "complexfloat32", 2);
  const Numbers& trajectory = numbers(record, "trajectory", "float32", 2);
  to.version = 1;
  read_fields(head, kAcquisitionFields, to);
  read_fields(field_of(head, "idx"), kCounterFields, to.idx);
  to.active_channels = side(data.shape[0], "coils");
  to.number_of_samples = side(data.shape[1], "samples");
  read_channels(head, to);
  out.data = data.elements;
  if (trajectory.elements.bytes.empty()) return out;
  if (trajectory.shape[0] > kMostTrajectoryDimensions)
    throw DoesNotFit(fmt::format("its trajectory has {} dimensions; at most 3 are allowed", trajectory.shape[0]));
  if (trajectory.shape[1] != to.number_of_samples)
    throw DoesNotFit(
        fmt::format("its trajectory has {} samples, and its data have {}", trajectory.shape[1], +to.number_of_samples));
  to.trajectory_dimensions = static_cast<std::uint16_t>(trajectory.shape[0]);
  out.trajectory = turned(trajectory, trajectory.shape[0], trajectory.shape[1]);
  return out;
}

Waveform read_waveform(const Value& record) {
  Waveform out;
  WaveformHeader& to = out.head;
  const Numbers& data = numbers(record, "data", "uint32", 2);
  to.version = 1;
  read_fields(record, kWaveformFields, to);
  to.channels = side(data.shape[0], "channels");
  to.number_of_samples = side(data.shape[1], "samples");
  out.data = data.elements;
  return out;
}

Image read_image(const Value& record) {
  Image out;
  ImageHeader& to = out.head;
  const Value& head = field_of(record, "head");
  const std::string pixels = field_of(record, "data").type->items ? field_of(record, "data").type->items->name : "";
  const auto* const type = std::find(kPixelTypes.begin(), kPixelTypes.end(), pixels);
  if (type == kPixelTypes.end()) throw DoesNotFit(fmt::format("its pixels are '{}'", pixels));
  const Numbers& data = numbers(record, "data", pixels, 4);
  to.version = 1;
  to.data_type = static_cast<std::uint16_t>(type - kPixelTypes.begin() + 1);
  read_fields(head, kImageFields, to);
  to.channels = side(data.shape[0], "channels");
  for (std::size_t axis = 0; axis < 3; ++axis)
    to.matrix_size[axis] = side(data.shape[3 - axis], "pixels along an axis");
  if (data.elements.bytes.empty()) throw DoesNotFit("it has no pixels");
  to.image_type = get<std::uint16_t>(head, "imageType");
  out.attributes = attributes_of(field_of(record, "meta"));
  to.attribute_string_len = static_cast<std::uint32_t>(out.attributes.size());
  out.pixels = data.elements;
  return out;
}

}  // namespace echotrain::protocol::mrd2
