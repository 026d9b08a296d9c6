#include "gadgets/engine/gadget_reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "gadgets/engine/chain/chain_plan.h"
#include "gadgets/engine/pipeline.h"

namespace echotrain {
namespace {

constexpr const char* kIntroduction = R"(# Gadgets

<!-- `./run docs` writes this file from the gadgets' declarations; a test fails when it is stale. -->

Every gadget, what it takes and gives, and its parameters (a flag is `true` or `false`), as `echotrain-server --explain GADGET`
prints them. [pipelines.md](pipelines.md) says how gadgets make a pipeline.

|gadget|takes|gives|
|---|---|---|
)";

/// `text` escaped for a cell of a table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

/// Puts `text` on one line: descriptions may have line ends, and other characters that control a terminal.
std::string line_of(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return text;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

std::string type_cell(const ParameterInfo& parameter) {
  using Kind = ParameterInfo::Kind;
  return parameter.kind == Kind::yes_or_no ? "flag" : parameter.kind == Kind::choice ? "choice" : parameter.type();
}

/// The allowed values, of a number without blanks: "2..8".
std::string range_cell(const ParameterInfo& p) { return p.low.empty() ? cell(p.range()) : p.low + ".." + p.high; }

/// The table of a gadget's parameters. A long help is told once: `told` has the gadgets that told one, by help.
std::string parameters_table(const std::string& gadget, const GadgetEntry& entry,
                             std::map<std::string, std::string>& told) {
  constexpr std::size_t kShortHelp = 45;
  if (entry.parameters.empty()) return "No parameters.\n";
  std::string out = "|parameter|type|range|unit|default||\n|---|---|---|---|---|---|\n";
  for (const ParameterInfo& p : entry.parameters) {
    const std::string& teller = p.help.size() < kShortHelp ? gadget : told.try_emplace(p.help, gadget).first->second;
    const std::string help = teller == gadget ? cell(p.help) : fmt::format("see [{0}](#{0})", teller);
    out += fmt::format("|`{}`|{}|{}|{}|{}|{}|\n", p.name, type_cell(p), range_cell(p), cell(p.unit), code(p.fallback),
                       help);
  }
  return out;
}

}  // namespace

std::string list_pipelines(std::span<const config::PipelineSpec> pipelines) {
  std::string out;
  for (const config::PipelineSpec& spec : pipelines) {
    const std::string aliases = fmt::format("{}", fmt::join(spec.aliases, ", "));
    out += fmt::format("{:<24} {}{}\n", spec.name, line_of(spec.description),
                       aliases.empty() ? "" : fmt::format(" (also {})", aliases));
  }
  return out;
}

std::string list_gadgets(const Registry& registry) {
  std::string out;
  for (const std::string& name : registry.names())
    out += fmt::format("{:<24} {}\n", name, registry.find(name)->summary);
  return out;
}

std::string explain_pipeline(const config::PipelineSpec& spec, const Registry& registry) {
  std::string out = fmt::format("{}\n  {}\n", spec.name, spec.description);
  if (!spec.aliases.empty()) out += fmt::format("  also {}\n", fmt::join(spec.aliases, ", "));
  if (spec.input == config::Input::images) out += "  input: images\n";
  out += fmt::format("\n{}\n  what each does\n", indented(PipelinePlan::check(spec, registry)->describe()));
  for (const auto* chain : {&spec.gadgets, &spec.accelerated})
    for (const config::GadgetSpec& gadget : *chain) {
      const GadgetEntry* entry = registry.find(gadget.name);
      const std::string line = entry == nullptr ? "" : fmt::format("    {}: {}\n", gadget.name, entry->summary);
      if (out.find(line) == std::string::npos) out += line;
    }
  return out;
}

std::string explain_branches() {
  return R"(branch
  Gives copies of the items at its place a chain of their own, whose images are a series of their own.

  parameters (docs/pipelines.md, "Branches")
    pipeline: the branch's gadgets, as in a pipeline file
    when: map of conditions, all of which must hold; default none
        encoding, slice, contrast, phase, repetition, set, series: N, a list, or {from: N, to: M}
        kind, flag: of readouts; content, image_type, meta: of images
        item: images: those that the client sends beside readouts
    pass_on: flag, default true
        whether the items that it takes go on along the chain, too
    series_offset: integer 0 .. 60000, default 1000 times the branch's number in the file
        added to image_series_index of its images
    role: text, default none
        its images are not sent, but serve gadgets that ask for images of this role (coil_maps, reference)
)";
}

std::string gadgets_markdown(const Registry& registry) {
  std::string table = kIntroduction, sections;
  std::map<std::string, std::string> told;
  for (const std::string& name : registry.names()) {
    const GadgetEntry& entry = *registry.find(name);
    std::string forms;
    std::set<std::pair<ItemType, ItemType>> known;
    for (const GadgetForm& form : entry.forms) {
      if (!known.emplace(form.takes, form.gives).second) continue;
      table += fmt::format("|[`{0}`](#{0})|{1}|{2}|\n", name, to_string(form.takes), to_string(form.gives));
      forms += fmt::format("{}{}\u2192{}", forms.empty() ? "" : "; ", to_string(form.takes), to_string(form.gives));
    }
    sections +=
        fmt::format("\n## {}\n\n{}\n\n{}\n\n{}", name, entry.summary, forms, parameters_table(name, entry, told));
  }
  return table + sections;
}

}  // namespace echotrain
