#include "server/console/pipelines/pipelines_json.h"

#include <fmt/ranges.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "gadgets/engine/host/exposed_parameters.h"
#include "protocol/data/text.h"
#include "server/console/page/page_files.h"
#include "server/console/pipelines/chain_json.h"

namespace echotrain::server {

namespace {

using nlohmann::ordered_json;

/// Texts of files and of clients may be no UTF-8.
std::string dump(const ordered_json& json) { return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

/// Returns the name of the page's file that shows an image of a shipped pipeline; null for another one.
ordered_json picture_of(const config::PipelineSpec& spec) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(spec.text.data()), spec.text.size(), digest.data());
  const std::string name = fmt::format("{:02x}.png", fmt::join(digest, ""));
  for (const PageFile& file : page_files())
    if (file.name == name) return name;
  return nullptr;
}

ordered_json summary_json(const config::PipelineSpec& spec) {
  return {{"name", spec.name},
          {"description", spec.description},
          {"aliases", spec.aliases},
          {"picture", picture_of(spec)},
          {"input", spec.input == config::Input::images ? "images" : "readouts"}};
}

ordered_json graph_json(const PipelinePlan& plan, const Registry& registry) {
  ordered_json out = summary_json(plan.spec());
  out["chain"] = chain_json(plan.chain(), registry);
  const PipelinePlan* const accelerated = plan.accelerated();
  out["accelerated"] = accelerated == nullptr ? ordered_json() : chain_json(accelerated->chain(), registry);
  out["exposes"] = ordered_json::array();
  for (const ExposedParameter& each : exposed_of(plan.spec(), registry))
    out["exposes"].push_back({{"id", each.spec.id},
                              {"sets", each.info.name},
                              {"allowed", each.info.allowed()},
                              {"default", each.info.fallback}});
  return out;
}

}  // namespace

std::string pipelines_json(const PipelineCatalogue& catalogue) {
  std::vector<const config::PipelineSpec*> all;
  for (const config::PipelineSpec& spec : catalogue.library().all()) all.push_back(&spec);
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  ordered_json list = ordered_json::array();
  for (const config::PipelineSpec* spec : all) list.push_back(summary_json(*spec));
  return dump({{"pipelines", std::move(list)}, {"longest_text", kLongestPipelineText}});
}

protocol::Result<std::string> pipeline_json(const PipelineCatalogue& catalogue, std::string_view name) {
  const protocol::Result<PipelineCatalogue::Plan> plan = catalogue.by_name(name);
  if (!plan) return plan.error();
  ordered_json out = graph_json(**plan, catalogue.registry());
  out["text"] = (*plan)->spec().text;
  return dump(out);
}

std::string checked_json(const PipelineCatalogue& catalogue, std::string_view text) {
  try {
    const PipelineCatalogue::Plan plan = catalogue.check(config::read_pipeline(text, "this text"));
    ordered_json out{{"ok", true}};
    out.update(graph_json(*plan, catalogue.registry()));
    return dump(out);
  } catch (const config::ConfigError& error) {
    return dump({{"ok", false},
                 {"line", error.mark().line},
                 {"column", error.mark().column},
                 {"message", protocol::printable(error.message())}});
  }
}

std::string text_in(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    if (one.size() <= name.size() || !one.starts_with(name) || one[name.size()] != '=') continue;
    std::string out;
    for (std::size_t i = name.size() + 1; i < one.size(); ++i) {
      unsigned char byte = 0;
      const char* const digits = one.data() + i + 1;
      if (one[i] == '%' && i + 2 < one.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
        out += static_cast<char>(byte);
        i += 2;
      } else {
        out += one[i];
      }
    }
    return out;
  }
  return "";
}

}  // namespace echotrain::server
