#include "server/base/turns.h"

#include <algorithm>
#include <utility>

namespace echotrain::server {
namespace {

/// A turn's length, where others wait.
constexpr std::chrono::milliseconds kTurn{10};
/// Most that a thread waits: the one before it may itself wait for this one.
constexpr std::chrono::seconds kLongest{2};
/// Without computing, after which an address has no part of the cores.
constexpr std::chrono::seconds kRest{1};
/// How often addresses that compute are counted.
constexpr std::chrono::milliseconds kRecount{5};

}  // namespace

std::unique_ptr<Turns::Scan> Turns::scan(const std::string& address) {
  std::shared_ptr<Address> found;
  if (!address.empty()) {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<Address>& entry = addresses_[address];
    if (!entry) {
      entry = std::make_shared<Address>();
      entry->name = address;
    }
    ++entry->scans;
    found = entry;
  }
  return std::unique_ptr<Scan>(new Scan(shared_from_this(), std::move(found)));
}

// With the lock held, as all below. How many threads of an address may compute at once.
int Turns::share() const {
  constexpr int kAll = 1 << 30;
  return active_ < 2 ? kAll : std::max(1, cores_ / active_);
}

void Turns::count() {
  const auto now = Clock::now();
  if (now - counted_ < kRecount) return;
  counted_ = now;
  const auto computes = [&](const auto& entry) {
    const Address& a = *entry.second;
    return a.computing > 0 || !a.waiting.empty() || now - a.last < kRest;
  };
  const auto active = static_cast<int>(std::count_if(addresses_.begin(), addresses_.end(), computes));
  if (active != std::exchange(active_, active))
    for (const auto& [name, address] : addresses_) look_again(*address);
}

void Turns::look_again(Address& address) {
  const int most = share();
  while (address.computing < most && !address.waiting.empty()) {
    Scan* const next = address.waiting.front();
    address.waiting.pop_front();
    next->granted_ = true;
    ++address.computing;
    next->grants_.notify_one();
  }
  address.full = address.computing > most || !address.waiting.empty();
}

Turns::Scan::Scan(std::shared_ptr<Turns> turns, std::shared_ptr<Address> address)
    : turns_(std::move(turns)), address_(std::move(address)) {}

Turns::Scan::~Scan() {
  if (!address_) return;
  const std::scoped_lock lock(turns_->mutex_);
  if (--address_->scans > 0) return;
  turns_->addresses_.erase(address_->name);
  turns_->counted_ = {};
  turns_->count();
}

void Turns::Scan::begin() {
  std::unique_lock lock(turns_->mutex_);
  const auto now = Clock::now();
  if (now - std::exchange(address_->last, now) >= kRest) turns_->counted_ = {};  // it begins anew
  turns_->count();
  if (address_->computing < turns_->share() && address_->waiting.empty()) {
    ++address_->computing;
  } else {
    granted_ = false;
    address_->waiting.push_back(this);
    address_->full = true;
    if (!grants_.wait_for(lock, stop_, kLongest, [this] { return granted_; })) {
      address_->waiting.remove(this);
      ++address_->computing;
      turns_->look_again(*address_);
    }
  }
  computing_ = true;
  since_ = address_->last = Clock::now();
}

void Turns::Scan::end() {
  const std::scoped_lock lock(turns_->mutex_);
  computing_ = false;
  --address_->computing;
  turns_->count();
  turns_->look_again(*address_);
}

void Turns::Scan::look() {
  if (!computing_) {
    begin();
  } else if (address_->full && Clock::now() - since_ >= kTurn) {
    end();
    begin();
  }
}

std::shared_ptr<numerics::Helped> Turns::Scan::helped() const { return address_ ? address_->helped : nullptr; }

void Turns::Scan::rest() {
  if (computing_) end();
}

Turns::Scan::Computing::Computing(Scan& scan, std::stop_token stop)
    : scan_(scan), before_(numerics::Yield::of_thread()) {
  if (!scan.address_) return;
  scan.stop_ = std::move(stop);
  scan.begin();
  numerics::Yield::of_thread() = &scan;
}

Turns::Scan::Computing::~Computing() {
  if (!scan_.address_) return;
  numerics::Yield::of_thread() = before_;
  scan_.rest();
}

}  // namespace echotrain::server
