#include "config/mistakes.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace echotrain::config {

static thread_local Mistakes* living = nullptr;

Mistakes::Mistakes() { living = this; }

Mistakes::~Mistakes() { living = nullptr; }

std::vector<ConfigError> Mistakes::all() const {
  std::vector<ConfigError> sorted = kept_;
  const auto key = [](const ConfigError& error) {
    return std::tuple(error.mark().line, error.mark().column, error.message());
  };
  std::sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  sorted.erase(
      std::unique(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return key(a) == key(b); }),
      sorted.end());
  return sorted;
}

bool Mistakes::found() { return living != nullptr && !living->kept_.empty(); }

bool Mistakes::keep(const ConfigError& error) {
  if (living != nullptr) living->kept_.push_back(error);
  return living != nullptr;
}

}  // namespace echotrain::config
