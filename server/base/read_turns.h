// Read turns share the time of the threads that move bytes among sessions (fair share).
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace echotrain::server {

/// Sessions that bring messages faster than these are handled take turns: `most` of them at once, first come first
/// served, so that the threads that move bytes have time for those that bring few. Thread-safe. Turns keep it alive.
class ReadTurns : public std::enable_shared_from_this<ReadTurns> {
 public:
  explicit ReadTurns(int most) : most_(most) {}

  /// Waits, then has its turn until it is destroyed.
  class Turn {
   public:
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool granted() const;

   private:
    friend class ReadTurns;
    Turn(std::shared_ptr<ReadTurns> turns, std::function<void()> wake)
        : turns_(std::move(turns)), wake_(std::move(wake)) {}
    const std::shared_ptr<ReadTurns> turns_;
    const std::function<void()> wake_;
    bool granted_ = false;  // guarded by the turns
  };
  /// Asks for a turn. `wake` is called, on any thread, when a turn that had to wait is granted.
  std::unique_ptr<Turn> ask(std::function<void()> wake);

 private:
  void end(Turn& turn);

  const int most_;
  mutable std::mutex mutex_;
  int granted_ = 0;
  std::list<Turn*> line_;
};

}  // namespace echotrain::server
