// The head fields are those that ISMRMRD's heads and MRD 2's records share, declared once for reading and writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "protocol/data/messages.h"

namespace echotrain::protocol::mrd2 {

/// The kinds of fields of a head: a number, or so many of them.
enum class FieldKind { u16, u32, u64, real, vector, stamps, user_u16, user_i32, user_real };

/// The field `name` of a record lies `at` so many bytes behind the begin of the head. Heads are packed, so that fields
/// lie at any even address and are copied.
struct HeadField {
  std::string_view name;
  std::size_t at;
  FieldKind kind;
};

using Counters = ISMRMRD::ISMRMRD_EncodingCounters;

inline constexpr HeadField kCounterFields[] = {
    {"kspaceEncodeStep1", offsetof(Counters, kspace_encode_step_1), FieldKind::u16},
    {"kspaceEncodeStep2", offsetof(Counters, kspace_encode_step_2), FieldKind::u16},
    {"average", offsetof(Counters, average), FieldKind::u16},
    {"slice", offsetof(Counters, slice), FieldKind::u16},
    {"contrast", offsetof(Counters, contrast), FieldKind::u16},
    {"phase", offsetof(Counters, phase), FieldKind::u16},
    {"repetition", offsetof(Counters, repetition), FieldKind::u16},
    {"set", offsetof(Counters, set), FieldKind::u16},
    {"segment", offsetof(Counters, segment), FieldKind::u16},
    {"user", offsetof(Counters, user), FieldKind::user_u16},
};

/// The fields of a readout's head, without the counters, the channels and what follows from the data.
inline constexpr HeadField kAcquisitionFields[] = {
    {"flags", offsetof(AcquisitionHeader, flags), FieldKind::u64},
    {"measurementUid", offsetof(AcquisitionHeader, measurement_uid), FieldKind::u32},
    {"scanCounter", offsetof(AcquisitionHeader, scan_counter), FieldKind::u32},
    {"acquisitionTimeStamp", offsetof(AcquisitionHeader, acquisition_time_stamp), FieldKind::u32},
    {"physiologyTimeStamp", offsetof(AcquisitionHeader, physiology_time_stamp), FieldKind::stamps},
    {"discardPre", offsetof(AcquisitionHeader, discard_pre), FieldKind::u16},
    {"discardPost", offsetof(AcquisitionHeader, discard_post), FieldKind::u16},
    {"centerSample", offsetof(AcquisitionHeader, center_sample), FieldKind::u16},
    {"encodingSpaceRef", offsetof(AcquisitionHeader, encoding_space_ref), FieldKind::u16},
    {"sampleTimeUs", offsetof(AcquisitionHeader, sample_time_us), FieldKind::real},
    {"position", offsetof(AcquisitionHeader, position), FieldKind::vector},
    {"readDir", offsetof(AcquisitionHeader, read_dir), FieldKind::vector},
    {"phaseDir", offsetof(AcquisitionHeader, phase_dir), FieldKind::vector},
    {"sliceDir", offsetof(AcquisitionHeader, slice_dir), FieldKind::vector},
    {"patientTablePosition", offsetof(AcquisitionHeader, patient_table_position), FieldKind::vector},
    {"userInt", offsetof(AcquisitionHeader, user_int), FieldKind::user_i32},
    {"userFloat", offsetof(AcquisitionHeader, user_float), FieldKind::user_real},
};

/// The fields of a waveform's head, without what follows from the data.
inline constexpr HeadField kWaveformFields[] = {
    {"flags", offsetof(WaveformHeader, flags), FieldKind::u64},
    {"measurementUid", offsetof(WaveformHeader, measurement_uid), FieldKind::u32},
    {"scanCounter", offsetof(WaveformHeader, scan_counter), FieldKind::u32},
    {"timeStamp", offsetof(WaveformHeader, time_stamp), FieldKind::u32},
    {"sampleTimeUs", offsetof(WaveformHeader, sample_time_us), FieldKind::real},
    {"waveformId", offsetof(WaveformHeader, waveform_id), FieldKind::u16},
};

/// The fields of an image's head, without the type, which MRD 2 counts in its own way, and what follows from the data.
inline constexpr HeadField kImageFields[] = {
    {"flags", offsetof(ImageHeader, flags), FieldKind::u64},
    {"measurementUid", offsetof(ImageHeader, measurement_uid), FieldKind::u32},
    {"fieldOfView", offsetof(ImageHeader, field_of_view), FieldKind::vector},
    {"position", offsetof(ImageHeader, position), FieldKind::vector},
    {"colDir", offsetof(ImageHeader, read_dir), FieldKind::vector},
    {"lineDir", offsetof(ImageHeader, phase_dir), FieldKind::vector},
    {"sliceDir", offsetof(ImageHeader, slice_dir), FieldKind::vector},
    {"patientTablePosition", offsetof(ImageHeader, patient_table_position), FieldKind::vector},
    {"average", offsetof(ImageHeader, average), FieldKind::u16},
    {"slice", offsetof(ImageHeader, slice), FieldKind::u16},
    {"contrast", offsetof(ImageHeader, contrast), FieldKind::u16},
    {"phase", offsetof(ImageHeader, phase), FieldKind::u16},
    {"repetition", offsetof(ImageHeader, repetition), FieldKind::u16},
    {"set", offsetof(ImageHeader, set), FieldKind::u16},
    {"acquisitionTimeStamp", offsetof(ImageHeader, acquisition_time_stamp), FieldKind::u32},
    {"physiologyTimeStamp", offsetof(ImageHeader, physiology_time_stamp), FieldKind::stamps},
    {"imageIndex", offsetof(ImageHeader, image_index), FieldKind::u16},
    {"imageSeriesIndex", offsetof(ImageHeader, image_series_index), FieldKind::u16},
    {"userInt", offsetof(ImageHeader, user_int), FieldKind::user_i32},
    {"userFloat", offsetof(ImageHeader, user_float), FieldKind::user_real},
};

}  // namespace echotrain::protocol::mrd2
