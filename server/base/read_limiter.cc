#include "server/base/read_limiter.h"

#include <utility>

namespace echotrain::server {

std::unique_ptr<ReadLimiter::Permit> ReadLimiter::acquire(std::function<void()> wake) {
  std::unique_ptr<Permit> permit(new Permit(shared_from_this(), std::move(wake)));
  const std::scoped_lock lock(mutex_);
  permit->granted_ = granted_ < most_;
  if (permit->granted_)
    ++granted_;
  else
    line_.push_back(permit.get());
  return permit;
}

void ReadLimiter::end(Permit& permit) {
  std::function<void()> wake;
  {
    const std::scoped_lock lock(mutex_);
    if (!permit.granted_) {
      line_.remove(&permit);
    } else if (line_.empty()) {
      --granted_;
    } else {
      line_.front()->granted_ = true;
      wake = line_.front()->wake_;  // the permit may end before it is called
      line_.pop_front();
    }
  }
  if (wake) wake();
}

std::unique_ptr<ReadLimiter::Permit> AddressLimiters::acquire(const std::string& address, std::function<void()> wake) {
  std::shared_ptr<ReadLimiter> limiter;
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(limiters_, [](const auto& each) { return each.second.expired(); });
    std::weak_ptr<ReadLimiter>& known = limiters_[address];
    limiter = known.lock();
    if (!limiter) known = limiter = std::make_shared<ReadLimiter>(most_of_one_);
  }
  return limiter->acquire(std::move(wake));
}

ReadLimiter::Permit::~Permit() { limiter_->end(*this); }

bool ReadLimiter::Permit::granted() const {
  const std::scoped_lock lock(limiter_->mutex_);
  return granted_;
}

}  // namespace echotrain::server
