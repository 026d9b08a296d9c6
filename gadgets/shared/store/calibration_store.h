// The CalibrationStore keeps reference lines that scans leave for later scans.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/numerics/core/array.h"
#include "gadgets/shared/store/scan_store.h"
#include "protocol/data/header.h"
#include "protocol/data/messages.h"

namespace echotrain {

/// The place of an encoding space's k-space.
struct StoredSpace {
  std::array<std::int64_t, 3> matrix{};  ///< x, y, z of encoded k-space
  std::array<double, 3> fov_mm{};        ///< x, y, z
  std::array<std::int64_t, 2> offset{};  ///< y, z: a row's number minus its encoding step
};

/// Readouts of one shape.
struct StoredLines {
  std::vector<protocol::AcquisitionHeader> heads;
  std::vector<numerics::cfloat> data;  ///< [readout, coil, sample]
};

/// The reference lines of a scan as received, before any change of their channels.
struct CalibrationRecord {
  int coils = 0;
  std::vector<std::string> labels;  ///< labels of the coils, in the order of channels; empty: unknown
  std::vector<StoredSpace> spaces;  ///< per encoding
  std::vector<StoredLines> lines;
  std::int64_t made_unix_s = 0;  ///< [s] since 1970

  std::int64_t count() const;  ///< number of readouts
  std::uint64_t bytes() const;
};

/// The reference lines of scans, by the scans that brought them. K-space shows the patient, so it is kept in memory
/// only.
class CalibrationStore : public ScanStore {
 public:
  explicit CalibrationStore(const numerics::Resources& resources);

  /// Returns null if it is not known.
  std::shared_ptr<const CalibrationRecord> find(const RecordKey& key);
  /// As in ScanStore.
  std::shared_ptr<const CalibrationRecord> find_of_any_device(const std::string& owner,
                                                              const std::string& measurement_id);
  /// Replaces the record of this key. It is not kept if the ID is empty, if it has no lines, lines that are not of
  /// `coils` coils and of `spaces`, or more bytes than there is room for.
  Added add(const RecordKey& key, CalibrationRecord record);

  struct Listed {
    std::string digest;  ///< its first 8 hexadecimal digits
    std::shared_ptr<const CalibrationRecord> record;
  };
  /// Lists all records, the newest first.
  std::vector<Listed> list();
};

/// The measurements that a header names for anything but noise, the last one first. A dependency without a type does
/// not count.
std::vector<std::string> calibration_dependencies(const protocol::Header& header);

}  // namespace echotrain
