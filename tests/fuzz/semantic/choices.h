// A choice that an input makes is a size, number or parameter that is allowed and that few people would choose.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "config/option.h"
#include "tests/fuzz/fuzz.h"

namespace echotrain::fuzz {

template <class T>
T one_of(Source& source, std::initializer_list<T> values) {
  return values.begin()[source.number<std::uint8_t>() % values.size()];
}
inline std::string word_of(Source& source, std::initializer_list<const char*> words) {
  return one_of<const char*>(source, words);
}

/// A number of things, from 1 to `most`: mostly small, now and then near a power of two, rarely the largest.
inline std::uint32_t odd_size(Source& source, std::uint32_t most) {
  static constexpr std::array<std::uint32_t, 24> kSizes = {16, 8,  12, 1,  2,  3,  4,  5,  6,  7,   9,   11,
                                                           13, 15, 17, 20, 24, 31, 32, 33, 48, 127, 256, 1021};
  const std::uint32_t which = source.number<std::uint8_t>();
  if (which == 255) return most;
  return std::min(kSizes[which % (which < 192 ? 16 : kSizes.size())], most);
}

/// A number that a float holds, or none (infinity, NaN).
inline float odd_float(Source& source) {
  using Float = std::numeric_limits<float>;
  return one_of(source, {0.0f,
                         1.0f,
                         -1.0f,
                         0.5f,
                         -0.0f,
                         1e-3f,
                         1e-30f,
                         1e-42f,
                         1e6f,
                         1e18f,
                         1e30f,
                         1e38f,
                         -1e38f,
                         Float::max(),
                         Float::min(),
                         Float::denorm_min(),
                         Float::infinity(),
                         -Float::infinity(),
                         Float::quiet_NaN(),
                         static_cast<float>(source.number<std::int16_t>())});
}

/// A value within the bounds that an option declares, as text: a bound, something near the default, or anything.
inline std::string odd_value(Source& source, const config::OptionInfo& option) {
  using Kind = config::OptionInfo::Kind;
  const std::uint32_t which = source.below(6);
  switch (option.kind) {
    case Kind::yes_or_no:
      return which % 2 == 0 ? "true" : "false";
    case Kind::choice:
      return option.choices[source.below(static_cast<std::uint32_t>(option.choices.size()))];
    case Kind::integer: {
      const std::int64_t low = std::stoll(option.low), high = std::stoll(option.high);
      if (which == 0) return option.low;
      if (which == 1) return option.high;
      const std::int64_t small = low + static_cast<std::int64_t>(odd_size(source, 1021));
      return std::to_string(std::min(which == 5 ? low + source.below(65536) % (high - low + 1) : small, high));
    }
    case Kind::number: {
      const double low = std::stod(option.low), high = std::stod(option.high);
      if (which == 0) return option.low;
      if (which == 1) return option.high;
      const double part = source.number<std::uint16_t>() / 65535.0;
      if (which == 2 && low > 0 && high / low > 100) return fmt::format("{:.17g}", low * std::pow(high / low, part));
      const double value = which == 3 ? low + part * std::min(1.0, high - low) : low + part * (high - low);
      return fmt::format("{:.17g}", std::clamp(value, low, high));
    }
    default:
      return which < 4 ? "\"\"" : "none.h5";
  }
}

}  // namespace echotrain::fuzz
