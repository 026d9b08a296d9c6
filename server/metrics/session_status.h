// The status of a session can be read by any thread, without waiting for the session.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/queue_memory.h"

namespace echotrain::server {

enum class SessionState { connecting, waiting, refused, scanning, paused, finishing, closing, stuck };
/// "connecting": no scan yet. "waiting": for its turn. "refused": is being told so. "scanning": data may come.
/// "paused": no data for pause_s, its place is given back. "finishing": all data has come, images are made. "closing":
/// the last messages go out. "stuck": the session is gone, but not the thread of its scan, which hangs.
std::string_view to_string(SessionState state);

/// The state and counts of one session. The session and its worker keep it up to date; any thread reads it.
class SessionStatus {
 public:
  SessionStatus(std::uint64_t its_id, std::string its_peer, std::shared_ptr<numerics::MemoryBudget> budget)
      : id(its_id),
        peer(std::move(its_peer)),
        account(std::make_shared<numerics::MemoryAccount>(std::move(budget))),
        queues(std::make_shared<QueueMemory>(account)) {}

  const std::uint64_t id;
  const std::string peer;  ///< address:port
  const Clock::time_point began = Clock::now();
  const std::shared_ptr<numerics::MemoryAccount> account;  ///< of this machine's memory, but what waits to be computed
  const std::shared_ptr<QueueMemory> queues;  ///< what waits in the session's queues, and the message being received

  std::atomic<SessionState> state = SessionState::connecting;
  std::atomic<Clock::time_point> last_activity = began;  ///< bytes came or went
  std::atomic<std::uint64_t> bytes_in = 0, bytes_out = 0;
  std::atomic<std::uint64_t> readouts = 0, images = 0;
  std::atomic<double> step_s = 0;  ///< how long the scan has computed without a sign of life

  void set_pipeline(std::string_view name, std::string_view backend);
  std::string pipeline() const;  ///< empty before a scan is started
  std::string backend() const;   ///< empty before the pipeline runs

 private:
  mutable std::mutex mutex_;
  std::string pipeline_, backend_;
};

/// The sessions that exist. Thread-safe.
class SessionRegistry : public std::enable_shared_from_this<SessionRegistry> {
 public:
  /// A session is in the registry as long as its status is held.
  std::shared_ptr<SessionStatus> add(std::uint64_t id, std::string peer,
                                     std::shared_ptr<numerics::MemoryBudget> budget);
  /// Lists the sessions in the order in which they came.
  std::vector<std::shared_ptr<const SessionStatus>> list() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<SessionStatus>> sessions_;  // by the order in which they came
  std::uint64_t last_ = 0;
};

/// Returns, for the admin port, {"sessions": [{"id": 1, "state": "scanning", ...}]}. Times are in seconds, the rest in
/// bytes or numbers of things. The sessions' addresses are in it, and nothing of their data.
std::string sessions_json(const SessionRegistry& registry);

}  // namespace echotrain::server
