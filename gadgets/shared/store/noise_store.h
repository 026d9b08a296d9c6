// The NoiseStore keeps noise covariances that scans leave for later scans.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gadgets/numerics/core/array.h"
#include "gadgets/shared/store/scan_store.h"

namespace echotrain {

/// The result of a noise scan. It holds nothing of the patient.
struct NoiseRecord {
  int coils = 0;
  std::vector<numerics::cdouble> covariance;  ///< [coil, coil] in the units of the readouts
  double dwell_us = 0;                        ///< 0: unknown
  std::int64_t samples = 0;
  std::vector<std::string> labels;  ///< labels of the coils, in the order of channels; empty: unknown
  std::int64_t made_unix_s = 0;     ///< [s] since 1970

  std::uint64_t bytes() const;
};

/// The noise of scans, by the scans that measured it.
class NoiseStore : public ScanStore {
 public:
  explicit NoiseStore(const numerics::Resources& resources);

  /// Returns null if it is not known.
  std::shared_ptr<const NoiseRecord> find(const RecordKey& key);
  /// As in ScanStore.
  std::shared_ptr<const NoiseRecord> find_of_any_device(const std::string& owner, const std::string& measurement_id);
  /// Replaces the record of this key. It is not kept if the ID is empty, or if it is not a matrix.
  Added add(const RecordKey& key, const NoiseRecord& record);

  struct Listed {
    std::string digest;  ///< its first 8 hexadecimal digits
    std::shared_ptr<const NoiseRecord> record;
  };
  /// Lists all records, the newest first.
  std::vector<Listed> list();

 private:
  static Kept kept(std::shared_ptr<const NoiseRecord> record);
  Kept unpacked(std::string_view payload) const override;
};

}  // namespace echotrain
