#include "gadgets/numerics/core/cache_folder.h"

#include <cstdlib>

namespace echotrain::numerics {

std::string cache_folder() {
  const auto folder = [](const char* variable, const char* below) -> std::string {
    const char* value = std::getenv(variable);
    return value == nullptr || *value == '\0' ? "" : std::string(value) + below;
  };
  std::string out = folder("ECHOTRAIN_CACHE_DIR", "");
  if (out.empty()) out = folder("XDG_CACHE_HOME", "/echotrain");
  if (out.empty()) out = folder("HOME", "/.cache/echotrain");
  return out;
}

}  // namespace echotrain::numerics
