#include "gadgets/shared/fft_options.h"

namespace echotrain {

numerics::Direction fft_direction(const FftOptions& options) {
  return options.direction == "forward" ? numerics::Direction::forward : numerics::Direction::inverse;
}

Parameters<FftOptions> fft_parameters() {
  return Parameters<FftOptions>().choice(
      "direction", &FftOptions::direction, {"inverse", "forward"},
      "sign of the exponent: inverse (+) turns k-space into images; forward (-) is for senders with the "
      "conjugate phase convention");
}

}  // namespace echotrain
