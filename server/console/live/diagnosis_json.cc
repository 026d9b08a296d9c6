#include "server/console/live/diagnosis_json.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/data/meta.h"
#include "protocol/data/text.h"

namespace echotrain::server {

namespace {

/// Notes of gadgets (docs/gadgets.md): parallel imaging, EPI, the heart, noise.
constexpr std::string_view kFacts[] = {"gfactor_mean", "ghost_level", "ghost_level_uncorrected", "mean_rr_ms",
                                       "heartbeats",   "noise",       "noise_samples",           "noise_age_s"};
constexpr std::size_t kMostFact = 64;

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

nlohmann::ordered_json facts_of(const RecentImages* images, std::uint64_t session) {
  using Json = nlohmann::ordered_json;
  if (images == nullptr || images->extent(session).count == 0) return nullptr;
  const auto all = images->of(session);
  const std::size_t first = all.size() - std::min(all.size(), kMostLookedAt);
  struct Fact {
    std::string newest;
    Json values = Json::array();
  };
  std::vector<Fact> facts(std::size(kFacts));
  for (std::size_t i = first; i < all.size(); ++i)
    for (const auto& [name, value] : protocol::meta_values(all[i]->image.attributes))
      for (std::size_t f = 0; f < facts.size(); ++f) {
        if (name != kFacts[f]) continue;
        facts[f].newest = protocol::printable(value, kMostFact);
        if (const auto number = number_of(value)) facts[f].values.push_back(*number);
      }
  Json told = Json::array();
  for (std::size_t f = 0; f < facts.size(); ++f)
    if (!facts[f].newest.empty())
      told.push_back({{"name", kFacts[f]}, {"newest", facts[f].newest}, {"values", std::move(facts[f].values)}});
  return {{"looked_at", all.size() - first}, {"facts", std::move(told)}};
}

}  // namespace

std::string diagnosis_json(const ScanDiagnosis& scan, const RecentImages* images, bool coils) {
  nlohmann::ordered_json json = scan.json(coils);
  json["images"] = facts_of(images, scan.session());
  return json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

}  // namespace echotrain::server
