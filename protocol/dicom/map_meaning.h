// A map's meaning is what its pixels stand for in DICOM: the Real World Value Mapping. Included only where there is
// DCMTK.
#pragma once

#include <string>

#include "protocol/dicom/elements.h"

namespace echotrain::protocol::dicom {

/// What the meta attributes map_quantity, map_unit and map_statistic say; quantity and unit are empty where they don't.
struct MapMeaning {
  std::string quantity;    ///< T1, T2, T2star, ADC, B0, B1, or a name of at most 16 characters that has no code
  std::string unit;        ///< a code of UCUM: ms, mm2/s, Hz, 1
  bool deviation = false;  ///< the standard deviation of the quantity

  bool is_map() const { return !quantity.empty() || !unit.empty(); }
  /// True if the quantity has a sign: such maps are real images, others are told as magnitudes.
  bool has_sign() const { return quantity == "B0" && !deviation; }
};

/// The straight line from stored pixels to values in the unit: value = stored * slope + intercept.
struct StoredScale {
  double slope = 1, intercept = 0;
  bool is_signed = false;
};

/// Returns an item of the Real World Value Mapping Sequence (PS3.3 C.7.6.16.2.11) for all stored pixels: label, line,
/// unit (UCUM), and quantity (PS3.16 CID 7180, CID 7464) where that has a code. The unit of a map that names none is 1.
SequenceItem real_world_value(const MapMeaning& of, const StoredScale& scale);

}  // namespace echotrain::protocol::dicom
