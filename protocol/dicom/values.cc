#include "protocol/dicom/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "protocol/data/text.h"

namespace echotrain::protocol::dicom {
namespace {

constexpr std::size_t kLongestUid = 64, kLongestDecimal = 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The digits of `text` where it has the form of `form`, in which 0 stands for a digit; otherwise nothing.
std::string digits_of(std::string_view text, std::string_view form) {
  if (text.size() < form.size()) return "";
  std::string digits;
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (form[i] == '0' ? !is_digit(text[i]) : text[i] != form[i]) return "";
    if (form[i] == '0') digits += text[i];
  }
  return digits;
}

}  // namespace

std::string decimal_text(double value) {
  if (!std::isfinite(value)) return "0";
  if (value == 0) return "0";  // never "-0"
  const std::string exact = fmt::format("{}", value);
  return exact.size() <= kLongestDecimal ? exact : fmt::format("{:.9g}", value);
}

std::string plain_text(std::string_view text, std::size_t most) {
  std::string out;
  std::string clean = printable(text);
  std::replace(clean.begin(), clean.end(), '\\', '/');
  std::string_view rest = clean;
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  for (std::size_t count = 0; !rest.empty() && count < most; ++count) {
    const std::size_t bytes = std::max<std::size_t>(1, utf8_character(rest));
    out += rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string date_text(std::string_view text) {
  const std::string digits = digits_of(text, text.find('-') == 4 ? "0000-00-00" : "00000000");
  if (digits.empty()) return "";
  const int month = std::stoi(digits.substr(4, 2)), day = std::stoi(digits.substr(6, 2));
  return month >= 1 && month <= 12 && day >= 1 && day <= 31 ? digits : "";
}

std::string time_text(std::string_view text) {
  const bool colons = text.find(':') == 2;
  std::string digits = digits_of(text, colons ? "00:00:00" : "000000");
  if (digits.empty() || digits.substr(0, 2) > "23" || digits.substr(2, 2) > "59" || digits.substr(4, 2) > "60")
    return "";
  std::string_view fraction = text.substr(colons ? 8 : 6);
  if (!fraction.starts_with('.') || fraction.size() < 2 || !is_digit(fraction[1])) return digits;
  digits += '.';
  fraction.remove_prefix(1);
  for (std::size_t i = 0; i < fraction.size() && i < 6 && is_digit(fraction[i]); ++i) digits += fraction[i];
  return digits;
}

bool is_uid(std::string_view text) {
  if (text.empty() || text.size() > kLongestUid) return false;
  while (true) {
    const std::size_t dot = text.find('.');
    const std::string_view part = text.substr(0, dot);
    if (part.empty() || !std::all_of(part.begin(), part.end(), is_digit) || (part.size() > 1 && part[0] == '0'))
      return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

std::string uid_of(std::string_view name) {
  // Made at random, once, for this purpose.
  constexpr boost::uuids::uuid kNamespace = {
      {0x6f, 0x1d, 0x0c, 0x7a, 0x52, 0x8e, 0x4b, 0x39, 0x9b, 0x1e, 0x3a, 0xd4, 0x77, 0x05, 0xc2, 0xe8}};
  boost::uuids::uuid id = boost::uuids::name_generator_sha1(kNamespace)(name.data(), name.size());
  std::string digits;
  for (bool left = true; left;) {  // long division by ten
    unsigned remainder = 0;
    left = false;
    for (std::uint8_t& byte : id) {
      const unsigned value = remainder * 256 + byte;
      byte = static_cast<std::uint8_t>(value / 10);
      remainder = value % 10;
      left = left || byte != 0;
    }
    digits += static_cast<char>('0' + remainder);
  }
  std::reverse(digits.begin(), digits.end());
  return "2.25." + digits;
}

std::int64_t series_number(std::int64_t scan, std::uint16_t index, std::int64_t behind, std::string_view uid) {
  constexpr std::int64_t kPerScan = 1000, kScans = 10000, kBranches = 10, kMostBehind = 20;
  constexpr std::int64_t kPerBranch = kScans * kPerScan, kOthers = (kMostBehind + 1) * kBranches * kPerBranch;
  const std::int64_t branch = index / kPerScan;
  if (scan < kScans && branch < kBranches && behind <= kMostBehind)
    return kPerScan * scan + index % kPerScan + kPerBranch * (branch + kBranches * behind);
  std::uint32_t digest = 2166136261U;  // FNV-1a
  for (const char c : uid) digest = (digest ^ static_cast<unsigned char>(c)) * 16777619U;
  return kOthers + digest % (std::numeric_limits<std::int32_t>::max() - kOthers);
}

}  // namespace echotrain::protocol::dicom
