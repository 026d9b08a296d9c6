#include "gadgets/least_squares/realtime/cg_sense_options.h"

#include <fmt/format.h>

#include <bit>

#include "gadgets/api/errors.h"

namespace echotrain {

Parameters<CgSenseRealtimeOptions> cg_sense_parameters() {
  return add_cg_sense_parameters(
      Parameters<CgSenseRealtimeOptions>(),
      "a bound on the largest eigenvalue of F^H F (of samples anywhere, the largest value of its spectrum on the "
      "doubled grid, two to four times as large; of Cartesian lines 1, which it is)",
      /*lines=*/true);
}

void require_coils_for_maps(std::string_view gadget, std::int64_t coils) {
  constexpr std::int64_t kMostCoils = 128;  // Walsh's correlations grow with the square of the coils
  if (coils > kMostCoils)
    throw ClientError(fmt::format("{}: it is for up to {} channels, not {}; put coil_compression before it", gadget,
                                  kMostCoils, coils));
}

bool maps_are_due(std::int64_t frames, std::int64_t average, std::int64_t refresh) {
  if (frames <= average && std::has_single_bit(static_cast<std::uint64_t>(frames))) return true;
  return frames == average || (refresh > 0 && frames % refresh == 0);
}

}  // namespace echotrain
