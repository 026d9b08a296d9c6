#include "protocol/files/hdf5_types.h"

#include <array>
#include <cstddef>

namespace echotrain::protocol::hdf5 {
namespace {

std::recursive_mutex& mutex() {
  static std::recursive_mutex instance;
  return instance;
}

template <class T>
hid_t native() {
  if constexpr (std::is_same_v<T, std::uint16_t>) return H5T_NATIVE_UINT16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return H5T_NATIVE_UINT32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return H5T_NATIVE_UINT64;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
}

Handle compound(std::size_t size) { return {H5Tcreate(H5T_COMPOUND, size), H5Tclose}; }

// One member of a compound: a number or an array of numbers, as the struct declares it.
template <class T>
void insert(const Handle& type, const char* name, std::size_t offset) {
  using Element = std::remove_extent_t<T>;
  if constexpr (std::is_array_v<T>) {
    const hsize_t n = std::extent_v<T>;
    const Handle array(H5Tarray_create2(native<Element>(), 1, &n), H5Tclose);
    H5Tinsert(type.get(), name, offset, array.get());
  } else {
    H5Tinsert(type.get(), name, offset, native<Element>());
  }
}

// The macro gives a member's name, type and place to HDF5 in one go, so that they cannot disagree.
#define ECHOTRAIN_MEMBER(type, Struct, member) insert<decltype(Struct::member)>(type, #member, offsetof(Struct, member))

Handle counters_type() {
  using C = ISMRMRD::ISMRMRD_EncodingCounters;
  Handle type = compound(sizeof(C));
  ECHOTRAIN_MEMBER(type, C, kspace_encode_step_1);
  ECHOTRAIN_MEMBER(type, C, kspace_encode_step_2);
  ECHOTRAIN_MEMBER(type, C, average);
  ECHOTRAIN_MEMBER(type, C, slice);
  ECHOTRAIN_MEMBER(type, C, contrast);
  ECHOTRAIN_MEMBER(type, C, phase);
  ECHOTRAIN_MEMBER(type, C, repetition);
  ECHOTRAIN_MEMBER(type, C, set);
  ECHOTRAIN_MEMBER(type, C, segment);
  ECHOTRAIN_MEMBER(type, C, user);
  return type;
}

Handle acquisition_header_type() {
  using H = AcquisitionHeader;
  Handle type = compound(sizeof(H));
  ECHOTRAIN_MEMBER(type, H, version);
  ECHOTRAIN_MEMBER(type, H, flags);
  ECHOTRAIN_MEMBER(type, H, measurement_uid);
  ECHOTRAIN_MEMBER(type, H, scan_counter);
  ECHOTRAIN_MEMBER(type, H, acquisition_time_stamp);
  ECHOTRAIN_MEMBER(type, H, physiology_time_stamp);
  ECHOTRAIN_MEMBER(type, H, number_of_samples);
  ECHOTRAIN_MEMBER(type, H, available_channels);
  ECHOTRAIN_MEMBER(type, H, active_channels);
  ECHOTRAIN_MEMBER(type, H, channel_mask);
  ECHOTRAIN_MEMBER(type, H, discard_pre);
  ECHOTRAIN_MEMBER(type, H, discard_post);
  ECHOTRAIN_MEMBER(type, H, center_sample);
  ECHOTRAIN_MEMBER(type, H, encoding_space_ref);
  ECHOTRAIN_MEMBER(type, H, trajectory_dimensions);
  ECHOTRAIN_MEMBER(type, H, sample_time_us);
  ECHOTRAIN_MEMBER(type, H, position);
  ECHOTRAIN_MEMBER(type, H, read_dir);
  ECHOTRAIN_MEMBER(type, H, phase_dir);
  ECHOTRAIN_MEMBER(type, H, slice_dir);
  ECHOTRAIN_MEMBER(type, H, patient_table_position);
  H5Tinsert(type.get(), "idx", offsetof(H, idx), counters_type().get());
  ECHOTRAIN_MEMBER(type, H, user_int);
  ECHOTRAIN_MEMBER(type, H, user_float);
  return type;
}

Handle waveform_header_type() {
  using H = WaveformHeader;
  Handle type = compound(sizeof(H));
  ECHOTRAIN_MEMBER(type, H, version);
  ECHOTRAIN_MEMBER(type, H, flags);
  ECHOTRAIN_MEMBER(type, H, measurement_uid);
  ECHOTRAIN_MEMBER(type, H, scan_counter);
  ECHOTRAIN_MEMBER(type, H, time_stamp);
  ECHOTRAIN_MEMBER(type, H, number_of_samples);
  ECHOTRAIN_MEMBER(type, H, channels);
  ECHOTRAIN_MEMBER(type, H, sample_time_us);
  ECHOTRAIN_MEMBER(type, H, waveform_id);
  return type;
}

Handle list_of(hid_t element) { return {H5Tvlen_create(element), H5Tclose}; }

}  // namespace

Lock::Lock() : guard_(mutex()) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

Handle acquisition_type() {
  Handle type = compound(sizeof(AcquisitionRecord));
  H5Tinsert(type.get(), "head", offsetof(AcquisitionRecord, head), acquisition_header_type().get());
  H5Tinsert(type.get(), "traj", offsetof(AcquisitionRecord, trajectory), list_of(H5T_NATIVE_FLOAT).get());
  H5Tinsert(type.get(), "data", offsetof(AcquisitionRecord, data), list_of(H5T_NATIVE_FLOAT).get());
  return type;
}

Handle waveform_type() {
  Handle type = compound(sizeof(WaveformRecord));
  H5Tinsert(type.get(), "head", offsetof(WaveformRecord, head), waveform_header_type().get());
  H5Tinsert(type.get(), "data", offsetof(WaveformRecord, data), list_of(H5T_NATIVE_UINT32).get());
  return type;
}

Handle image_header_type() {
  using H = ImageHeader;
  Handle type = compound(sizeof(H));
  ECHOTRAIN_MEMBER(type, H, version);
  ECHOTRAIN_MEMBER(type, H, data_type);
  ECHOTRAIN_MEMBER(type, H, flags);
  ECHOTRAIN_MEMBER(type, H, measurement_uid);
  ECHOTRAIN_MEMBER(type, H, matrix_size);
  ECHOTRAIN_MEMBER(type, H, field_of_view);
  ECHOTRAIN_MEMBER(type, H, channels);
  ECHOTRAIN_MEMBER(type, H, position);
  ECHOTRAIN_MEMBER(type, H, read_dir);
  ECHOTRAIN_MEMBER(type, H, phase_dir);
  ECHOTRAIN_MEMBER(type, H, slice_dir);
  ECHOTRAIN_MEMBER(type, H, patient_table_position);
  ECHOTRAIN_MEMBER(type, H, average);
  ECHOTRAIN_MEMBER(type, H, slice);
  ECHOTRAIN_MEMBER(type, H, contrast);
  ECHOTRAIN_MEMBER(type, H, phase);
  ECHOTRAIN_MEMBER(type, H, repetition);
  ECHOTRAIN_MEMBER(type, H, set);
  ECHOTRAIN_MEMBER(type, H, acquisition_time_stamp);
  ECHOTRAIN_MEMBER(type, H, physiology_time_stamp);
  ECHOTRAIN_MEMBER(type, H, image_type);
  ECHOTRAIN_MEMBER(type, H, image_index);
  ECHOTRAIN_MEMBER(type, H, image_series_index);
  ECHOTRAIN_MEMBER(type, H, user_int);
  ECHOTRAIN_MEMBER(type, H, user_float);
  ECHOTRAIN_MEMBER(type, H, attribute_string_len);
  return type;
}
#undef ECHOTRAIN_MEMBER

Handle pixel_type(std::uint16_t data_type, const std::string& real, const std::string& imaginary) {
  const std::array<hid_t, 7> numbers = {-1,
                                        H5T_NATIVE_UINT16,
                                        H5T_NATIVE_INT16,
                                        H5T_NATIVE_UINT32,
                                        H5T_NATIVE_INT32,
                                        H5T_NATIVE_FLOAT,
                                        H5T_NATIVE_DOUBLE};
  if (data_type >= 1 && data_type < numbers.size()) return {H5Tcopy(numbers[data_type]), H5Tclose};
  if (data_type != ISMRMRD::ISMRMRD_CXFLOAT && data_type != ISMRMRD::ISMRMRD_CXDOUBLE) return {};
  const bool single = data_type == ISMRMRD::ISMRMRD_CXFLOAT;
  const hid_t part = single ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
  const std::size_t width = single ? sizeof(float) : sizeof(double);
  Handle type = compound(2 * width);
  H5Tinsert(type.get(), real.c_str(), 0, part);
  H5Tinsert(type.get(), imaginary.c_str(), width, part);
  return type;
}

bool exists(hid_t location, const std::string& path) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    if (H5Lexists(location, path.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return true;
}

}  // namespace echotrain::protocol::hdf5
