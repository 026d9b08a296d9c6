// The texts of small Pulseq sequences, for tests: by hand, so that places in k-space follow from areas.
#pragma once

#include <string>

namespace echotrain::protocol::pulseq::test {

inline std::string version(int minor) {
  return "[VERSION]\nmajor 1\nminor " + std::to_string(minor) + "\nrevision 1\n";
}

/// Two Cartesian lines, matrix 4 x 2, field of view 100 x 200 x 10 mm: blocks of 1 ms, in each an excitation whose
/// centre is at 100 us, a prephaser along x (and along y in the first), and a readout of 4 samples of 100 us, k = -2,
/// -1, 0, 1 steps of 10/m. LIN is set to 7 and counts upwards.
inline std::string lines(int minor) {
  const bool is_new = minor >= 5;
  return version(minor) +
         "[DEFINITIONS]\nFOV 0.1 0.2 0.01\nGradientRasterTime 1e-05\nBlockDurationRaster 1e-05\n"
         "RadiofrequencyRasterTime 1e-06\n"
         "[BLOCKS]\n1 100 1 0 0 0 0 0\n2 100 0 1 2 0 0 0\n3 100 0 3 0 0 1 2\n"
         "4 100 1 0 0 0 0 0\n5 100 0 1 0 0 0 0\n6 100 0 3 0 0 1 1\n"
         "[RF]\n" +
         std::string(is_new ? "1 100 1 2 0 100 0 0 0 0 0 e\n" : "1 100 1 2 0 0 0 0\n") +
         // Areas -25, -5 and, flat for 400 us, 40 cycles/m; the ramp of 50 us before it has 2.5, the first half
         // sample 5.
         "[TRAP]\n1 -62500 100 300 100 0\n2 -12500 100 300 100 0\n3 100000 50 400 50 100\n"
         "[ADC]\n" +
         std::string(is_new ? "1 4 100000 150 0 0 0 0 0\n" : "1 4 100000 150 0 0\n") +
         "[EXTENSIONS]\n1 2 1 0\n2 1 1 0\nextension LABELSET 1\n1 7 LIN\nextension LABELINC 2\n1 1 LIN\n"
         "[SHAPES]\nshape_id 1\nnum_samples 200\n1\n0\n0\n197\n\nshape_id 2\nnum_samples 200\n0\n0\n198\n";
}

/// The same text with a part replaced; the part must be there.
inline std::string with(std::string text, const std::string& part, const std::string& by) {
  text.replace(text.find(part), part.size(), by);
  return text;
}

}  // namespace echotrain::protocol::pulseq::test
