#include "protocol/data/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

#include "protocol/data/limits.h"

namespace echotrain::protocol {
namespace {

struct Range {
  char32_t first, last;
};

/// Characters that are not seen themselves and change how others are: controls (Unicode's category Cc; terminals obey
/// them), format characters (Cf; some reverse the direction of what follows) and separators of lines and paragraphs
/// (Zl, Zp). Unicode 15, UnicodeData.txt.
constexpr Range kUnseen[] = {{0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},
                             {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},
                             {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
                             {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd},
                             {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
                             {0xe0001, 0xe0001}, {0xe0020, 0xe007f}};

/// The value of one well-formed UTF-8 character.
char32_t value_of(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  char32_t value = first & (0x7fu >> character.size());
  for (const char c : character.substr(1)) value = value << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return value;
}

bool is_unseen(std::string_view character) {
  const char32_t value = value_of(character);
  return std::any_of(std::begin(kUnseen), std::end(kUnseen),
                     [value](const Range& range) { return value >= range.first && value <= range.last; });
}

}  // namespace

std::size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned char low = 0x80;  // range of the second byte
  unsigned char high = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  }
  if (length == 0 || text.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    std::uint64_t word = 0;
    while (text.size() >= sizeof(word)) {  // eight ASCII characters at a time
      std::memcpy(&word, text.data(), sizeof(word));
      if ((word & 0x8080808080808080u) != 0) break;
      text.remove_prefix(sizeof(word));
    }
    if (text.empty()) break;
    const std::size_t length = utf8_character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string_view cut_at_nul(std::string_view text) { return text.substr(0, std::min(text.find('\0'), text.size())); }

std::string quotable(std::string_view text, std::size_t max_bytes) {
  std::string result(text.substr(0, max_bytes));
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (text.size() > max_bytes) result += "...";
  return result;
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string result;
  result.reserve(std::min(text.size(), max_bytes));
  while (!text.empty()) {
    const std::size_t length = utf8_character(text);
    const bool good = length != 0 && !is_unseen(text.substr(0, length));
    const std::string_view shown = good ? text.substr(0, length) : std::string_view("?");
    if (result.size() + shown.size() > max_bytes) break;
    result += shown;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::string format_log_text(Level level, std::string_view text) {
  static constexpr std::array<std::string_view, 5> kNames = {"DEBUG   ", "INFO    ", "WARNING ", "ERROR   ",
                                                             "CRITICAL"};
  // Makes one line of a text of many: peers show it as one log entry.
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == '\0')) text.remove_suffix(1);
  std::string result(kNames.at(static_cast<std::size_t>(level)));
  result += ' ';
  result += printable(text, Limits{}.text_bytes - 16);
  result += '\n';
  return result;
}

}  // namespace echotrain::protocol
