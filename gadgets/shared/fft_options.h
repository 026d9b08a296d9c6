// Options of the gadget `fft`, for each kind of its input.
#pragma once

#include <string>
#include <string_view>

#include "gadgets/api/parameters.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain {

struct FftOptions {
  std::string direction = "inverse";
};
inline constexpr std::string_view kFftName = "fft";
inline constexpr std::string_view kFftSummary =
    "Fourier transform: Cartesian k-space to coil images, or a gridded frame to oversampled images.";
Parameters<FftOptions> fft_parameters();
numerics::Direction fft_direction(const FftOptions& options);

}  // namespace echotrain
