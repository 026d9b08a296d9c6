#include "gadgets/numerics/core/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace echotrain::numerics {
namespace {

/// Empty where the variable is not set.
std::string_view text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

[[noreturn]] void refuse(const char* variable, std::string_view text, std::string_view allowed) {
  throw std::invalid_argument(fmt::format("{}={}: it must be {}", variable, text, allowed));
}

std::uint64_t number(const char* variable, std::uint64_t low, std::uint64_t high, std::uint64_t otherwise) {
  const std::string_view text = text_of(variable);
  if (text.empty()) return otherwise;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    refuse(variable, text, fmt::format("a whole number from {} to {}", low, high));
  return value;
}

std::uint64_t mebibytes(const char* variable, std::uint64_t otherwise) {
  return number(variable, 0, std::uint64_t{1} << 30, otherwise >> 20) << 20;
}

bool is_on(const char* variable, bool otherwise) {
  const std::string_view text = text_of(variable);
  if (text.empty()) return otherwise;
  if (text != "on" && text != "off") refuse(variable, text, "on or off");
  return text == "on";
}

}  // namespace

std::filesystem::path user_cache_folder() {
  if (const auto folder = text_of("ECHOTRAIN_CACHE_DIR"); !folder.empty()) return folder;
  if (const auto folder = text_of("XDG_CACHE_HOME"); !folder.empty())
    return std::filesystem::path(folder) / "echotrain";
  if (const auto folder = text_of("HOME"); !folder.empty())
    return std::filesystem::path(folder) / ".cache" / "echotrain";
  return {};
}

ResourceOptions resource_options_from_environment() {
  ResourceOptions options;
  options.threads = static_cast<int>(number("ECHOTRAIN_THREADS", 0, ResourceOptions::kMostThreads, 0));
  options.autotune = is_on("ECHOTRAIN_AUTOTUNE", options.autotune);
  options.cache_folder = user_cache_folder();
  options.plan_cache_bytes = mebibytes("ECHOTRAIN_PLAN_CACHE_MIB", options.plan_cache_bytes);
  options.operator_cache_bytes = mebibytes("ECHOTRAIN_OPERATOR_CACHE_MIB", options.operator_cache_bytes);
  options.trajectory_cache_bytes = mebibytes("ECHOTRAIN_TRAJECTORY_CACHE_MIB", options.trajectory_cache_bytes);
  options.disk_cache_bytes = mebibytes("ECHOTRAIN_DISK_CACHE_MIB", options.disk_cache_bytes);
  options.hopper = is_on("ECHOTRAIN_HOPPER", options.hopper);
  options.graphs = is_on("ECHOTRAIN_GRAPHS", options.graphs);
  return options;
}

Resources::Resources(ResourceOptions options)
    : options_(std::move(options)),
      threads_(options_.threads > 0 ? std::min(options_.threads, ResourceOptions::kMostThreads) : usable_cores()) {}

Resources::~Resources() = default;

}  // namespace echotrain::numerics
