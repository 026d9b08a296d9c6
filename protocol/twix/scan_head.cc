#include "protocol/twix/scan_head.h"

#include <algorithm>
#include <utility>

#include "protocol/data/layout.h"

namespace echotrain::protocol::twix {
namespace {

constexpr std::uint32_t kLengthMask = (1u << 25) - 1;

// A bit of the mask and the flag of ISMRMRD that says the same. "RAWDATACORRECTION" (bit 10) is none of them: it asks
// for a factor for each channel, and stands on ordinary image lines.
constexpr std::pair<int, int> kFlags[] = {
    {kFirstInSlice, ISMRMRD::ISMRMRD_ACQ_FIRST_IN_SLICE},
    {kLastInSlice, ISMRMRD::ISMRMRD_ACQ_LAST_IN_SLICE},
    {kLastInMeasurement, ISMRMRD::ISMRMRD_ACQ_LAST_IN_REPETITION},
    {kLastInMeasurement, ISMRMRD::ISMRMRD_ACQ_LAST_IN_MEASUREMENT},
    {kRetroEndOfMeasurement, ISMRMRD::ISMRMRD_ACQ_LAST_IN_MEASUREMENT},
    {kNoise, ISMRMRD::ISMRMRD_ACQ_IS_NOISE_MEASUREMENT},
    {kReferenceAndImage, ISMRMRD::ISMRMRD_ACQ_IS_PARALLEL_CALIBRATION_AND_IMAGING},
    {kReflect, ISMRMRD::ISMRMRD_ACQ_IS_REVERSE},
    {kRealTimeFeedback, ISMRMRD::ISMRMRD_ACQ_IS_NAVIGATION_DATA},
    {kRealTimeFeedback, ISMRMRD::ISMRMRD_ACQ_IS_RTFEEDBACK_DATA},
    {kPhaseCorrection, ISMRMRD::ISMRMRD_ACQ_IS_PHASECORR_DATA},
    {kHighPerformanceFeedback, ISMRMRD::ISMRMRD_ACQ_IS_HPFEEDBACK_DATA},
    {kRetroDummy, ISMRMRD::ISMRMRD_ACQ_IS_DUMMYSCAN_DATA},
    {kNormalise, ISMRMRD::ISMRMRD_ACQ_IS_SURFACECOILCORRECTIONSCAN_DATA},
    {kPhaseStabilisationReference, ISMRMRD::ISMRMRD_ACQ_IS_PHASE_STABILIZATION_REFERENCE},
    {kPhaseStabilisation, ISMRMRD::ISMRMRD_ACQ_IS_PHASE_STABILIZATION},
};

std::uint64_t flags_of(const ScanHead& head) {
  std::uint64_t flags = 0;
  for (const auto& [bit, flag] : kFlags)
    if (head.has(bit)) flags |= acquisition_flag(flag);
  // A line that is a reference and imaged as well has both bits.
  if (head.has(kReference) && !head.has(kReferenceAndImage))
    flags |= acquisition_flag(ISMRMRD::ISMRMRD_ACQ_IS_PARALLEL_CALIBRATION);
  return flags;
}

void set_directions(const std::array<float, 4>& quaternion, AcquisitionHeader& to) {
  const auto [w, x, y, z] = quaternion;
  const float columns[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w)},
                               {2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w)},
                               {2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)}};
  for (int i = 0; i < 3; ++i) {
    to.phase_dir[i] = -columns[0][i];
    to.read_dir[i] = -columns[1][i];
    to.slice_dir[i] = -columns[2][i];
  }
}

}  // namespace

std::uint64_t ScanHead::length() const {
  if (!is_other()) return kScanHeadBytes + std::uint64_t{channels} * (kChannelHeadBytes + 8 * std::uint64_t{samples});
  const std::uint64_t announced = flags_and_length & kLengthMask;
  return announced < kScanHeadBytes ? 0 : announced;
}

ScanHead read_scan_head(std::span<const std::byte> bytes) {
  ScanHead head;
  std::size_t at = 0;
  const auto next = [&](auto& value) {
    value = load<std::decay_t<decltype(value)>>(bytes, at);
    at += sizeof(value);
  };
  next(head.flags_and_length);
  next(head.measurement_uid);
  next(head.scan_counter);
  next(head.time_stamp);
  next(head.pmu_time_stamp);
  at += 4;  // kind of system, delay of the table
  next(head.table_um);
  at += 4;  // reserved
  next(head.mask);
  next(head.samples);
  next(head.channels);
  for (std::uint16_t* counter : {&head.line, &head.average, &head.slice, &head.partition, &head.echo, &head.phase,
                                 &head.repetition, &head.set, &head.segment})
    next(*counter);
  next(head.free_counters);
  next(head.cut_before);
  next(head.cut_after);
  next(head.center_sample);
  at += 6;  // choice of coils, shift of the readout
  next(head.since_rf);
  next(head.center_line);
  next(head.center_partition);
  next(head.position_mm);
  next(head.quaternion);
  next(head.program);
  return head;
}

AcquisitionHeader acquisition_header(const ScanHead& head) {
  AcquisitionHeader out{};
  out.version = 1;
  out.flags = flags_of(head);
  out.measurement_uid = static_cast<std::uint32_t>(head.measurement_uid);
  out.scan_counter = head.scan_counter;
  out.acquisition_time_stamp = head.time_stamp;
  out.physiology_time_stamp[0] = head.pmu_time_stamp;
  out.number_of_samples = head.samples;
  out.active_channels = head.channels;
  out.available_channels = head.channels;
  for (std::size_t c = 0; c < head.channels && c < 64 * std::size(out.channel_mask); ++c)
    out.channel_mask[c / 64] |= std::uint64_t{1} << (c % 64);
  out.discard_pre = head.cut_before;
  out.discard_post = head.cut_after;
  out.center_sample = head.center_sample;
  std::copy(head.position_mm.begin(), head.position_mm.end(), out.position);
  set_directions(head.quaternion, out);
  for (std::size_t i = 0; i < 3; ++i) out.patient_table_position[i] = static_cast<float>(head.table_um[i] / 1000.0);
  out.idx.kspace_encode_step_1 = head.line;
  out.idx.kspace_encode_step_2 = head.partition;
  out.idx.average = head.average;
  out.idx.slice = head.slice;
  out.idx.contrast = head.echo;
  out.idx.phase = head.phase;
  out.idx.repetition = head.repetition;
  out.idx.set = head.set;
  out.idx.segment = head.segment;
  std::copy(head.free_counters.begin(), head.free_counters.end(), out.idx.user);
  out.idx.user[5] = head.center_line;
  out.idx.user[6] = head.center_partition;
  std::copy(head.program.begin(), head.program.begin() + 7, out.user_int);
  out.user_int[7] = static_cast<std::int32_t>(head.since_rf);
  std::copy(head.program.begin() + 8, head.program.begin() + 16, out.user_float);
  return out;
}

}  // namespace echotrain::protocol::twix
