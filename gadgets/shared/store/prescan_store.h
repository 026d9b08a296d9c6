// The PrescanStore keeps prescans of body and array coils that scans leave for later scans.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/numerics/core/extents.h"
#include "gadgets/shared/store/scan_store.h"
#include "protocol/data/messages.h"

namespace echotrain {

/// The middle of k-space of one place, as some coils received it.
struct PrescanVolume {
  protocol::AcquisitionHeader head{};  ///< of its first readout: position, directions, table
  std::array<double, 3> fov_mm{};      ///< x, y, z
  int coils = 0;
  numerics::Extents n{};                 ///< z, y, x
  std::vector<numerics::cfloat> kspace;  ///< [coil, z, y, x], centre at floor(n/2); in the units of the readouts
};

/// The prescan of a scan: each place by the array and by the body coil, on one grid.
struct PrescanRecord {
  struct Place {
    PrescanVolume array, body;
  };
  std::vector<Place> places;
  std::vector<std::string> labels;  ///< labels of the array's coils, in the order of channels; empty: unknown
  std::int64_t made_unix_s = 0;     ///< [s] since 1970

  std::uint64_t bytes() const;
};

/// The prescans of scans, by the scans that brought them. They show the patient, so they are kept in memory only.
class PrescanStore : public ScanStore {
 public:
  explicit PrescanStore(const numerics::Resources& resources);
  /// Returns null if it is not known.
  std::shared_ptr<const PrescanRecord> find(const RecordKey& key);
  /// Replaces the record of this key. It is not kept if the ID is empty, if it has no place, or more bytes than there
  /// is room for.
  Added add(const RecordKey& key, std::shared_ptr<const PrescanRecord> record);
};

}  // namespace echotrain
