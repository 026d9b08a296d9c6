#include "server/memory/memory_admission.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

namespace echotrain::server {

std::unique_ptr<MemoryAdmission::Ticket> MemoryAdmission::ask(Request request, std::function<void()> wake) {
  request.bytes = std::min(request.bytes, share());
  const numerics::MemoryAccount* const account = request.account.get();
  std::unique_ptr<Ticket> ticket(new Ticket(shared_from_this(), std::move(request), std::move(wake)));
  bool refused = false;
  {
    const std::scoped_lock lock(mutex_);
    leaving_.remove_if([&](const Leaving& each) { return each.account.lock().get() == account; });  // it stays
    // No other scan overtakes those that wait for memory to come back.
    if ((under_pressure_ && !may_take_kept(*ticket)) || !grant(*ticket)) {
      refused = line_is_full(ticket->request_);
      if (!refused) {
        line_.push_back(ticket.get());
        ticket->in_line_ = true;
        ticket->waits_since_ = Clock::now();
        under_pressure_ = under_pressure_ || is_due(*ticket, sums());
      }
    }
  }
  if (refused) ticket.reset();
  return ticket;
}

namespace {
// Returns what the account has already, or will have.
std::uint64_t had(const numerics::MemoryAccount& account, std::uint64_t reserved) {
  return std::max(account.used(), reserved);
}
}  // namespace

// Requires the lock; so do the functions below.
bool MemoryAdmission::may_reserve(const Ticket& ticket) const {
  const auto found = held_.find(ticket.request_.address);
  return found == held_.end() || found->second.bytes + ticket.request_.bytes - ticket.reserved_ <= share();
}

// A first scan stays one when it regains its memory.
bool MemoryAdmission::may_take_kept(const Ticket& ticket) const {
  const bool first = ticket.counted_ ? ticket.scans_beside_ == 0 : held_.count(ticket.request_.address) == 0;
  return first && ticket.request_.bytes <= kept() / 4;
}

MemoryAdmission::Sums MemoryAdmission::sums() const {
  Sums sums;
  for (const Ticket* each : counted_) {
    const std::uint64_t has = had(*each->request_.account, each->reserved_);
    Sums::Had& had_by = sums.had[each->request_.address];
    had_by.all += has;
    if (!each->ends_) had_by.staying += has;
  }
  for (const Ticket* each : line_) sums.had[each->request_.address];
  return sums;
}

// A ticket is due if its address has no more than its part, and together with this wish no more than it may reserve:
// those behind it wait for it, and others give back what they can for it.
bool MemoryAdmission::is_due(const Ticket& ticket, const Sums& sums) const {
  const std::uint64_t has = had(*ticket.request_.account, ticket.reserved_),
                      wants = std::max(has, ticket.request_.bytes);
  const auto found = sums.had.find(ticket.request_.address);
  const std::uint64_t all = found == sums.had.end() ? 0 : found->second.all;
  return may_reserve(ticket) && all - (ticket.counted_ ? has : 0) + wants <= share() &&
         all <= part_of(ticket.request_.address, sums);
}

// Memory that it has lent goes first to those for whom it was lent, until it has waited for the patience: else a scan
// that needs what two have lent would never get it. What is left to small first scans is theirs alone.
bool MemoryAdmission::stands_behind(const Ticket& ticket, const Ticket& other, const Sums& sums) const {
  return ticket.counted_ && !other.counted_ && !is_overdue(ticket) && other.waits_since_ <= ticket.lent_at_ &&
         may_take_kept(other) == may_take_kept(ticket) && is_due(other, sums);
}

bool MemoryAdmission::is_overdue(const Ticket& ticket) const {
  return ticket.counted_ && Clock::now() >= ticket.waits_since_ + patience_;
}

std::uint64_t MemoryAdmission::part_of(const std::string& address, const Sums& sums) const {
  const auto found = held_.find(address);
  const std::uint64_t reserved = found == held_.end() ? 0 : found->second.bytes;
  return std::min(share(), std::max(2 * share() / std::max<std::size_t>(sums.had.size(), 1), 2 * reserved));
}

// Returns what the budget must have left before the ticket's memory is reserved.
std::uint64_t MemoryAdmission::room_for(const Ticket& ticket) const {
  const std::uint64_t has = had(*ticket.request_.account, ticket.reserved_);
  return ticket.request_.bytes - std::min(ticket.request_.bytes, has) + (may_take_kept(ticket) ? 0 : kept());
}

// Returns what scans that end, or have ended, still have.
std::uint64_t MemoryAdmission::coming() const {
  std::uint64_t bytes = 0;
  for (const Ticket* each : counted_)
    if (each->ends_) bytes += had(*each->request_.account, each->reserved_);
  for (const Leaving& each : leaving_)
    if (const auto account = each.account.lock()) bytes += account->used();
  return bytes;
}

// Returns the scans that have to give back what they borrow, so that the first in line who may ask for that fits. None
// where it would not fit though all of them ended.
std::vector<MemoryAdmission::Ticket*> MemoryAdmission::next_to_end() const {
  const auto now = Clock::now();
  const Sums have = sums();
  const auto waits = std::find_if(line_.begin(), line_.end(), [&](const Ticket* each) {
    return now >= each->waits_since_ + pause_ && is_due(*each, have);
  });
  if (waits == line_.end()) return {};
  std::uint64_t coming_back = coming();
  const std::uint64_t room = room_for(**waits);
  if (budget_->make_room(room - std::min(room, coming_back))) return {};
  std::vector<Ticket*> found;
  while (budget_->used() + room > budget_->bound() + coming_back) {
    Ticket* const next = borrows_most(found, have);
    if (next == nullptr) return {};
    coming_back += had(*next->request_.account, next->reserved_);
    found.push_back(next);
  }
  return found;
}

// Returns the scan that borrows most of the address that has most beyond its part, once those of `ending` have ended;
// null: none. What a scan has lent of its reservation, and takes again, is not borrowed.
MemoryAdmission::Ticket* MemoryAdmission::borrows_most(const std::vector<Ticket*>& ending, const Sums& sums) const {
  std::map<std::string_view, std::uint64_t> back;
  for (const Ticket* each : ending) back[each->request_.address] += had(*each->request_.account, each->reserved_);
  Ticket* found = nullptr;
  std::pair<std::uint64_t, std::uint64_t> most{0, 0};  // beyond the address' part; borrowed by the scan
  for (Ticket* each : counted_) {
    const std::string& address = each->request_.address;
    const std::uint64_t used = each->request_.account->used(), part = part_of(address, sums) + back[address];
    const std::uint64_t has = sums.had.at(address).staying;
    const bool chosen = std::find(ending.begin(), ending.end(), each) != ending.end();
    if (each->ends_ || each->stuck_ || chosen || used <= each->request_.bytes || has <= part) continue;
    const std::pair its{has - part, used - each->request_.bytes};
    if (its > most) {
      most = its;
      found = each;
    }
  }
  return found;
}

bool MemoryAdmission::line_is_full(const Request& request) const {
  const bool first = std::none_of(line_.begin(), line_.end(),
                                  [&](const Ticket* each) { return each->request_.address == request.address; });
  const std::int64_t most = first || request.exempt ? most_waiting_ : most_waiting_ - most_waiting_ / 4;
  return static_cast<std::int64_t>(line_.size()) >= most;
}

// Grants the ticket; false: it has to wait.
bool MemoryAdmission::grant(Ticket& ticket) {
  const Request& request = ticket.request_;
  // The budget is asked before anything is reserved: what is reserved only to be given back is missing to those who
  // borrow meanwhile. Caches go for it only where the ticket may reserve.
  const auto leaves_kept = [&] { return may_take_kept(ticket) || kept() == 0 || budget_->make_room(room_for(ticket)); };
  if (may_reserve(ticket) && leaves_kept() && reserve(ticket, request.bytes)) {
    if (!std::exchange(ticket.counted_, true)) {
      ticket.scans_beside_ = held_[request.address].scans++;
      counted_.push_back(&ticket);
      const std::scoped_lock lock(running_mutex_);
      running_[request.address].push_back(&ticket);
    }
  } else if (!is_overdue(ticket)) {
    return false;  // of several who regain, each may have what another waits for: none waits for ever
  }
  ticket.granted_ = true;
  ticket.in_line_ = false;
  return true;
}

// Reserves bytes for a ticket, which count for its address. Those who borrow see no less to lend because a small scan
// takes what is left to small ones. False: it does not fit.
bool MemoryAdmission::reserve(Ticket& ticket, std::uint64_t bytes) {
  const bool small = may_take_kept(ticket);
  const std::uint64_t more = bytes - ticket.reserved_;  // unsigned numbers wrap: this may subtract
  const bool grows = bytes > ticket.reserved_;
  if (small && grows) count_small(more);  // first: in between, who borrows would be refused what is lent
  if (!ticket.request_.account->reserve(bytes)) {
    if (small) count_small(-more);
    return false;
  }
  if (small && !grows) count_small(more);
  if (budget_->bounded()) held_[ticket.request_.address].bytes += more;
  ticket.reserved_ = bytes;
  return true;
}

void MemoryAdmission::count_small(std::uint64_t more) {
  small_ += more;
  budget_->keep(kept() - std::min(kept(), small_));
}

bool MemoryAdmission::Ticket::give_back_unused() {
  {
    const std::scoped_lock lock(all_->mutex_);
    const bool wanted = all_->under_pressure_ ||
                        std::any_of(all_->line_.begin(), all_->line_.end(),
                                    [this](const Ticket* each) { return each->request_.address == request_.address; });
    const std::uint64_t used = request_.account->used();
    if (!granted_ || !wanted || used >= reserved_) return false;
    all_->reserve(*this, used);
    granted_ = false;
    lent_at_ = Clock::now();
  }
  all_->look_again();
  return true;
}

bool MemoryAdmission::Ticket::must_end_idle() {
  const std::scoped_lock lock(all_->mutex_);
  if (all_->under_pressure_ && request_.account->used() > request_.bytes &&
      all_->sums().had[request_.address].staying > all_->share())
    ends_ = true;
  return ends_;
}

bool MemoryAdmission::Ticket::must_end_crawling() {
  const std::scoped_lock lock(all_->mutex_);
  const auto now = Clock::now();
  const Sums sums = all_->sums();
  if (std::any_of(all_->line_.begin(), all_->line_.end(), [&](const Ticket* each) {
        return each->request_.address != request_.address && now >= each->waits_since_ + all_->pause_ &&
               all_->is_due(*each, sums);
      }))
    ends_ = true;
  return ends_;
}

bool MemoryAdmission::Ticket::has_too_much() const {
  if (all_->budget_->used() <= all_->share()) return false;
  const std::scoped_lock lock(all_->running_mutex_);
  const auto found = all_->running_.find(request_.address);
  if (found == all_->running_.end()) return false;
  std::uint64_t has = 0;
  for (const Ticket* each : found->second) {
    has += had(*each->request_.account, each->request_.account->reserved());
    if (each->request_.input) has += each->request_.input->used();
  }
  return has > 2 * all_->share() / (all_->running_.size() + 1);
}

void MemoryAdmission::Ticket::is_stuck() {
  const std::scoped_lock lock(all_->mutex_);
  stuck_ = true;
  ends_ = false;
}

void MemoryAdmission::Ticket::regain() {
  const std::scoped_lock lock(all_->mutex_);
  if (granted_ || in_line_) return;
  waits_since_ = Clock::now();
  std::list<Ticket*>& line = all_->line_;
  const Sums sums = all_->sums();
  const auto before = std::find_if(line.rbegin(), line.rend(), [&](const Ticket* each) {
    return each->counted_ || all_->stands_behind(*this, *each, sums);
  });
  const auto place = before.base();
  if (place == line.begin() && all_->grant(*this)) return;
  in_line_ = true;
  line.insert(place, this);
  all_->under_pressure_ = all_->under_pressure_ || all_->is_due(*this, sums);
}

void MemoryAdmission::look_again() {
  std::vector<std::shared_ptr<const std::function<void()>>> wakes;
  try {
    const std::scoped_lock lock(mutex_);
    wakes.reserve(line_.size() + counted_.size());
    look(wakes);
  } catch (const std::bad_alloc&) {  // who waits looks again later
  }
  for (const auto& wake : wakes) (*wake)();
}

void MemoryAdmission::look_now_and_then() {
  {
    const std::scoped_lock lock(mutex_);
    if (Clock::now() < looked_ + kBetweenLooks) return;
  }
  look_again();
}

void MemoryAdmission::look(std::vector<std::shared_ptr<const std::function<void()>>>& wakes) {
  const auto now = looked_ = Clock::now();
  bool under_pressure = false;
  leaving_.remove_if([&](const Leaving& each) {
    const auto account = each.account.lock();
    return !account || account->used() == 0 || now >= each.until;
  });
  Sums have = sums();
  for (const bool all : {false, true})  // first those who regain, and those of addresses that do not have too much
    for (auto place = line_.begin(); place != line_.end();) {
      Ticket& ticket = **place;
      const bool turn = all || ticket.counted_ || is_due(ticket, have);
      const auto is_before = [&](const Ticket* each) { return stands_behind(ticket, *each, have); };
      if (turn && (!under_pressure || may_take_kept(ticket) || is_overdue(ticket)) &&
          std::none_of(line_.begin(), place, is_before) && grant(ticket)) {
        wakes.push_back(ticket.wake_);  // the ticket may be gone once the lock is
        place = line_.erase(place);
        have = sums();
      } else {
        under_pressure = under_pressure || is_due(ticket, have);
        ++place;
      }
    }
  under_pressure_ = under_pressure;
  for (Ticket* const ticket : next_to_end()) {
    ticket->ends_ = true;
    wakes.push_back(ticket->wake_);
  }
}

void MemoryAdmission::end(Ticket& ticket) {
  {
    const std::scoped_lock lock(mutex_);
    line_.remove(&ticket);
    counted_.remove(&ticket);
    if (ticket.counted_) {
      {
        const std::scoped_lock running(running_mutex_);
        const auto its = running_.find(ticket.request_.address);
        if (its != running_.end()) its->second.remove(&ticket);
        if (its != running_.end() && its->second.empty()) running_.erase(its);
      }
      reserve(ticket, 0);
      ticket.leaves_.front().until = Clock::now() + patience_;
      if (!ticket.stuck_) leaving_.splice(leaving_.end(), ticket.leaves_);
      const auto held = held_.find(ticket.request_.address);
      if (--held->second.scans == 0) held_.erase(held);
    }
  }
  look_again();
}

MemoryAdmission::Ticket::~Ticket() { all_->end(*this); }

bool MemoryAdmission::Ticket::granted() const {
  const std::scoped_lock lock(all_->mutex_);
  return granted_;
}

std::int64_t MemoryAdmission::Ticket::position() const {
  const std::scoped_lock lock(all_->mutex_);
  const auto place = std::find(all_->line_.begin(), all_->line_.end(), this);
  return place == all_->line_.end() ? 0 : std::distance(all_->line_.begin(), place);
}

bool MemoryAdmission::under_pressure() const { return under_pressure_; }

std::int64_t MemoryAdmission::waiting() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::int64_t>(line_.size());
}

}  // namespace echotrain::server
