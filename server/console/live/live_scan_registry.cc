#include "server/console/live/live_scan_registry.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "gadgets/shared/store/fair_share_eviction.h"
#include "protocol/data/text.h"

namespace echotrain::server {

struct LiveScanRegistry::Ended {
  std::uint64_t id = 0;
  std::uint64_t number = 0;  // counts ends
  std::string client;
  std::shared_ptr<const ScanOrigin> origin;
  nlohmann::ordered_json told;
};  // is not changed any more

LiveScanRegistry::LiveScanRegistry(std::uint64_t images_bytes, bool subject,
                                   const std::shared_ptr<numerics::MemoryBudget>& budget)
    : subject_(subject),
      images_(images_bytes == 0 ? nullptr : std::make_shared<RecentImages>(images_bytes, budget)),
      diagnoses_(std::make_shared<ScanDiagnoses>(budget)) {}

LiveScanRegistry::~LiveScanRegistry() = default;

std::shared_ptr<LiveScan> LiveScanRegistry::session(std::shared_ptr<const SessionStatus> status) {
  auto why = diagnoses_->make(status->id);
  auto scan = std::make_shared<LiveScan>(std::move(status), images_, delays_, subject_, std::move(why));
  const std::scoped_lock lock(mutex_);
  std::erase_if(scans_, [](const auto& one) { return one.expired(); });
  scans_.push_back(scan);
  return scan;
}

void LiveScanRegistry::ended(const LiveScan& scan, const ScanSummary& summary) {
  if (!scan.worth_telling()) return;
  auto one = std::make_shared<Ended>();
  one->id = scan.id();
  one->client = scan.client();
  one->told = scan.json(/*pictures=*/false);
  one->told["state"] = "ended";
  one->told["outcome"] = summary.outcome;
  one->told["summary"] = protocol::printable(summary.text());
  one->told["facts"] = summary.facts();
  one->origin = scan.origin();
  const bool begun = scan.begun();
  if (begun) diagnoses_->ended(scan.diagnosis());
  const std::scoped_lock lock(mutex_);
  one->number = ++ends_;
  auto& among = begun ? ended_ : refused_;
  among.push_front(std::move(one));
  std::map<std::string, std::vector<std::shared_ptr<const Ended>>> owned;
  for (const auto& each : among) owned[each->client].push_back(each);
  evict_to_fair_share(
      owned, begun ? kMostEnded : kMostRefused, [](const auto&) { return std::uint64_t{1}; },
      [&](const auto& gone) {
        std::erase(among, gone);
        if (begun) diagnoses_->forget(gone->id);
        return true;
      });
}

std::shared_ptr<const ScanOrigin> LiveScanRegistry::origin(std::uint64_t session) const {
  std::shared_ptr<LiveScan> running;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& one : ended_)
      if (one->id == session) return one->origin;
    for (const auto& weak : scans_)
      if (auto scan = weak.lock(); scan && scan->id() == session) running = std::move(scan);
  }
  return running ? running->origin() : nullptr;
}

nlohmann::ordered_json LiveScanRegistry::json() const {
  std::vector<std::shared_ptr<LiveScan>> running;
  nlohmann::ordered_json scans = nlohmann::ordered_json::array(), ended = nlohmann::ordered_json::array();
  std::vector<std::shared_ptr<const Ended>> gone;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& weak : scans_)
      if (auto scan = weak.lock()) running.push_back(std::move(scan));
    std::merge(ended_.begin(), ended_.end(), refused_.begin(), refused_.end(), std::back_inserter(gone),
               [](const auto& a, const auto& b) { return a->number > b->number; });
  }
  // A session that has ended may still be saying goodbye.
  for (const auto& scan : running)
    if (std::none_of(gone.begin(), gone.end(), [&](const auto& one) { return one->id == scan->id(); }))
      scans.push_back(scan->json(/*pictures=*/true));
  for (const auto& one : gone) {
    const RecentImages::Extent kept = images_ ? images_->extent(one->id) : RecentImages::Extent();
    ended.push_back(one->told);
    ended.back()["images_kept"] = kept.count;
    ended.back()["newest_image"] = kept.last;
  }
  const RecentLatency::Strip strip = delays_.strip();
  nlohmann::ordered_json p50 = nlohmann::ordered_json::array(), p99 = p50;
  for (const RecentLatency::Spread& second : strip.seconds) {
    p50.push_back(second.p50);
    p99.push_back(second.p99);
  }
  return {{"scans", std::move(scans)},
          {"ended", std::move(ended)},
          {"delays",
           {{"images", strip.all.count},
            {"p50_ms", strip.all.p50},
            {"p99_ms", strip.all.p99},
            {"p50_of_second", p50},
            {"p99_of_second", p99}}},
          {"images",
           {{"kept", images_ != nullptr},
            {"bytes", images_ ? images_->bytes() : 0},
            {"bound", images_ ? images_->bound() : 0},
            {"left_out", images_ ? images_->left_out() : 0}}}};
}

}  // namespace echotrain::server
