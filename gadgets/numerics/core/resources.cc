#include "gadgets/numerics/core/resources.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace echotrain::numerics {
namespace {

/// Returns an empty text if the variable is not set.
std::string_view text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path user_cache_folder() {
  if (const auto folder = text_of("XDG_CACHE_HOME"); !folder.empty())
    return std::filesystem::path(folder) / "echotrain";
  if (const auto folder = text_of("HOME"); !folder.empty())
    return std::filesystem::path(folder) / ".cache" / "echotrain";
  return {};
}

Resources::Resources(ResourceOptions options)
    : options_(std::move(options)),
      memory_(std::make_shared<MemoryBudget>(options_.memory_budget)),
      threads_(options_.threads > 0 ? std::min(options_.threads, ResourceOptions::kMostThreads) : usable_cores()) {}

Resources::~Resources() = default;

}  // namespace echotrain::numerics
