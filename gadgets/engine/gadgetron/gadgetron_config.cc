#include "gadgets/engine/gadgetron/gadgetron_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <pugixml.hpp>

#include "protocol/data/header_element.h"
#include "protocol/data/xml_check.h"

namespace echotrain {
namespace {

using protocol::Error;
using protocol::plain_name;
using protocol::text_of;
using Gadget = GadgetronConfig::Gadget;

constexpr std::size_t kMostReferred = 256;  // bytes of a value
constexpr protocol::Limits kLimits{.xml_depth = 24, .xml_items = 1 << 14};

Error refused(const std::string& why) { return {"bad-config", "the XML configuration is not read: " + why}; }

/// Elements that only say where and how the streams below them run.
bool holds_streams(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "stream",   "distributed",     "parallelprocess", "purestream",
      "parallel", "puredistributed", "configuration",   "gadgetronStreamConfiguration"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

class Reader {
 public:
  /// Its depth is that of the elements, which xml_problem() has bounded.
  void walk(const pugi::xml_node& element, std::string branch) {
    if (const std::string_view shares = text_of(protocol::child_named(element, "branch"), "classname");
        plain_name(element) == "parallel" && !shares.empty()) {
      config.gadgets.push_back({std::string(shares), branch, {}});
      branch = shares;
    }
    for (const pugi::xml_node& each : element.children()) {
      const std::string_view name = plain_name(each);
      if (name == "gadget")
        gadget(each, branch);
      else if (name == "external")
        external(each, branch);
      else if (name == "merge")
        config.gadgets.push_back({std::string(text_of(each, "classname")), branch, {}});
      else if (holds_streams(name))
        walk(each, branch);
    }
  }

  /// "coils@PCA" stands for the property `coils` of the gadget named PCA.
  void resolve() {
    for (Gadget& each : config.gadgets)
      for (auto& [name, value] : each.properties) {
        const std::size_t at = value.find('@');
        const auto other = at == std::string::npos ? by_name_.end() : by_name_.find(value.substr(at + 1));
        if (other == by_name_.end()) continue;
        const auto found = other->second.find(value.substr(0, at));
        // All that is taken over is a number or a word.
        if (found != other->second.end() && found->second.size() <= kMostReferred) value = found->second;
      }
  }

  GadgetronConfig config;

 private:
  void gadget(const pugi::xml_node& element, const std::string& branch) {
    Gadget out{std::string(text_of(element, "classname")), branch, {}};
    std::map<std::string, std::string>& named = by_name_[std::string(text_of(element, "name"))];
    for (const pugi::xml_node& each : element.children()) {
      if (plain_name(each) != "property") continue;
      const std::string name =
          each.attribute("name").empty() ? std::string(text_of(each, "name")) : each.attribute("name").value();
      const std::string value =
          each.attribute("value").empty() ? std::string(text_of(each, "value")) : each.attribute("value").value();
      out.properties.emplace_back(name, value);
      named.emplace(name, value);
    }
    config.gadgets.push_back(std::move(out));
  }

  void external(const pugi::xml_node& element, const std::string& branch) {
    const pugi::xml_node program = protocol::child_named(element, "execute");
    config.gadgets.push_back(
        {fmt::format("external {} {}", program.attribute("type").value(), program.attribute("name").value()),
         branch,
         {}});
  }

  std::map<std::string, std::map<std::string, std::string>> by_name_;  // properties of gadgets that have a name
};

}  // namespace

bool is_xml(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '<';
}

protocol::Result<GadgetronConfig> read_gadgetron(std::string_view xml) {
  if (xml.size() > kMostGadgetronBytes)
    return refused(fmt::format("it has {} bytes, more than {}", xml.size(), kMostGadgetronBytes));
  if (const auto problem = protocol::xml_problem(xml, kLimits)) return refused(*problem);
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) return refused(fmt::format("{} (byte {})", parsed.description(), parsed.offset));
  const pugi::xml_node root = document.document_element();
  if (!holds_streams(plain_name(root)))
    return refused("it is none of Gadgetron's, which are <configuration> or <gadgetronStreamConfiguration>");
  Reader reader;
  reader.walk(root, "");
  reader.resolve();
  return std::move(reader.config);
}

}  // namespace echotrain
