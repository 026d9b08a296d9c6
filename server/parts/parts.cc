// The list of all parts calls each one's function.
#include "server/parts/parts.h"

#include <fmt/format.h>

#include "server/parts/parts_built.h"

namespace echotrain::server {

const OptionalParts& OptionalParts::built() {
  static const OptionalParts built = [] {
    OptionalParts parts;
#define ECHOTRAIN_ADD(part) add_##part(parts);
    ECHOTRAIN_PARTS_BUILT(ECHOTRAIN_ADD)
#undef ECHOTRAIN_ADD
    return parts;
  }();
  return built;
}

std::string not_built(std::string_view asked, std::string_view what) {
  return fmt::format("{}: this build has no {} (the demo's has little); ./run server makes one that has all", asked,
                     what);
}

}  // namespace echotrain::server
