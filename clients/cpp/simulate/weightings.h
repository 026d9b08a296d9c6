// The weightings of a mapping scan: its images' signals by the physics that a map is fitted to, and what its header
// says of them.
#pragma once

#include <string>
#include <vector>

#include "clients/cpp/simulate/simulate_options.h"
#include "clients/cpp/simulate/subject/vials.h"

namespace echotrain::client {

/// The images of `echotrain simulate --mapping METHOD`. Equilibrium is a signal of 1; echoes are counted by
/// idx.contrast, all else by idx.set.
///
///   | METHOD             | signal of a vial                                        | header                          |
///   | inversion_recovery | 1 - (1 + e) exp(-TI / T1)                               | TI                              |
///   | saturation         | 1 - e exp(-TS / T1); 1 where TS is 0: not saturated     | saturation_time_ms              |
///   | molli              | Bloch equations, see below                              | TI, flipAngle_deg               |
///   | t2prep             | exp(-TE / T2)                                           | t2prep_ms                       |
///   | spin_echo          | exp(-TE / T2)                                           | TE                              |
///   | multi_echo         | exp(-TE / T2*) exp(2 pi i B0 TE)                        | TE                              |
///   | diffusion          | exp(-b ADC), b above 0 along x, y and z                 | diffusion, diffusionDimension   |
///   | double_angle       | sin(B1 angle)                                           | flipAngle_deg                   |
///   | psir               | 1 - (1 + e) exp(-TI / T1); of the last set 0.25, the    | TI                              |
///   |                    | reference, long after any inversion at a small flip     |                                 |
///
/// e is the efficiency of inversion or saturation. saturation_time_ms and t2prep_ms are user parameters, one per set.
/// molli (Messroghli et al., MRM 52:141-146, 2004): `scheme` 5(3)3 inverts, takes 5 images in 5 heartbeats, waits for
/// 3, inverts, takes 3; the first image of the n-th inversion is 100 ms + n 80 ms after it, its others whole beats
/// later. Each is a balanced readout of 60 flips (bloch.h), whose central echo is the image's signal, and TI its time.
struct Weightings {
  bool echoes = false;
  std::vector<std::vector<cdouble>> signals;  ///< [image, vial]
  std::string sequence;                       ///< elements of sequenceParameters, after TR
  std::string user;                           ///< the element userParameters, or nothing
};

/// Throws UsageError for a method, times or a scheme that are none.
Weightings weightings_of(const SimulateOptions& options);

}  // namespace echotrain::client
