#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <type_traits>

#include "protocol/data/meta.h"
#include "protocol/data/text.h"
#include "protocol/mrd2/head_fields.h"
#include "protocol/mrd2/model.h"
#include "protocol/mrd2/records.h"

namespace echotrain::protocol::mrd2 {
namespace {

constexpr std::size_t kMaskWordBits = 64;

const Type& record_type(const std::string& name) {
  const Type* type = find_type(model(), name);
  if (type == nullptr) throw std::logic_error("the model has no type " + name);
  return *type;
}

Value natural(std::uint64_t number) { return {number}; }
Value real(double number) { return {number}; }

void set(Value& record, std::string_view name, Value value) { record[name].content = std::move(value.content); }

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T, std::size_t n>
List list_of(const std::byte* from) {
  List items;
  for (const T value : load<std::array<T, n>>(from)) {
    if constexpr (std::is_floating_point_v<T>)
      items.push_back(real(value));
    else if constexpr (std::is_signed_v<T>)
      items.push_back({std::int64_t{value}});
    else
      items.push_back(natural(value));
  }
  return items;
}

Numbers vector_of(const std::byte* from) {
  std::vector<float> values(3);
  std::memcpy(values.data(), from, 3 * sizeof(float));
  return {{3}, Payload::take(std::move(values))};
}

void set_field(Value& record, const HeadField& field, const std::byte* from) {
  auto& to = record[field.name].content;
  switch (field.kind) {
    case FieldKind::u16:
      to = std::uint64_t{load<std::uint16_t>(from)};
      break;
    case FieldKind::u32:
      to = std::uint64_t{load<std::uint32_t>(from)};
      break;
    case FieldKind::u64:
      to = load<std::uint64_t>(from);
      break;
    case FieldKind::real:
      to = double{load<float>(from)};
      break;
    case FieldKind::vector:
      to = vector_of(from);
      break;
    case FieldKind::stamps:
      to = list_of<std::uint32_t, ISMRMRD::ISMRMRD_PHYS_STAMPS>(from);
      break;
    case FieldKind::user_u16:
      to = list_of<std::uint16_t, ISMRMRD::ISMRMRD_USER_INTS>(from);
      break;
    case FieldKind::user_i32:
      to = list_of<std::int32_t, ISMRMRD::ISMRMRD_USER_INTS>(from);
      break;
    case FieldKind::user_real:
      to = list_of<float, ISMRMRD::ISMRMRD_USER_FLOATS>(from);
      break;
  }
}

template <class Head>
void set_fields(Value& record, std::span<const HeadField> fields, const Head& head) {
  for (const HeadField& field : fields) set_field(record, field, reinterpret_cast<const std::byte*>(&head) + field.at);
}

/// The channels of a mask, or all from 0 on where it does not say as many as there are.
List channels_of(const AcquisitionHeader& head) {
  List channels;
  for (std::size_t i = 0; i < kMaskWordBits * ISMRMRD::ISMRMRD_CHANNEL_MASKS; ++i)
    if ((head.channel_mask[i / kMaskWordBits] >> i % kMaskWordBits & 1) != 0) channels.push_back(natural(i));
  if (channels.size() == head.active_channels) return channels;
  channels.clear();
  for (std::size_t i = 0; i < head.active_channels; ++i) channels.push_back(natural(i));
  return channels;
}

Payload trajectory_by_dimension(const Acquisition& readout) {
  const std::size_t dimensions = readout.head.trajectory_dimensions, samples = readout.head.number_of_samples;
  std::vector<float> in(dimensions * samples), out(dimensions * samples);
  if (readout.trajectory.bytes.size() != in.size() * sizeof(float))
    throw DoesNotFit("a readout's trajectory does not fill its samples");
  readout.trajectory.copy_to(in.data());
  for (std::size_t s = 0; s < samples; ++s)
    for (std::size_t d = 0; d < dimensions; ++d) out[d * samples + s] = in[s * dimensions + d];
  return Payload::take(std::move(out));
}

/// Names in the order of their first value, each with all of its values.
List meta_entries(const std::string& attributes) {
  List entries;
  if (!is_utf8(attributes)) return entries;
  for (const auto& [name, value] : meta_values(attributes)) {
    List* values = nullptr;
    for (std::size_t i = 0; i < entries.size() && values == nullptr; i += 2)
      if (std::get<std::string>(entries[i].content) == name) values = &std::get<List>(entries[i + 1].content);
    if (values == nullptr) {
      entries.push_back({name});
      entries.push_back({List()});
      values = &std::get<List>(entries.back().content);
    }
    values->push_back({value});  // the union's first case: a text
  }
  return entries;
}

}  // namespace

Value acquisition_record(const Acquisition& readout) {
  static const Type& type = record_type("Acquisition");
  const AcquisitionHeader& from = readout.head;
  Value out = default_value(type);
  Value& head = out["head"];
  set_fields(head, kAcquisitionFields, from);
  set_fields(head["idx"], kCounterFields, from.idx);
  set(head, "channelOrder", {channels_of(from)});
  out["data"].content = Numbers{{from.active_channels, from.number_of_samples}, readout.data};
  if (from.trajectory_dimensions > 0)
    out["trajectory"].content =
        Numbers{{from.trajectory_dimensions, from.number_of_samples}, trajectory_by_dimension(readout)};
  return out;
}

Value waveform_record(const Waveform& waveform) {
  static const Type& type = record_type("Waveform<uint32>");
  const WaveformHeader& from = waveform.head;
  Value out = default_value(type);
  set_fields(out, kWaveformFields, from);
  out["data"].content = Numbers{{from.channels, from.number_of_samples}, waveform.data};
  return out;
}

Value image_record(const Image& image, bool& meta_lost) {
  const ImageHeader& from = image.head;
  if (from.data_type < 1 || from.data_type > kPixelTypes.size())
    throw DoesNotFit(fmt::format("an image has data type {}; 1 to 8 are known", +from.data_type));
  Value out = default_value(record_type(fmt::format("Image<{}>", kPixelTypes[from.data_type - 1u])));
  Value& head = out["head"];
  const bool is_complex = from.data_type >= ISMRMRD::ISMRMRD_CXFLOAT;
  const std::uint16_t assumed = is_complex ? ISMRMRD::ISMRMRD_IMTYPE_COMPLEX : ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE;
  set_fields(head, kImageFields, from);
  set(head, "imageType", {std::int64_t{from.image_type == 0 ? assumed : from.image_type}});
  List entries = meta_entries(image.attributes);
  meta_lost = entries.empty() && !image.attributes.empty();
  out["meta"].content = std::move(entries);
  out["data"].content =
      Numbers{{from.channels, from.matrix_size[2], from.matrix_size[1], from.matrix_size[0]}, image.pixels};
  return out;
}

}  // namespace echotrain::protocol::mrd2
