#include "server/systemd_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace echotrain::server {

namespace {

using std::chrono::microseconds;

constexpr microseconds kLongestPause = std::chrono::seconds(5);
constexpr microseconds kShortestPause = std::chrono::milliseconds(1);
// The manager may wait this long for the next sign of life while the server stops.
constexpr microseconds kPatience = 6 * kLongestPause;

std::string status_line(const Environment& environment) {
  std::uint64_t scans = 0, sessions = 0;
  for (const auto& session : environment.session_registry->list()) {
    ++sessions;
    const SessionState state = session->state;
    if (state == SessionState::scanning || state == SessionState::finishing) ++scans;
  }
  std::string line = fmt::format("STATUS={}: {} session{}, {} of them scanning",
                                 to_string(environment.readiness->state()), sessions, sessions == 1 ? "" : "s", scans);
  if (environment.readiness->state() == Readiness::State::broken) line += "; " + environment.readiness->reason();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

void SystemdService::ready() {
  if (!notifier_.on()) return;
  notifier_.send("READY=1");
  beat();
}

void SystemdService::stopping() {
  extends_ = true;
  if (!notifier_.on()) return;
  notifier_.send("STOPPING=1");
  beat();
}

void SystemdService::end() {
  ended_ = true;
  timer_.cancel();
}

void SystemdService::beat() {
  if (ended_) return;
  std::string lines = status_line(environment_);
  if (notifier_.watchdog()) lines += "\nWATCHDOG=1";
  if (extends_) lines += fmt::format("\nEXTEND_TIMEOUT_USEC={}", kPatience.count());
  notifier_.send(lines);
  const microseconds pause =
      notifier_.watchdog() ? std::clamp(*notifier_.watchdog() / 2, kShortestPause, kLongestPause) : kLongestPause;
  timer_.expires_after(pause);
  timer_.async_wait([this](const error_code& cancelled) {
    if (!cancelled) beat();
  });
}

}  // namespace echotrain::server
