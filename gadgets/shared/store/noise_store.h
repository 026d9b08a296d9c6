// Noise covariances that scans leave for later scans.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gadgets/numerics/core/array.h"
#include "gadgets/shared/store/scan_store.h"

namespace echotrain {

/// What a noise scan tells. It holds nothing of the patient.
struct NoiseRecord {
  int coils = 0;
  std::vector<numerics::cdouble> covariance;  ///< [coil, coil] in the units of the readouts
  double dwell_us = 0;                        ///< 0: unknown
  std::int64_t samples = 0;
  std::vector<std::string> labels;  ///< of the coils, in the order of channels; empty: unknown
  std::int64_t made_unix_s = 0;     ///< [s] since 1970

  std::uint64_t bytes() const;
};

/// Noise of the scans that measured it.
class NoiseStore : public ScanStore {
 public:
  explicit NoiseStore(const numerics::Resources& resources);

  /// Null: not known.
  std::shared_ptr<const NoiseRecord> find(const RecordKey& key);
  /// See ScanStore.
  std::shared_ptr<const NoiseRecord> find_of_any_device(const std::string& owner, const std::string& measurement_id);
  /// Replaces what was known of this key. An empty ID, and a record that is not a matrix, is not kept.
  Added add(const RecordKey& key, const NoiseRecord& record);

  struct Listed {
    std::string digest;  ///< its first 8 hexadecimal digits
    std::shared_ptr<const NoiseRecord> record;
  };
  /// All that is known, the newest first.
  std::vector<Listed> list();

 private:
  static Kept kept(std::shared_ptr<const NoiseRecord> record);
  Kept unpacked(std::string_view payload) const override;
};

}  // namespace echotrain
