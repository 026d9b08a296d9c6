#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "protocol/data/meta.h"
#include "protocol/data/text.h"
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

/// `from`: n elements of T at any even address.
template <class T, std::size_t n>
void set_list(Value& record, std::string_view name, const void* from) {
  std::array<T, n> values;
  std::memcpy(values.data(), from, sizeof(values));
  List items;
  for (const T value : values) {
    if constexpr (std::is_floating_point_v<T>)
      items.push_back(real(value));
    else if constexpr (std::is_signed_v<T>)
      items.push_back({std::int64_t{value}});
    else
      items.push_back(natural(value));
  }
  record[name].content = std::move(items);
}

/// `from`: three floats at any even address.
void set_vector(Value& record, std::string_view name, const void* from) {
  std::vector<float> values(3);
  std::memcpy(values.data(), from, 3 * sizeof(float));
  record[name].content = Numbers{{3}, Payload::take(std::move(values))};
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
  set(head, "flags", natural(from.flags));
  set(head, "measurementUid", natural(from.measurement_uid));
  set(head, "scanCounter", natural(from.scan_counter));
  set(head, "acquisitionTimeStamp", natural(from.acquisition_time_stamp));
  set_list<std::uint32_t, ISMRMRD::ISMRMRD_PHYS_STAMPS>(head, "physiologyTimeStamp", from.physiology_time_stamp);
  set(head, "channelOrder", {channels_of(from)});
  set(head, "discardPre", natural(from.discard_pre));
  set(head, "discardPost", natural(from.discard_post));
  set(head, "centerSample", natural(from.center_sample));
  set(head, "encodingSpaceRef", natural(from.encoding_space_ref));
  set(head, "sampleTimeUs", real(from.sample_time_us));
  set_vector(head, "position", from.position);
  set_vector(head, "readDir", from.read_dir);
  set_vector(head, "phaseDir", from.phase_dir);
  set_vector(head, "sliceDir", from.slice_dir);
  set_vector(head, "patientTablePosition", from.patient_table_position);
  set_list<std::int32_t, ISMRMRD::ISMRMRD_USER_INTS>(head, "userInt", from.user_int);
  set_list<float, ISMRMRD::ISMRMRD_USER_FLOATS>(head, "userFloat", from.user_float);
  Value& idx = head["idx"];
  set(idx, "kspaceEncodeStep1", natural(from.idx.kspace_encode_step_1));
  set(idx, "kspaceEncodeStep2", natural(from.idx.kspace_encode_step_2));
  set(idx, "average", natural(from.idx.average));
  set(idx, "slice", natural(from.idx.slice));
  set(idx, "contrast", natural(from.idx.contrast));
  set(idx, "phase", natural(from.idx.phase));
  set(idx, "repetition", natural(from.idx.repetition));
  set(idx, "set", natural(from.idx.set));
  set(idx, "segment", natural(from.idx.segment));
  set_list<std::uint16_t, ISMRMRD::ISMRMRD_USER_INTS>(idx, "user", from.idx.user);
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
  set(out, "flags", natural(from.flags));
  set(out, "measurementUid", natural(from.measurement_uid));
  set(out, "scanCounter", natural(from.scan_counter));
  set(out, "timeStamp", natural(from.time_stamp));
  set(out, "sampleTimeUs", real(from.sample_time_us));
  set(out, "waveformId", natural(from.waveform_id));
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
  set(head, "flags", natural(from.flags));
  set(head, "measurementUid", natural(from.measurement_uid));
  set_vector(head, "fieldOfView", from.field_of_view);
  set_vector(head, "position", from.position);
  set_vector(head, "colDir", from.read_dir);
  set_vector(head, "lineDir", from.phase_dir);
  set_vector(head, "sliceDir", from.slice_dir);
  set_vector(head, "patientTablePosition", from.patient_table_position);
  set(head, "average", natural(from.average));
  set(head, "slice", natural(from.slice));
  set(head, "contrast", natural(from.contrast));
  set(head, "phase", natural(from.phase));
  set(head, "repetition", natural(from.repetition));
  set(head, "set", natural(from.set));
  set(head, "acquisitionTimeStamp", natural(from.acquisition_time_stamp));
  set_list<std::uint32_t, ISMRMRD::ISMRMRD_PHYS_STAMPS>(head, "physiologyTimeStamp", from.physiology_time_stamp);
  set(head, "imageType", {std::int64_t{from.image_type == 0 ? assumed : from.image_type}});
  set(head, "imageIndex", natural(from.image_index));
  set(head, "imageSeriesIndex", natural(from.image_series_index));
  set_list<std::int32_t, ISMRMRD::ISMRMRD_USER_INTS>(head, "userInt", from.user_int);
  set_list<float, ISMRMRD::ISMRMRD_USER_FLOATS>(head, "userFloat", from.user_float);
  List entries = meta_entries(image.attributes);
  meta_lost = entries.empty() && !image.attributes.empty();
  out["meta"].content = std::move(entries);
  out["data"].content =
      Numbers{{from.channels, from.matrix_size[2], from.matrix_size[1], from.matrix_size[0]}, image.pixels};
  return out;
}

}  // namespace echotrain::protocol::mrd2
