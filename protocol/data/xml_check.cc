#include "protocol/data/xml_check.h"

#include <fmt/format.h>

namespace echotrain::protocol {
namespace {

// The end of the tag that starts at text[0] == '<': the position of its '>', not counting those inside quotes. Adds the
// tag's attributes to `items`.
std::size_t end_of_tag(std::string_view text, std::uint64_t& items) {
  char quote = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '=') {
      ++items;
    } else if (c == '>') {
      return i;
    }
  }
  return std::string_view::npos;
}

// Markup that is skipped with all that it holds.
struct Section {
  std::string_view open;
  std::string_view close;
};
constexpr Section kSections[] = {{"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<?", "?>"}};

}  // namespace

std::optional<std::string> xml_problem(std::string_view xml, const Limits& limits) {
  std::uint32_t depth = 0;
  std::uint64_t items = 0;
  while (true) {
    const std::size_t start = xml.find('<');
    if (start == std::string_view::npos) return std::nullopt;
    xml.remove_prefix(start);
    std::size_t end = std::string_view::npos;
    bool section = false;
    for (const Section& kind : kSections) {
      if (!xml.starts_with(kind.open)) continue;
      section = true;
      end = xml.find(kind.close, kind.open.size());
      if (end != std::string_view::npos) end += kind.close.size() - 1;
    }
    if (!section) {
      if (xml.starts_with("<!")) return "a document type or entity declaration is not allowed";
      end = end_of_tag(xml, items);
    }
    if (end == std::string_view::npos) return "the XML ends inside markup";
    if (++items > limits.xml_items) return fmt::format("there are more than {} tags and attributes", limits.xml_items);
    if (!section && xml[1] == '/') {
      if (depth > 0) --depth;
    } else if (!section && xml[end - 1] != '/') {
      if (++depth > limits.xml_depth) return fmt::format("elements are nested more than {} deep", limits.xml_depth);
    }
    xml.remove_prefix(end + 1);
  }
}

}  // namespace echotrain::protocol
