#include "protocol/data/meta.h"

#include <algorithm>
#include <new>
#include <pugixml.hpp>

namespace echotrain::protocol {
namespace {

void add_escaped(std::string& to, std::string_view text) {
  for (const char c : text.substr(0, text.find('\0'))) {
    const bool control = c > 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r';
    if (c == '&')
      to += "&amp;";
    else if (c == '<')
      to += "&lt;";
    else if (c == '>')
      to += "&gt;";
    else if (control)
      to.append({'&', '#', static_cast<char>('0' + c / 10), static_cast<char>('0' + c % 10), ';'});
    else
      to += c;
  }
}

}  // namespace

std::string meta_text(const std::map<std::string, std::vector<std::string>>& values) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ismrmrdMeta>\n";
  for (const auto& [name, of_name] : values) {
    text += "\t<meta>\n\t\t<name>";
    add_escaped(text, name);
    text += "</name>\n";
    for (const std::string& value : of_name) {
      text += "\t\t<value>";
      add_escaped(text, value);
      text += "</value>\n";
    }
    text += "\t</meta>\n";
  }
  return text + "</ismrmrdMeta>\n";
}

std::vector<std::pair<std::string, std::string>> meta_values(const std::string& attributes) {
  std::vector<std::pair<std::string, std::string>> values;
  for_each_meta(attributes, [&](std::string_view name, std::string_view value) { values.emplace_back(name, value); });
  return values;
}

void for_each_meta(const std::string& attributes,
                   const std::function<void(std::string_view name, std::string_view value)>& take) {
  pugi::xml_document document;
  const pugi::xml_parse_result read = document.load_buffer(attributes.data(), attributes.size());
  if (read.status == pugi::status_out_of_memory) throw std::bad_alloc();  // else an image would lose its role
  if (!read) return;
  for (const pugi::xml_node meta : document.child("ismrmrdMeta").children("meta")) {
    const std::string_view name = meta.child_value("name");  // looked for once: it may stand after many values
    if (name.size() > kLongestMetaName) continue;
    for (const pugi::xml_node value : meta.children("value")) take(name, value.child_value());
  }
}

std::uint64_t bytes_to_read_meta(std::string_view attributes) {
  // pugixml's, of eight and five pointers. A tag begins at most an element and a text after it.
  constexpr std::uint64_t kNode = 64, kAttribute = 40, kFirstPage = 32 << 10;
  const auto count = [&](char c) {
    return static_cast<std::uint64_t>(std::count(attributes.begin(), attributes.end(), c));
  };
  return kFirstPage + attributes.size() + 2 * kNode * count('<') + kAttribute * count('=');
}

std::string meta_value(const std::string& attributes, std::string_view name) {
  for (auto& [key, value] : meta_values(attributes))
    if (key == name) return value;
  return "";
}

void add_meta(std::string& attributes, std::string_view name, std::string_view value) {
  constexpr std::string_view kEnd = "</ismrmrdMeta>";
  if (attributes.empty())
    attributes = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ismrmrdMeta>\n" + std::string(kEnd) + "\n";
  const std::size_t end = attributes.rfind(kEnd);
  if (end == std::string::npos) return;
  std::string added = "<meta><name>";
  added.append(name).append("</name><value>").append(value).append("</value></meta>\n");
  attributes.insert(end, added);
}

}  // namespace echotrain::protocol
