// The numbers of a measurement that differ from image to image, read from its header.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace echotrain::protocol {

/// Returns the numbers of sequenceParameters/NAME (TI, TE, flipAngle_deg), in the header's order; empty where there are
/// none, and where one of them is no number from 0 on: what is in the wrong place would be the wrong image's. `xml` is
/// the text of a header that parse_header() has accepted; INF is a number.
std::vector<double> sequence_values(std::string_view xml, std::string_view name);

/// Likewise the values of all user parameters (userParameterDouble or Long) of this name.
std::vector<double> user_values(std::string_view xml, std::string_view name);

/// The images of a diffusion scan, as sequenceParameters/diffusion lists them.
struct DiffusionValues {
  std::vector<double> b_s_per_mm2;
  std::vector<std::array<double, 3>> directions;  ///< right-left, anterior-posterior, foot-head; zeros: not given
  std::string counter;                            ///< diffusionDimension: the counter of the images; empty: not given
};
/// Empty under the conditions of sequence_values().
DiffusionValues diffusion_values(std::string_view xml);

}  // namespace echotrain::protocol
