// Reference lines that scans leave for later scans.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/shared/store/scan_store.h"
#include "protocol/data/header.h"

namespace echotrain {

/// A block of k-space without gaps, as `Calibration` has it.
struct StoredBlock {
  FrameKey key;                          ///< encoding, slice, contrast and set; the rest is 0
  std::array<std::int64_t, 3> first{};   ///< x, y, z of the block's first element in the encoded matrix
  std::array<std::int64_t, 3> matrix{};  ///< x, y, z: the encoded matrix
  std::array<double, 3> fov_mm{};        ///< x, y, z: of that matrix
  std::array<std::int64_t, 3> extent{};  ///< x, y, z: of the block
  std::vector<cfloat> data;              ///< [coil, z, y, x]
};

/// The reference lines of a scan.
struct CalibrationRecord {
  int coils = 0;
  std::vector<StoredBlock> blocks;
  std::vector<std::string> labels;  ///< of the coils, in the order of channels; empty: unknown
  /// What gadgets had made of the channels (whitening, compression), in words of whoever adds the record. Scans with
  /// equal words have equal channels, if they have the coils in the same order. Empty: as they were received.
  std::string channels;
  std::int64_t made_unix_s = 0;  ///< [s] since 1970

  std::uint64_t bytes() const;
  /// The block for a frame of this encoding space and slice: of its contrast and set, else of the lowest. Null: none.
  const StoredBlock* find(const FrameKey& key) const;
};

/// Coil calibrations by the measurement ID of the scan that measured them. K-space shows the patient: files are sealed.
class CalibrationStore : public ScanStore {
 public:
  explicit CalibrationStore(const numerics::Resources& resources);

  /// Null: not known.
  std::shared_ptr<const CalibrationRecord> find(const std::string& measurement_id);
  /// Replaces what was known of this ID. An empty ID, and a record without blocks or whose blocks have not the extents
  /// that they claim, is not kept; nor is one that is larger than the bound. Returns whether the record is sound.
  bool add(const std::string& measurement_id, CalibrationRecord record);

 private:
  static Kept kept(std::shared_ptr<const CalibrationRecord> record);
  Kept unpacked(std::string_view payload) const override;
};

/// The measurements that a header names for anything but noise, the last one first: an empty type, or "Noise" in any
/// letters, is no calibration.
std::vector<std::string> calibration_dependencies(const protocol::Header& header);

/// The record with its coils as a scan has them that has `coils` coils with these labels, whose channels are
/// `channels`. Channels as they were received are matched by labels, others must have the same labels in the same
/// order. Null when that cannot be: then `why_not` goes on after "the scan X that the header names ".
std::shared_ptr<const CalibrationRecord> for_coils(const std::shared_ptr<const CalibrationRecord>& record, int coils,
                                                   const std::vector<std::string>& labels, const std::string& channels,
                                                   std::string& why_not);

}  // namespace echotrain
