#include "gadgets/numerics/core/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gadgets/numerics/core/heap_account.h"

namespace echotrain::numerics {

std::uint64_t MemoryBudget::left() const {
  const std::uint64_t used = used_;
  return used < bound_ ? bound_ - used : 0;
}

bool MemoryBudget::take_if_it_fits(std::uint64_t bytes, std::uint64_t leave) {
  const std::uint64_t most = bound_ - std::min(bound_, leave);
  std::uint64_t used = used_;
  do {
    if (bytes > most || used > most - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

bool MemoryBudget::take(std::uint64_t bytes, std::uint64_t leave) {
  if (take_if_it_fits(bytes, leave)) return true;
  while (make_room(bytes + leave))
    if (take_if_it_fits(bytes, leave)) return true;
  return false;
}

bool MemoryBudget::make_room(std::uint64_t bytes) {
  if (bytes > bound_) return false;
  const HeapScope uncharged(nullptr);  // what finds room must not be refused for want of it
  const std::scoped_lock lock(mutex_);
  while (left() < bytes || used_ > bound_) {
    const std::uint64_t used = used_;
    if (!evict_next(used - std::min(used, bound_ - bytes))) return false;
  }
  return true;
}

void MemoryBudget::grant_wishes() {
  const std::uint64_t wanted = wish_.exchange(0);
  if (wanted > 0 || used_ > bound_) make_room(wanted);
}

void MemoryBudget::evict_unused() {
  const HeapScope uncharged(nullptr);
  const std::scoped_lock lock(mutex_);
  // Whose goes first does not matter where all goes; and there is no memory to find it out.
  while (Evictable* const next = longest_unused()) next->evict(std::numeric_limits<std::uint64_t>::max());
}

namespace {

struct KeptForClient {
  std::string client;
  std::uint64_t bytes = 0, since = 0;  // since: of what was unused for longest
  ClientEvictable* keeper = nullptr;   // which has that; null: all is used
};

/// The clients of whom something can go, first the one for whom most is kept, of equals the one that used it earlier.
std::vector<KeptForClient> kept_for_clients(const std::vector<Evictable*>& keepers) {
  std::map<std::string, KeptForClient> clients;
  for (Evictable* each : keepers) {
    auto* const keeper = dynamic_cast<ClientEvictable*>(each);
    if (keeper == nullptr) continue;
    for (const auto& [name, share] : keeper->shares()) {
      KeptForClient& client = clients[name];
      client.bytes += share.bytes;
      if (!share.unused_since || (client.keeper != nullptr && *share.unused_since >= client.since)) continue;
      client.keeper = keeper;
      client.since = *share.unused_since;
    }
  }
  std::vector<KeptForClient> found;
  for (auto& [name, client] : clients) {
    if (client.keeper == nullptr) continue;
    client.client = name;
    found.push_back(std::move(client));
  }
  std::sort(found.begin(), found.end(), [](const KeptForClient& a, const KeptForClient& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.since < b.since;
  });
  return found;
}

}  // namespace

/// One walk through all keepers. Of clients, those give who have more than the others, down to one level, and not all
/// that is wanted at once: who has most, and which keeper has what was unused for longest, changes meanwhile. False:
/// nothing is unused.
bool MemoryBudget::evict_next(std::uint64_t wanted) {
  constexpr std::uint64_t kOfWanted = 4, kOfBound = 1024;
  Evictable* const longest = longest_unused();
  if (longest == nullptr) return false;
  if (dynamic_cast<const ClientEvictable*>(longest) == nullptr) {
    longest->evict(wanted);
    return true;
  }
  const std::vector<KeptForClient> clients = kept_for_clients(evictable_);  // empty: somebody uses it by now
  const std::uint64_t at_once = std::max({std::uint64_t{1}, wanted / kOfWanted, std::min(wanted, bound_ / kOfBound)});
  std::uint64_t sum = 0, level = 0;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    sum += clients[i].bytes;
    level = (sum - std::min(sum, at_once)) / (i + 1);
    if (i + 1 < clients.size() && level >= clients[i + 1].bytes) break;
  }
  const std::uint64_t before = used_, goal = before - std::min(before, wanted);
  for (const KeptForClient& client : clients) {
    if (client.bytes <= level || used_ <= goal) break;
    client.keeper->evict_of(client.client, client.bytes - level);
    for (Evictable* each : evictable_)  // where arrays go, their blocks are spare now
      if (dynamic_cast<const ClientEvictable*>(each) == nullptr && each->unused_since() == 0) each->evict(wanted);
  }
  return true;
}

Evictable* MemoryBudget::longest_unused() {
  Evictable* longest = nullptr;
  std::uint64_t since = 0;
  for (Evictable* each : evictable_) {
    const auto its = each->unused_since();
    if (!its || (longest != nullptr && *its >= since)) continue;
    longest = each;
    since = *its;
  }
  return longest;
}

void MemoryBudget::add_evictable(Evictable& what) {
  const std::scoped_lock lock(mutex_);
  evictable_.push_back(&what);
}

void MemoryBudget::remove_evictable(Evictable& what) {
  const std::scoped_lock lock(mutex_);
  std::erase(evictable_, &what);
}

namespace {
std::uint64_t above_zero(std::int64_t balance) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(balance, 0));
}

/// `more`: what was asked for and is not counted [bytes].
[[noreturn]] void refuse_more(const MemoryAccount& account, std::uint64_t more) {
  const HeapScope uncharged(nullptr);
  const auto mib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  throw OverBudget(fmt::format(
      "this scan uses {:.1f} MiB{}, more than the {:.1f} MiB that were reserved for it, and this server has "
      "no more left of the memory that it may lend (of {} MiB in all); try again later, or raise memory_mib",
      mib(account.used()), more == 0 ? "" : fmt::format(" and wants another {:.1f} MiB", mib(more)),
      mib(account.reserved()), account.budget()->bound() >> 20));
}
}  // namespace

MemoryAccount::~MemoryAccount() { budget_->give(reserved_ + above_zero(balance_)); }

/// Moves the balance; by how much what is borrowed grows.
std::int64_t MemoryAccount::move(std::int64_t bytes) noexcept {
  const std::int64_t before = balance_.fetch_add(bytes);
  return std::max<std::int64_t>(before + bytes, 0) - std::max<std::int64_t>(before, 0);
}

bool MemoryAccount::reserve(std::uint64_t bytes) {
  const std::uint64_t before = reserved_;
  const auto more = static_cast<std::int64_t>(bytes - before);
  reserved_ = bytes;
  const std::int64_t borrowed = move(-more);  // what was borrowed becomes reserved, or the other way round
  const std::int64_t wanted = more + borrowed;
  if (wanted <= 0) {
    budget_->give(static_cast<std::uint64_t>(-wanted));
    return true;
  }
  const auto as_it_was = [&] {
    reserved_ = before;
    budget_->add(static_cast<std::uint64_t>(borrowed + move(more)));  // unsigned numbers wrap: this may subtract
  };
  try {
    if (budget_->take(static_cast<std::uint64_t>(wanted))) return true;
  } catch (...) {  // the machine has no memory to look for room
    as_it_was();
    throw;
  }
  as_it_was();
  return false;
}

std::uint64_t MemoryAccount::used() const { return above_zero(balance_ + static_cast<std::int64_t>(reserved_.load())); }
std::uint64_t MemoryAccount::borrowed() const { return above_zero(balance_); }
std::uint64_t MemoryAccount::unused() const { return above_zero(-balance_); }

namespace {
/// Returns the bytes that an account may borrow even of the kept part, so that a scan that needs little more than its
/// reservation does not depend on what others have borrowed.
std::uint64_t grace_of(std::uint64_t reserved) { return reserved / 4; }
}  // namespace

bool MemoryAccount::beyond_grace(std::uint64_t more) const {
  return above_zero(balance_ + static_cast<std::int64_t>(more)) > grace_of(reserved_);
}

void MemoryAccount::take(std::uint64_t bytes) {
  const auto more = static_cast<std::uint64_t>(move(static_cast<std::int64_t>(bytes)));
  const auto give_back = [&] {
    budget_->add(more);
    give(bytes);
  };
  try {
    if (more == 0 || budget_->take(more, beyond_grace() ? budget_->kept() : 0)) return;
  } catch (...) {  // the machine has no memory to look for room
    give_back();
    throw;
  }
  give_back();
  refuse_more(*this, bytes);
}

void MemoryAccount::add(std::uint64_t bytes) noexcept {
  budget_->add(static_cast<std::uint64_t>(move(static_cast<std::int64_t>(bytes))));
}

void MemoryAccount::give(std::uint64_t bytes) noexcept {
  budget_->give(static_cast<std::uint64_t>(-move(-static_cast<std::int64_t>(bytes))));
}

void MemoryAccount::check() {
  if (budget_->used() <= budget_->bound() || !beyond_grace()) return;
  if (!budget_->make_room(0) && beyond_grace()) refuse();
}

void MemoryAccount::refuse() const { refuse_more(*this, 0); }

void MemoryShare::set(std::uint64_t bytes) noexcept {
  if (account_ && bytes > bytes_) account_->add(bytes - bytes_);
  if (account_ && bytes < bytes_) account_->give(bytes_ - bytes);
  bytes_ = bytes;
}

void MemoryShare::grow_to(std::uint64_t bytes) {
  if (account_ && bytes > bytes_) account_->take(bytes - bytes_);
  if (bytes > bytes_) bytes_ = bytes;
}

}  // namespace echotrain::numerics
