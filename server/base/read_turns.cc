#include "server/base/read_turns.h"

#include <utility>

namespace echotrain::server {

std::unique_ptr<ReadTurns::Turn> ReadTurns::ask(std::function<void()> wake) {
  std::unique_ptr<Turn> turn(new Turn(shared_from_this(), std::move(wake)));
  const std::scoped_lock lock(mutex_);
  turn->granted_ = granted_ < most_;
  if (turn->granted_)
    ++granted_;
  else
    line_.push_back(turn.get());
  return turn;
}

void ReadTurns::end(Turn& turn) {
  std::function<void()> wake;
  {
    const std::scoped_lock lock(mutex_);
    if (!turn.granted_) {
      line_.remove(&turn);
    } else if (line_.empty()) {
      --granted_;
    } else {
      line_.front()->granted_ = true;
      wake = line_.front()->wake_;  // the turn may end before it is called
      line_.pop_front();
    }
  }
  if (wake) wake();
}

ReadTurns::Turn::~Turn() { turns_->end(*this); }

bool ReadTurns::Turn::granted() const {
  const std::scoped_lock lock(turns_->mutex_);
  return granted_;
}

}  // namespace echotrain::server
