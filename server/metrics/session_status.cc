#include "server/metrics/session_status.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace echotrain::server {

std::string_view to_string(SessionState state) {
  switch (state) {
    case SessionState::connecting:
      return "connecting";
    case SessionState::waiting:
      return "waiting";
    case SessionState::refused:
      return "refused";
    case SessionState::scanning:
      return "scanning";
    case SessionState::paused:
      return "paused";
    case SessionState::finishing:
      return "finishing";
    case SessionState::closing:
      return "closing";
    case SessionState::stuck:
      return "stuck";
  }
  return "unknown";
}

void SessionStatus::set_pipeline(std::string_view name, std::string_view backend) {
  const std::scoped_lock lock(mutex_);
  pipeline_ = name;
  backend_ = backend;
}

std::string SessionStatus::pipeline() const {
  const std::scoped_lock lock(mutex_);
  return pipeline_;
}

std::string SessionStatus::backend() const {
  const std::scoped_lock lock(mutex_);
  return backend_;
}

std::shared_ptr<SessionStatus> SessionRegistry::add(std::uint64_t id, std::string peer,
                                                    std::shared_ptr<numerics::MemoryBudget> budget) {
  auto owned = std::make_unique<SessionStatus>(id, std::move(peer), std::move(budget));
  std::uint64_t place = 0;
  {
    const std::scoped_lock lock(mutex_);
    place = ++last_;
  }
  // Takes itself out of the registry. The last owner never holds the registry's lock when it lets go: list() hands out
  // all that it finds.
  std::shared_ptr<SessionStatus> status(owned.release(), [registry = shared_from_this(), place](SessionStatus* gone) {
    {
      const std::scoped_lock lock(registry->mutex_);
      registry->sessions_.erase(place);
    }
    delete gone;
  });
  const std::scoped_lock lock(mutex_);
  sessions_[place] = status;
  return status;
}

std::vector<std::shared_ptr<const SessionStatus>> SessionRegistry::list() const {
  std::vector<std::shared_ptr<const SessionStatus>> all;
  const std::scoped_lock lock(mutex_);
  all.reserve(sessions_.size());
  for (const auto& [place, weak] : sessions_)
    if (auto status = weak.lock()) all.push_back(std::move(status));
  return all;
}

std::string sessions_json(const SessionRegistry& registry) {
  const auto now = Clock::now();
  const auto seconds_since = [now](Clock::time_point then) {
    const double s = std::chrono::duration<double>(now - then).count();
    return std::round(std::max(s, 0.0) * 1000) / 1000;
  };
  nlohmann::ordered_json sessions = nlohmann::ordered_json::array();
  for (const auto& session : registry.list())
    sessions.push_back({{"id", session->id},
                        {"state", to_string(session->state)},
                        {"peer", session->peer},
                        {"age_s", seconds_since(session->began)},
                        {"idle_s", seconds_since(session->last_activity)},
                        {"step_s", std::round(session->step_s.load() * 1000) / 1000},
                        {"pipeline", session->pipeline()},
                        {"backend", session->backend()},
                        {"readouts", session->readouts.load()},
                        {"images", session->images.load()},
                        {"bytes_in", session->bytes_in.load()},
                        {"bytes_out", session->bytes_out.load()},
                        {"queue_bytes", session->queues->used()}});
  const nlohmann::ordered_json all{{"sessions", std::move(sessions)}};
  return all.dump(2, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace echotrain::server
