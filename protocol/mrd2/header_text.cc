#include "protocol/mrd2/header_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <pugixml.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "protocol/data/text.h"
#include "protocol/data/xml_check.h"
#include "protocol/mrd2/model.h"

namespace echotrain::protocol::mrd2 {
namespace {

using Kind = Type::Kind;

constexpr std::int64_t kSecond = 1'000'000'000;

/// Names of ISMRMRD's schema (ismrmrd.xsd) that differ from those of MRD 2.
constexpr std::array<std::pair<std::string_view, std::string_view>, 27> kNames{
    {{"patientWeightKg", "patientWeight_kg"},
     {"patientHeightM", "patientHeight_m"},
     {"systemFieldStrengthT", "systemFieldStrength_T"},
     {"h1resonanceFrequencyHz", "H1resonanceFrequency_Hz"},
     {"fieldOfViewMm", "fieldOfView_mm"},
     {"kspaceEncodingStep0", "kspace_encoding_step_0"},
     {"kspaceEncodingStep1", "kspace_encoding_step_1"},
     {"kspaceEncodingStep2", "kspace_encoding_step_2"},
     {"user0", "user_0"},
     {"user1", "user_1"},
     {"user2", "user_2"},
     {"user3", "user_3"},
     {"user4", "user_4"},
     {"user5", "user_5"},
     {"user6", "user_6"},
     {"user7", "user_7"},
     {"tR", "TR"},
     {"tE", "TE"},
     {"tI", "TI"},
     {"flipAngleDeg", "flipAngle_deg"},
     {"sequenceType", "sequence_type"},
     {"echoSpacing", "echo_spacing"},
     {"multibandFactor", "multiband_factor"},
     {"calibrationEncoding", "calibration_encoding"},
     {"m", "M"},
     {"f", "F"},
     {"o", "O"}}};

std::string xml_name(std::string_view name) {
  for (const auto& [here, there] : kNames)
    if (here == name) return std::string(there);
  return std::string(name);
}

/// Returns what the names of both formats have in common.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '_') out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string local_name(const pugi::xml_node& node) {
  const std::string name = node.name();
  const auto colon = name.find(':');
  return colon == std::string::npos ? name : name.substr(colon + 1);
}

// --- to XML

std::string date_text(std::int64_t days) {
  constexpr std::int64_t kMostDays = 10'000'000;  // what a calendar of 16-bit years holds
  const std::chrono::year_month_day date{
      std::chrono::sys_days{std::chrono::days{std::clamp(days, -kMostDays, kMostDays)}}};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

std::string time_text(std::int64_t nanoseconds) {
  const std::int64_t seconds = nanoseconds / kSecond, rest = nanoseconds % kSecond;
  std::string text = fmt::format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (rest == 0) return text;
  text += fmt::format(".{:09}", rest);
  return text.substr(0, text.find_last_not_of('0') + 1);
}

std::string symbol_text(const Type& type, std::int64_t number) {
  for (const auto& [symbol, value] : type.symbols) {
    if (value != number) continue;
    std::string text = xml_name(symbol);
    if (type.name == "PatientPosition")
      std::transform(text.begin(), text.end(), text.begin(),
                     [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    return text;
  }
  return fmt::format("{}", number);
}

std::string scalar_text(const Value& value) {
  const Type& type = *value.type;
  if (const auto* text = std::get_if<std::string>(&value.content)) return *text;
  if (const auto* natural = std::get_if<std::uint64_t>(&value.content)) return fmt::format("{}", *natural);
  if (const auto* real = std::get_if<double>(&value.content))
    return type.bits == 32 ? fmt::format("{}", static_cast<float>(*real)) : fmt::format("{}", *real);
  const std::int64_t number = std::get<std::int64_t>(value.content);
  if (type.name == "date") return date_text(number);
  if (type.name == "time") return time_text(number);
  return type.symbols.empty() ? fmt::format("{}", number) : symbol_text(type, number);
}

void add_fields(pugi::xml_node& to, const Value& record);

void add_element(pugi::xml_node& to, const std::string& name, const Value& value) {
  if (value.is_null()) return;
  if (value.type->kind == Kind::vector) {
    for (const Value& item : std::get<List>(value.content)) add_element(to, name, item);
    return;
  }
  pugi::xml_node node = to.append_child(name.c_str());
  if (value.type->kind == Kind::record)
    add_fields(node, value);
  else if (!std::holds_alternative<Numbers>(value.content) && !std::holds_alternative<List>(value.content))
    node.text().set(scalar_text(value).c_str());
}

void add_fields(pugi::xml_node& to, const Value& record) {
  const List& parts = std::get<List>(record.content);
  for (std::size_t i = 0; i < parts.size(); ++i) add_element(to, xml_name(record.type->members[i].name), parts[i]);
}

// --- from XML

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The whole numbers of "2026-01-31" or "13:05:07".
std::optional<std::array<int, 3>> three(std::string_view text, char between) {
  std::array<int, 3> out{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto end = i < 2 ? text.find(between) : text.size();
    if (end == std::string_view::npos) return std::nullopt;
    const auto part = number<int>(text.substr(0, end));
    if (!part || *part < 0) return std::nullopt;
    out[i] = *part;
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return out;
}

std::optional<std::int64_t> days_of(std::string_view text) {
  const auto parts = three(text, '-');
  if (!parts) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{(*parts)[0]},
                                         std::chrono::month{static_cast<unsigned>((*parts)[1])},
                                         std::chrono::day{static_cast<unsigned>((*parts)[2])}};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count();
}

std::optional<std::int64_t> nanoseconds_of(std::string_view text) {
  const auto dot = text.find('.');
  const auto parts = three(text.substr(0, dot), ':');
  if (!parts || (*parts)[0] > 24 || (*parts)[1] > 59 || (*parts)[2] > 60) return std::nullopt;
  std::int64_t fraction = 0;
  if (dot != std::string_view::npos) {
    const auto rest = number<double>(fmt::format("0{}", text.substr(dot)));
    if (!rest) return std::nullopt;
    fraction = std::llround(*rest * static_cast<double>(kSecond));
  }
  return (((*parts)[0] * std::int64_t{60} + (*parts)[1]) * 60 + (*parts)[2]) * kSecond + fraction;
}

std::optional<std::int64_t> integer_of(const Type& type, std::string_view text) {
  if (type.name == "date") return days_of(text);
  if (type.name == "time") return nanoseconds_of(text);
  if (type.symbols.empty()) return number<std::int64_t>(text);
  for (const auto& [symbol, value] : type.symbols)
    if (plain(symbol) == plain(text)) return value;
  return std::nullopt;
}

class FromXml {
 public:
  explicit FromXml(std::vector<std::string>& left_out) : left_out_(left_out) {}

  Value record(const Type& type, const pugi::xml_node& node, const std::string& path) {
    Value out;
    out.type = &type;
    List parts;
    std::set<std::string> known;
    for (const auto& member : type.members) {
      known.insert(plain(member.name));
      parts.push_back(field(*member.type, member.name, node, path));
    }
    for (const pugi::xml_node child : node.children())
      if (child.type() == pugi::node_element && known.count(plain(local_name(child))) == 0)
        left_out_.push_back(path + local_name(child));
    out.content = std::move(parts);
    return out;
  }

 private:
  static std::vector<pugi::xml_node> children(const pugi::xml_node& node, const std::string& name) {
    std::vector<pugi::xml_node> found;
    for (const pugi::xml_node child : node.children())
      if (child.type() == pugi::node_element && plain(local_name(child)) == plain(name)) found.push_back(child);
    return found;
  }

  Value field(const Type& type, const std::string& name, const pugi::xml_node& node, const std::string& path) {
    const auto found = children(node, name);
    const std::string here = path + xml_name(name);
    Value out = default_value(type);
    if (type.kind == Kind::vector) {
      List items;
      for (const auto& each : found)
        if (auto item = value(*type.items, each, here)) items.push_back(*std::move(item));
      out.content = std::move(items);
      return out;
    }
    const bool optional = type.is_optional();
    const Type& inner = optional ? *type.members[1].type : type;
    if (!found.empty())
      if (auto one = value(inner, found[0], here)) return *std::move(one);
    if (optional) return out;
    if (inner.name == "PatientPosition") out.content = *integer_of(inner, "HFS");
    if (found.empty()) left_out_.push_back(here + " (is missing)");
    return out;
  }

  std::optional<Value> value(const Type& type, const pugi::xml_node& node, const std::string& path) {
    if (type.kind == Kind::record) return record(type, node, path + "/");
    const std::string_view text = trimmed(node.child_value());
    Value out;
    out.type = &type;
    const auto take = [&out](const auto& parsed) {
      if (parsed) out.content = *parsed;
      return parsed.has_value();
    };
    bool done = false;
    if (type.kind == Kind::text) done = take(std::optional<std::string>(node.child_value()));
    if (type.kind == Kind::natural) done = take(number<std::uint64_t>(text)) && fits(out, type);
    if (type.kind == Kind::integer) done = take(integer_of(type, text));
    if (type.kind == Kind::real) done = take(number<double>(text));
    if (!done) {
      left_out_.push_back(fmt::format("{} ('{}')", path, quotable(text, 40)));
      return std::nullopt;
    }
    return out;
  }

  static bool fits(const Value& value, const Type& type) {
    return type.bits == 64 || std::get<std::uint64_t>(value.content) >> type.bits == 0;
  }

  static std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r\n";
    const auto first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
  }

  std::vector<std::string>& left_out_;
};

}  // namespace

std::string header_text(const Value& header) {
  pugi::xml_document document;
  pugi::xml_node declaration = document.append_child(pugi::node_declaration);
  declaration.append_attribute("version") = "1.0";
  pugi::xml_node root = document.append_child("ismrmrdHeader");
  root.append_attribute("xmlns") = "http://www.ismrm.org/ISMRMRD";
  add_fields(root, header);
  std::ostringstream text;
  document.save(text, " ", pugi::format_default, pugi::encoding_utf8);
  return text.str();
}

Result<Value> read_header_text(const std::string& xml, const Limits& limits, std::vector<std::string>& left_out) {
  if (!is_utf8(xml)) return Error{"bad-header", "the header is not valid UTF-8"};
  if (auto danger = xml_problem(xml, limits)) return Error{"bad-header", *std::move(danger)};
  pugi::xml_document document;
  const auto parsed = document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) return Error{"bad-header", fmt::format("the header is not XML: {}", parsed.description())};
  const pugi::xml_node root = document.document_element();
  if (local_name(root) != "ismrmrdHeader")
    return Error{"bad-header",
                 fmt::format("the root element is '{}'; 'ismrmrdHeader' is needed", quotable(root.name()))};
  static const Type& type = *find_type(model(), "Header");
  return FromXml(left_out).record(type, root, "");
}

}  // namespace echotrain::protocol::mrd2
