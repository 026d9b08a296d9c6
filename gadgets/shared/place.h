// The place of a readout or an image in the patient, and the differences of two places.
#pragma once

#include <string>
#include <vector>

#include "gadgets/shared/measurement.h"

namespace echotrain {

inline constexpr double kSamePlace_mm = 1, kSamePlace_deg = 0.5;

double distance(const Vector& a, const Vector& b);
/// The angle [degrees]; 0 where either has no length, as senders leave directions out.
double angle_between(const Vector& a, const Vector& b);
inline Vector table_position(const protocol::AcquisitionHeader& head) {
  return {head.patient_table_position[0], head.patient_table_position[1], head.patient_table_position[2]};
}

/// Describes the differences of two readouts' places in words, of which there are none within 1 mm and half a degree:
/// this moves the edge of a field of view of 240 mm by 1 mm.
std::vector<std::string> differences_of_place(const protocol::AcquisitionHeader& a,
                                              const protocol::AcquisitionHeader& b);

}  // namespace echotrain
