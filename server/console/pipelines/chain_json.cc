#include "server/console/pipelines/chain_json.h"

#include <nlohmann/json.hpp>
#include <string>

namespace echotrain::server {

namespace {

using nlohmann::ordered_json;

/// Returns a value as one writes it on one line of YAML.
std::string text_of(const config::Node& node) {
  std::string out;
  switch (node.kind()) {
    case config::Node::Kind::null:
      return "null";
    case config::Node::Kind::scalar:
      return node.as_string();
    case config::Node::Kind::sequence:
      for (const config::Node& item : node.as_sequence()) out += (out.empty() ? "" : ", ") + text_of(item);
      return "[" + out + "]";
    case config::Node::Kind::map:
      for (const auto& [key, mark, value] : node.as_map())
        out += (out.empty() ? "" : ", ") + key + ": " + text_of(value);
      return "{" + out + "}";
  }
  return out;
}

ordered_json parameter_json(const ParameterInfo& info, const config::Node& given) {
  ordered_json out{{"name", info.name}, {"type", info.type()},      {"range", info.range()},
                   {"unit", info.unit}, {"default", info.fallback}, {"help", info.help}};
  const config::Node value = given.get(info.name);
  out["value"] = value.kind() == config::Node::Kind::null ? ordered_json() : ordered_json(text_of(value));
  return out;
}

ordered_json gadget_json(const config::GadgetSpec& spec, const GadgetForm& form, const Registry& registry) {
  ordered_json out{{"gadget", spec.name},
                   {"line", spec.mark.line},
                   {"takes", to_string(form.takes)},
                   {"gives", to_string(form.gives)},
                   {"summary", ""},
                   {"parameters", ordered_json::array()}};
  if (const GadgetEntry* const entry = registry.find(spec.name)) {
    out["summary"] = entry->summary;
    for (const ParameterInfo& info : entry->parameters)
      out["parameters"].push_back(parameter_json(info, spec.parameters));
  }
  return out;
}

ordered_json branch_json(const BranchPlan& branch, const Registry& registry) {
  ordered_json out{{"branch", true},
                   {"line", branch.spec.mark.line},
                   {"takes", to_string(branch.chain->types.front())},
                   {"when", branch.spec.when.text},
                   {"pass_on", branch.spec.pass_on}};
  if (branch.spec.role.empty())
    out["series_offset"] = branch.series_offset;
  else
    out["role"] = branch.spec.role;
  out["chain"] = chain_json(*branch.chain, registry);
  return out;
}

}  // namespace

ordered_json chain_json(const ChainPlan& chain, const Registry& registry) {
  ordered_json steps = ordered_json::array(), as_one = ordered_json::array();
  for (std::size_t i = 0; i < chain.forms.size(); ++i)
    if (const auto branch = chain.branches.find(i); branch != chain.branches.end())
      steps.push_back(branch_json(branch->second, registry));
    else
      steps.push_back(gadget_json(chain.gadgets[i], *chain.forms[i], registry));
  for (const ChainPlan::Fused& fused : chain.fused)
    as_one.push_back({{"gadgets", fused.fusion->names}, {"cpu_only", fused.fusion->cpu_only}});
  return {{"entrance", to_string(chain.types.front())}, {"steps", std::move(steps)}, {"as_one", std::move(as_one)}};
}

}  // namespace echotrain::server
