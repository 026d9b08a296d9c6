#include "gadgets/api/items.h"

#include <array>

namespace echotrain {

std::string_view to_string(ItemType type) {
  static constexpr std::array<std::string_view, std::variant_size_v<Item>> names = {
      "RawBatch",        "Readouts",   "Samples", "KSpace",   "Grid",   "OversampledImages",
      "NormalEquations", "CoilImages", "Image",   "Waveform", "Echoes", "EchoSpectra"};
  return names[static_cast<std::size_t>(type)];
}

}  // namespace echotrain
