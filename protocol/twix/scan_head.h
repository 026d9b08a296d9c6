// A scan head ("MDH") stands before each readout of a raid file; it becomes an ISMRMRD acquisition header. Facts of the
// layout: twixtools (MIT licence), mdh_def.py; of the meaning: siemens_to_ismrmrd's main.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/data/messages.h"

namespace echotrain::protocol::twix {

inline constexpr std::size_t kScanHeadBytes = 192;    ///< before the channels
inline constexpr std::size_t kChannelHeadBytes = 32;  ///< before each channel's samples

// Bits of ScanHead::mask.
inline constexpr int kEndOfAcquisition = 0, kRealTimeFeedback = 1, kHighPerformanceFeedback = 2, kSyncData = 5,
                     kLastInMeasurement = 11, kPhaseStabilisationReference = 14, kPhaseStabilisation = 15,
                     kPhaseCorrection = 21, kReference = 22, kReferenceAndImage = 23, kReflect = 24, kNoise = 25,
                     kFirstInSlice = 28, kLastInSlice = 29, kNormalise = 35, kRetroEndOfMeasurement = 46,
                     kRetroDummy = 51;

struct ScanHead {
  std::uint32_t flags_and_length = 0, scan_counter = 0, time_stamp = 0, pmu_time_stamp = 0, since_rf = 0;
  std::int32_t measurement_uid = 0;
  std::array<std::int32_t, 3> table_um{};
  std::uint64_t mask = 0;  ///< "EvalInfoMask"
  std::uint16_t samples = 0, channels = 0;
  std::uint16_t line = 0, average = 0, slice = 0, partition = 0, echo = 0, phase = 0, repetition = 0, set = 0,
                segment = 0;
  std::array<std::uint16_t, 5> free_counters{};  ///< a to e
  std::uint16_t cut_before = 0, cut_after = 0, center_sample = 0, center_line = 0, center_partition = 0;
  std::array<float, 3> position_mm{};       ///< sagittal, coronal, transversal: L, P, S
  std::array<float, 4> quaternion{};        ///< w, x, y, z: rotation from phase, read, slice to the patient
  std::array<std::uint16_t, 24> program{};  ///< "IceProgramPara"

  bool has(int bit) const { return (mask >> bit & 1) != 0; }
  /// True for what has no samples of channels: the end, and data of other devices (physiology, say).
  bool is_other() const { return has(kEndOfAcquisition) || has(kSyncData); }
  /// Returns the bytes from this head to the next one. That of readouts follows from their size, as the length that
  /// stands in the head is not always right (twixtools); 0 where other data announce less than a head.
  std::uint64_t length() const;
};

/// Precondition: kScanHeadBytes bytes.
ScanHead read_scan_head(std::span<const std::byte> bytes);

/// Returns the head as ISMRMRD has it, but for sample_time_us and available_channels, which stand in the protocol.
/// Counters and flags by their meaning; free counters, then centre line and partition, in idx.user; the program's first
/// seven numbers and the time since the RF pulse in user_int, eight more in user_float, as siemens_to_ismrmrd has them.
/// Directions are those in which the image's indices rise, images being sums of exp(+2 pi i k.r)
/// (docs/conventions.md): opposite to the gradients' directions of the quaternion on all axes, as in twixtools'
/// geometry.py. The table's place is in mm.
AcquisitionHeader acquisition_header(const ScanHead& head);

}  // namespace echotrain::protocol::twix
