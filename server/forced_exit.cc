#include "server/forced_exit.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <utility>

#include "server/base/log.h"

namespace echotrain::server {

void ForcedExit::arm(std::chrono::steady_clock::duration time, std::function<std::string()> what_hangs,
                     std::function<int()> status) {
  const std::scoped_lock one_at_a_time(mutex_);
  thread_ =
      std::jthread([time, what = std::move(what_hangs), code = std::move(status)](const std::stop_token& disarmed) {
        std::mutex mutex;
        std::condition_variable_any changed;
        std::unique_lock lock(mutex);
        changed.wait_for(lock, disarmed, time, [] { return false; });
        if (disarmed.stop_requested()) return;
        write_log(LogLevel::error, what());
        std::_Exit(code());
      });
}

void ForcedExit::disarm() {
  const std::scoped_lock one_at_a_time(mutex_);
  thread_ = {};
}

}  // namespace echotrain::server
