#include "protocol/data/meta.h"

#include <pugixml.hpp>

namespace echotrain::protocol {

std::vector<std::pair<std::string, std::string>> meta_values(const std::string& attributes) {
  std::vector<std::pair<std::string, std::string>> values;
  pugi::xml_document document;
  if (!document.load_buffer(attributes.data(), attributes.size())) return values;
  for (const pugi::xml_node meta : document.child("ismrmrdMeta").children("meta")) {
    for (const pugi::xml_node value : meta.children("value")) {
      values.emplace_back(meta.child_value("name"), value.child_value());
    }
  }
  return values;
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
