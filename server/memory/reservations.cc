#include "server/memory/reservations.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace echotrain::server {

std::unique_ptr<Reservations::Ticket> Reservations::ask(Wish wish, std::function<void()> wake) {
  wish.bytes = std::min(wish.bytes, share());
  std::unique_ptr<Ticket> ticket(new Ticket(shared_from_this(), std::move(wish), std::move(wake)));
  bool refused = false;
  {
    const std::scoped_lock lock(mutex_);
    // Nobody else overtakes those who wait for memory to come back.
    if ((calls_back_ && !may_take_kept(*ticket)) || !grant(*ticket)) {
      refused = line_is_full(ticket->wish_);
      if (!refused) {
        line_.push_back(ticket.get());
        ticket->in_line_ = true;
        calls_back_ = calls_back_ || within_share(ticket->wish_);
      }
    }
  }
  if (refused) ticket.reset();
  return ticket;
}

bool Reservations::within_share(const Wish& wish, std::uint64_t has) const {
  const auto found = held_.find(wish.address);
  return found == held_.end() || found->second.bytes + wish.bytes - has <= share();
}

// With the lock held. A first scan stays one when it regains what it had.
bool Reservations::may_take_kept(const Ticket& ticket) const {
  const bool first = ticket.counted_ ? ticket.scans_beside_ == 0 : held_.count(ticket.wish_.address) == 0;
  return first && ticket.wish_.bytes <= kept() / 4;
}

// With the lock held, as the one below.
bool Reservations::line_is_full(const Wish& wish) const {
  const auto waiting = static_cast<std::int64_t>(line_.size());
  if (wish.exempt || waiting >= most_waiting_) return waiting >= most_waiting_;
  const auto its = std::count_if(line_.begin(), line_.end(),
                                 [&](const Ticket* each) { return each->wish_.address == wish.address; });
  return its >= most_waiting_ - most_waiting_ / 4;
}

// False: it has to wait.
bool Reservations::grant(Ticket& ticket) {
  const Wish& wish = ticket.wish_;
  // Asked before anything is reserved: what is reserved only to be given back is missing to those who borrow meanwhile.
  const std::uint64_t has = std::max(wish.account->used(), ticket.reserved_),
                      more = wish.bytes - std::min(wish.bytes, has);
  const bool leaves_kept = may_take_kept(ticket) || kept() == 0 || budget_->make_room(more + kept());
  if (within_share(wish, ticket.reserved_) && leaves_kept && wish.account->reserve(wish.bytes)) {
    Held& held = held_[wish.address];
    if (!std::exchange(ticket.counted_, true)) {
      ticket.scans_beside_ = held.scans++;
      counted_.push_back(&ticket);
    }
    count(ticket, wish.bytes);
  } else if (!ticket.counted_ || Clock::now() < ticket.regains_since_ + patience_) {
    return false;  // of several who regain, each may have what another waits for: none waits for ever
  }
  ticket.granted_ = true;
  ticket.in_line_ = false;
  return true;
}

// With the lock held: what is reserved for a ticket counts for its address.
void Reservations::count(Ticket& ticket, std::uint64_t reserved) {
  if (budget_->bounded()) held_[ticket.wish_.address].bytes += reserved - ticket.reserved_;  // wraps where it subtracts
  ticket.reserved_ = reserved;
}

bool Reservations::Ticket::give_back_unused() {
  {
    const std::scoped_lock lock(all_->mutex_);
    const bool wanted =
        all_->calls_back_ || std::any_of(all_->line_.begin(), all_->line_.end(),
                                         [this](const Ticket* each) { return each->wish_.address == wish_.address; });
    const std::uint64_t used = wish_.account->used();
    if (!granted_ || !wanted || used >= reserved_) return false;
    wish_.account->reserve(used);
    all_->count(*this, used);
    granted_ = false;
  }
  all_->look_again();
  return true;
}

bool Reservations::Ticket::is_to_end() {
  const std::scoped_lock lock(all_->mutex_);
  if (ends_) return true;
  if (!all_->calls_back_ || wish_.account->used() <= reserved_) return false;
  std::uint64_t has = 0;  // without those who end already, whose memory comes back a little later
  for (const Ticket* each : all_->counted_)
    if (each->wish_.address == wish_.address && !each->ends_)
      has += std::max(each->wish_.account->used(), each->reserved_);
  ends_ = has > all_->share();
  return ends_;
}

void Reservations::Ticket::regain() {
  const std::scoped_lock lock(all_->mutex_);
  if (granted_ || in_line_) return;
  regains_since_ = Clock::now();
  std::list<Ticket*>& line = all_->line_;
  const auto place = std::find_if(line.begin(), line.end(), [](const Ticket* each) { return !each->counted_; });
  if (place == line.begin() && all_->grant(*this)) return;
  in_line_ = true;
  line.insert(place, this);
  all_->calls_back_ = all_->calls_back_ || all_->within_share(wish_, reserved_);
}

void Reservations::look_again() {
  std::vector<std::function<void()>> wakes;
  {
    const std::scoped_lock lock(mutex_);
    calls_back_ = false;
    for (auto place = line_.begin(); place != line_.end();) {
      Ticket& ticket = **place;
      if ((!calls_back_ || may_take_kept(ticket)) && grant(ticket)) {
        wakes.push_back(ticket.wake_);  // the ticket may be gone once the lock is
        place = line_.erase(place);
      } else {
        calls_back_ = calls_back_ || within_share(ticket.wish_, ticket.reserved_);
        ++place;
      }
    }
  }
  for (const auto& wake : wakes) wake();
}

void Reservations::end(Ticket& ticket) {
  {
    const std::scoped_lock lock(mutex_);
    line_.remove(&ticket);
    counted_.remove(&ticket);
    if (ticket.counted_) {
      ticket.wish_.account->reserve(0);
      const auto held = held_.find(ticket.wish_.address);
      count(ticket, 0);
      if (--held->second.scans == 0) held_.erase(held);
    }
  }
  look_again();
}

Reservations::Ticket::~Ticket() { all_->end(*this); }

bool Reservations::Ticket::granted() const {
  const std::scoped_lock lock(all_->mutex_);
  return granted_;
}

std::int64_t Reservations::Ticket::position() const {
  const std::scoped_lock lock(all_->mutex_);
  const auto place = std::find(all_->line_.begin(), all_->line_.end(), this);
  return place == all_->line_.end() ? 0 : std::distance(all_->line_.begin(), place);
}

bool Reservations::calls_back() const { return calls_back_; }

std::int64_t Reservations::waiting() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::int64_t>(line_.size());
}

}  // namespace echotrain::server
