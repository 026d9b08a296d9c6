#include "protocol/data/trace.h"

#include <fmt/format.h>

#include <random>

namespace echotrain::protocol {

std::string trace_id_of(std::string_view traceparent) {
  constexpr std::size_t kVersion = 2, kTrace = 32, kParent = 16, kFlags = 2;
  constexpr std::size_t kLength = kVersion + 1 + kTrace + 1 + kParent + 1 + kFlags;
  const auto part = [&](std::size_t at, std::size_t length) -> std::string_view {
    const std::string_view digits = traceparent.substr(at, length);
    return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos ? digits : std::string_view();
  };
  const auto is_zero = [](std::string_view digits) { return digits.find_first_not_of('0') == std::string_view::npos; };
  if (traceparent.size() < kLength) return "";
  const std::string_view version = part(0, kVersion), trace = part(kVersion + 1, kTrace),
                         parent = part(kVersion + 1 + kTrace + 1, kParent), flags = part(kLength - kFlags, kFlags);
  const bool separated = traceparent[kVersion] == '-' && traceparent[kVersion + 1 + kTrace] == '-' &&
                         traceparent[kLength - kFlags - 1] == '-';
  const bool ends = traceparent.size() == kLength || (version != "00" && traceparent[kLength] == '-');
  if (version.empty() || version == "ff" || flags.empty() || is_zero(trace) || is_zero(parent) || !separated || !ends)
    return "";
  return std::string(trace);
}

std::string new_trace_id() {
  std::random_device random;
  std::string id;
  do {
    id.clear();
    for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  } while (id.find_first_not_of('0') == std::string::npos);
  return id;
}

}  // namespace echotrain::protocol
