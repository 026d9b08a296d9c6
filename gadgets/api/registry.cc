#include "gadgets/api/registry.h"

#include <fmt/format.h>

#include <set>
#include <stdexcept>
#include <utility>

namespace echotrain {

void Registry::take(Registry&& other) {
  entries_.merge(other.entries_);
  for (Fusion& fusion : other.fusions_) fusions_.push_back(std::move(fusion));
}

const GadgetEntry* Registry::find(std::string_view name) const {
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : entries_) out.push_back(name);
  return out;
}

std::string Registry::explain(std::string_view name) const {
  const GadgetEntry* entry = find(name);
  if (entry == nullptr) throw std::out_of_range(fmt::format("no gadget is called '{}'", name));
  std::string out = fmt::format("{}\n  {}\n\n", entry->name, entry->summary);
  std::set<std::pair<ItemType, ItemType>> known;
  for (const auto& form : entry->forms)
    if (known.emplace(form.takes, form.gives).second)
      out += fmt::format("  {} -> {}\n", to_string(form.takes), to_string(form.gives));
  if (entry->parameters.empty()) return out + "\n  no parameters\n";
  out += "\n  parameters\n";
  for (const auto& p : entry->parameters) {
    const auto with_blank = [](const std::string& text) { return text.empty() ? "" : " " + text; };
    out += fmt::format("    {}: {}{}{}, default {}\n        {}\n", p.name, p.type(), with_blank(p.range()),
                       with_blank(p.unit), p.fallback.empty() ? "none" : p.fallback, p.help);
  }
  return out;
}

}  // namespace echotrain
