// Parameters of a gadget, declared once: YAML checking, --explain and the documentation table all come from here.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/yaml_reader.h"

namespace echotrain {

/// One parameter as a user sees it.
struct ParameterInfo {
  std::string name;
  std::string help;
  std::string type;      ///< "integer", "number", "true or false", "one of", "text"
  std::string fallback;  ///< its default, as text
  std::string range;     ///< "2 .. 8", "rss, none", or empty
};

/// The parameters of options struct `O`. Usage:
///   static Parameters<Options> parameters() {
///     return Parameters<Options>()
///         .integer("kernel_width", &Options::kernel_width, 2, 8, "width of the kernel [grid cells]")
///         .choice("method", &Options::method, {"rss", "none"}, "how coils are combined");
///   }
/// Defaults are those of a default-constructed O.
template <class O>
class Parameters {
 public:
  Parameters integer(std::string name, std::int64_t O::*member, std::int64_t low, std::int64_t high,
                     std::string help) && {
    add({std::move(name), std::move(help), "integer", std::to_string(O{}.*member),
         std::to_string(low) + " .. " + std::to_string(high)},
        [=](O& o, const config::Node& node) { o.*member = node.as_int(low, high); });
    return std::move(*this);
  }
  Parameters number(std::string name, double O::*member, double low, double high, std::string help) && {
    add({std::move(name), std::move(help), "number", number_text(O{}.*member),
         number_text(low) + " .. " + number_text(high)},
        [=](O& o, const config::Node& node) { o.*member = node.as_double(low, high); });
    return std::move(*this);
  }
  Parameters flag(std::string name, bool O::*member, std::string help) && {
    add({std::move(name), std::move(help), "true or false", O{}.*member ? "true" : "false", ""},
        [=](O& o, const config::Node& node) { o.*member = node.as_bool(); });
    return std::move(*this);
  }
  Parameters choice(std::string name, std::string O::*member, std::vector<std::string> choices, std::string help) && {
    std::string range;
    for (const auto& c : choices) range += (range.empty() ? "" : ", ") + c;
    add({std::move(name), std::move(help), "one of", O{}.*member, std::move(range)},
        [member, choices = std::move(choices)](O& o, const config::Node& node) {
          o.*member = node.as_choice(choices);
        });
    return std::move(*this);
  }

  Parameters text(std::string name, std::string O::*member, std::string help) && {
    add({std::move(name), std::move(help), "text", O{}.*member, ""},
        [=](O& o, const config::Node& node) { o.*member = node.as_string(); });
    return std::move(*this);
  }

  const std::vector<ParameterInfo>& info() const { return info_; }

  /// Options from a map (or null: all defaults). ConfigError on an unknown key, a wrong type or a value out of range.
  O read(const config::Node& node) const {
    O options;
    std::vector<std::string> known;
    for (const auto& i : info_) known.push_back(i.name);
    if (node.kind() == config::Node::Kind::null) return options;
    node.only(known);
    for (const auto& entry : node.as_map())
      for (std::size_t i = 0; i < info_.size(); ++i)
        if (info_[i].name == entry.key) setters_[i](options, entry.value);
    return options;
  }

 private:
  using Setter = std::function<void(O&, const config::Node&)>;
  void add(ParameterInfo info, Setter setter) {
    info_.push_back(std::move(info));
    setters_.push_back(std::move(setter));
  }
  static std::string number_text(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.10g", value);
    return text;
  }
  std::vector<ParameterInfo> info_;
  std::vector<Setter> setters_;
};

}  // namespace echotrain
