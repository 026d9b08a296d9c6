#include "server/base/fair_scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace echotrain::server {
namespace {

/// A turn's length, where others wait.
constexpr std::chrono::milliseconds kTurn{10};
/// The most that a thread waits: the one before it may itself wait for this one.
constexpr std::chrono::seconds kLongest{2};
/// An address that computes nothing for this long has no part of the cores.
constexpr std::chrono::seconds kRest{1};
/// Addresses that compute are counted this often.
constexpr std::chrono::milliseconds kRecount{5};
constexpr int kAll = std::numeric_limits<int>::max();

}  // namespace

std::unique_ptr<FairScheduler::Scan> FairScheduler::scan(const std::string& address) {
  std::shared_ptr<Address> found;
  if (!address.empty()) {
    const std::scoped_lock lock(mutex_);
    if (const auto known = addresses_.find(address); known != addresses_.end()) {
      found = known->second;
    } else {
      found = std::make_shared<Address>();
      found->name = address;
      addresses_.emplace(address, found);
    }
    ++found->scans;
  }
  return std::unique_ptr<Scan>(new Scan(shared_from_this(), std::move(found)));
}

std::shared_ptr<numerics::HelperTime> FairScheduler::helped(const std::string& address) {
  if (address.empty()) return nullptr;
  const std::scoped_lock lock(mutex_);
  std::erase_if(helped_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<numerics::HelperTime>& known = helped_[address];
  std::shared_ptr<numerics::HelperTime> helped = known.lock();
  if (!helped) known = helped = std::make_shared<numerics::HelperTime>();
  return helped;
}

// Returns how many threads of an address may compute at once.
int FairScheduler::share() const {
  const int active = active_;
  return active < 2 ? kAll : std::max(1, cores_ / active);
}

// One thread counts, and the others go on with what is known.
void FairScheduler::count(Clock::time_point now) {
  if (now.time_since_epoch() - counted_.load() < kRecount) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) count_now(now);
}

// Requires the lock.
void FairScheduler::count_now(Clock::time_point now) {
  counted_ = now.time_since_epoch();
  const auto computes = [&](const auto& entry) {
    const Address& a = *entry.second;
    return a.computing > 0 || a.full || now.time_since_epoch() - a.last.load() < kRest;
  };
  const auto active = static_cast<int>(std::count_if(addresses_.begin(), addresses_.end(), computes));
  if (active == active_.exchange(active)) return;
  for (const auto& [name, address] : addresses_) {
    const std::scoped_lock lock(address->mutex);
    reconsider(*address);
  }
}

// Lets one more thread compute, unless as many as may do it already.
bool FairScheduler::take(Address& address, int most) {
  int computing = address.computing;
  while (computing < most)
    if (address.computing.compare_exchange_weak(computing, computing + 1)) return true;
  return false;
}

// Requires the address's lock. A thread that leaves counts down first and then looks at `full`; one that stands in line
// does it the other way round, so that one of them sees the other.
void FairScheduler::reconsider(Address& address) {
  const int most = share();
  while (!address.waiting.empty() && take(address, most)) {
    Scan* const next = address.waiting.front();
    address.waiting.pop_front();
    next->granted_ = true;
    next->grants_.notify_one();
  }
  address.full = address.computing > most || !address.waiting.empty();
}

FairScheduler::Scan::Scan(std::shared_ptr<FairScheduler> scheduler, std::shared_ptr<Address> address)
    : scheduler_(std::move(scheduler)), address_(std::move(address)) {}

FairScheduler::Scan::~Scan() {
  if (!address_) return;
  const std::scoped_lock lock(scheduler_->mutex_);
  if (--address_->scans > 0) return;
  scheduler_->addresses_.erase(address_->name);
  scheduler_->count_now(Clock::now());
}

void FairScheduler::Scan::begin() {
  Address& address = *address_;
  const auto now = Clock::now();
  if (now.time_since_epoch() - address.last.exchange(now.time_since_epoch()) >= kRest)
    scheduler_->counted_ = Clock::duration();  // it begins anew
  scheduler_->count(now);
  if (address.full || !take(address, scheduler_->share())) stand_in_line();
  computing_ = true;
  since_ = Clock::now();
  address.last = since_.time_since_epoch();
}

void FairScheduler::Scan::stand_in_line() {
  Address& address = *address_;
  std::unique_lock lock(address.mutex);
  granted_ = false;
  address.waiting.push_back(this);
  address.full = true;
  scheduler_->reconsider(address);
  if (grants_.wait_for(lock, stop_, kLongest, [this] { return granted_; })) return;
  address.waiting.remove(this);
  ++address.computing;
  scheduler_->reconsider(address);
}

void FairScheduler::Scan::end() {
  Address& address = *address_;
  computing_ = false;
  address.last = Clock::now().time_since_epoch();
  --address.computing;
  if (!address.full) return;
  const std::scoped_lock lock(address.mutex);
  scheduler_->reconsider(address);
}

void FairScheduler::Scan::look() {
  if (!computing_) {
    begin();
    return;
  }
  const auto now = Clock::now();
  scheduler_->count(now);  // who computes for minutes begins once: others may have come or gone since
  if (!address_->full || now - since_ < kTurn) return;
  end();
  begin();
}

// All threads that work for an address leave half a part of the cores to others, at once: their pieces of work can be
// long.
int FairScheduler::Scan::most_helpers() const {
  const int share = scheduler_->share();
  return share == kAll ? kAll : std::max(0, scheduler_->cores_ - std::max(1, share / 2) - address_->computing);
}

void FairScheduler::Scan::rest() {
  if (computing_) end();
}

FairScheduler::Scan::Computing::Computing(Scan& scan, std::stop_token stop)
    : scan_(scan), before_(numerics::Yield::of_thread()) {
  if (!scan.address_) return;
  scan.stop_ = std::move(stop);
  scan.begin();
  numerics::Yield::of_thread() = &scan;
}

FairScheduler::Scan::Computing::~Computing() {
  if (!scan_.address_) return;
  numerics::Yield::of_thread() = before_;
  scan_.rest();
}

}  // namespace echotrain::server
