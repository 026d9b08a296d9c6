#include "server/console/admin/viewers.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "gadgets/numerics/core/device_memory.h"
#include "server/console/live/live_scan_registry.h"
#include "server/scan/queries.h"

namespace echotrain::server {

std::optional<std::uint64_t> Viewers::enter() {
  if (viewers_.size() >= most_) return std::nullopt;
  viewers_[++last_] = {};
  return last_;
}

int Viewers::shrink(std::uint64_t viewer) const {
  const auto found = viewers_.find(viewer);
  return found == viewers_.end() ? 1 : found->second.shrink;
}

void Viewers::sent(std::uint64_t viewer, std::chrono::milliseconds took) {
  const auto found = viewers_.find(viewer);
  if (found == viewers_.end()) return;
  auto& [shrink, calm] = found->second;
  if (took > kSlow) shrink = std::min(kMostShrink, 2 * shrink);
  calm = took < kFast ? calm + 1 : 0;
  if (calm < kCalm) return;
  shrink = std::max(1, shrink / 2);
  calm = 0;
}

const std::string& LiveState::text(const Environment& environment) {
  const auto now = Clock::now();
  if (!text_.empty() && now - made_ < kStateAge) return text_;
  made_ = now;
  nlohmann::ordered_json json = environment.live->json();
  std::uint64_t queued = 0;
  for (const auto& session : environment.session_registry->list()) queued += session->queues->used();
  nlohmann::ordered_json gpus = nlohmann::ordered_json::array(), places = gpus;
  for (const numerics::DeviceMemory& gpu : numerics::device_memory()) {
    nlohmann::ordered_json one{
        {"device", gpu.device}, {"used", gpu.used}, {"total", gpu.total}, {"arrays", gpu.pool_used}, {"busy", nullptr}};
    if (const auto percent = gpu.pci.empty() ? std::nullopt : gpu_use_.percent(gpu.pci)) one["busy"] = *percent;
    gpus.push_back(std::move(one));
  }
  for (const Place& place : environment.compute->places()) {
    nlohmann::ordered_json one{{"backend", numerics::to_string(place.backend)},
                               {"device", place.device},
                               {"scans", place.scans},
                               {"capacity", nullptr}};
    if (place.capacity < std::numeric_limits<std::int64_t>::max()) one["capacity"] = place.capacity;
    places.push_back(std::move(one));
  }
  const numerics::MemoryBudget& memory = *environment.memory;
  json["server"] = {{"version", version()},
                    {"state", to_string(environment.readiness->state())},
                    {"reason", environment.readiness->reason()},
                    {"up_s", std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now() -
                                                                              environment.metrics->began())
                                 .count()},
                    {"memory_used", memory.used()},
                    {"memory_bound", memory.bounded() ? memory.bound() : 0},
                    {"queue_bytes", queued},
                    {"gpus", std::move(gpus)},
                    {"places", std::move(places)}};
  text_ = json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  return text_;
}

}  // namespace echotrain::server
