#include "gadgets/api/items.h"

#include <algorithm>
#include <array>
#include <utility>

namespace echotrain {

std::shared_ptr<const Frame> with_notes(const Frame& frame, const std::map<std::string, std::string>& notes) {
  const auto changed = std::make_shared<Frame>(frame);
  for (const auto& [name, value] : notes) changed->notes[name] = value;
  return changed;
}

std::int64_t SampledLines::count() const { return std::count(came.begin(), came.end(), std::uint8_t{1}); }

std::string_view to_string(ItemType type) {
  static constexpr std::array<std::string_view, std::variant_size_v<Item>> names = {
      "RawBatch",   "Readouts", "Samples",  "KSpace", "Grid",        "OversampledImages", "NormalEquations",
      "CoilImages", "Image",    "Waveform", "Echoes", "EchoSpectra", "PlaneReadouts",     "PlaneSamples"};
  return names[static_cast<std::size_t>(type)];
}

}  // namespace echotrain
