// DeviceCache keeps objects that are made once per trajectory and shared by sessions.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/progress.h"
#include "gadgets/shared/program/scan_environment.h"
#include "gadgets/shared/store/fair_share_eviction.h"

namespace echotrain {

/// The counts of a cache. A hit is a request whose object was there or being made.
struct CacheCounts {
  std::uint64_t hits = 0, misses = 0;
  std::uint64_t bytes = 0, entries = 0;
};

/// Keeps the objects that `Request`s ask for, on every device. Thread-safe.
///
/// An object is made once, however many sessions ask for it at the same time. Sessions that ask for other objects do
/// not wait, and none waits for a session that is to stop, which may hang. While an object is made, the session that
/// asked for it pays for the memory; once it is kept, the cache pays.
///
/// When the objects and their requests exceed a bound in bytes or number, the cache drops objects that no session
/// holds: again and again the longest unused one of the client that has most (evict_to_fair_share), so that a client
/// that has no more than an equal part loses nothing to others. An object belongs to the client that used it last
/// (ScanEnvironment::client); if that one loses it, to the one before. On the CPU, objects are also dropped when the
/// budget needs their memory.
///
/// A Request has `using Made`, `bool same(const Request&) const`, `std::uint64_t bytes() const` and
/// `std::shared_ptr<const Made> make(numerics::Context&) const`; Made has `std::uint64_t bytes() const`.
template <class Request>
class DeviceCache : private numerics::ClientEvictable {
 public:
  using Made = typename Request::Made;
  static constexpr std::uint64_t kMostEntries = 4096;
  /// The bytes of an object beside its arrays and its request: its own parts, its device, its entry.
  static constexpr std::uint64_t kBytesBeside = 2560;

  explicit DeviceCache(std::uint64_t bytes,
                       std::shared_ptr<numerics::MemoryBudget> budget = std::make_shared<numerics::MemoryBudget>(),
                       std::chrono::steady_clock::duration lapses = kShareLapses,
                       std::uint64_t most_entries = kMostEntries)
      : most_bytes_(bytes),
        most_entries_(most_entries),
        lapses_(lapses),
        account_(std::make_shared<numerics::MemoryAccount>(std::move(budget))),
        beside_(account_) {
    account_->budget()->add_evictable(*this);
  }
  ~DeviceCache() override { account_->budget()->remove_evictable(*this); }

  struct Result {
    std::shared_ptr<const Made> object;
    bool reused;     ///< it was there, or another session was making it
    double made_ms;  ///< how long making it took, if it was not
  };
  /// Returns the object for `session`'s device. An object that does not fit the cache, beside what others have in their
  /// parts, is made in the session's memory and not kept. Throws ResourceError when that memory is exhausted too,
  /// OverBudget when the budget is, Stopped when the session is to stop; passes on what make() throws.
  Result get(numerics::Context& session, const Request& request) {
    const Device device{session.backend(), session.device()};
    {
      std::unique_lock lock(mutex_);
      for (;;) {
        if (auto found = find(device, request, client_of(session))) {
          ++hits_;
          return {found, true, 0};
        }
        const auto making = being_made(device, request);
        if (making == being_made_.end()) break;
        if (numerics::Yield* const yield = numerics::Yield::of_thread()) yield->rest();  // the maker may need the core
        // Woken too where the maker failed or is to stop: then this session, or another that waits, makes it.
        wait(lock, session, making->stop);
        lock.unlock();
        session.check_stop();
        lock.lock();
      }
      being_made_.push_back({device, &request, session.stop_token()});
      ++misses_;
    }
    const auto begin = std::chrono::steady_clock::now();
    std::shared_ptr<const Made> made;
    try {
      const numerics::NoYieldScope keeps;  // others may wait for it
      made = make(session, device, request);
    } catch (...) {
      end_making(request);
      throw;
    }
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    end_making(request);
    return {std::move(made), false, ms};
  }

  std::uint64_t bytes() const {
    const std::scoped_lock lock(mutex_);
    return bytes_;
  }
  std::size_t objects() const {
    const std::scoped_lock lock(mutex_);
    return entries_.size();
  }
  CacheCounts counts() const {
    const std::scoped_lock lock(mutex_);
    return {hits_, misses_, bytes_, entries_.size()};
  }

 private:
  using Device = std::pair<numerics::Backend, int>;
  struct Entry {
    Device device;
    Request request;
    std::shared_ptr<const Made> made;
    std::uint64_t used;  // when last, by the budget's clock
    std::chrono::steady_clock::time_point used_at;
    std::vector<std::string> clients;  // that use it, the last one first
    std::uint64_t bytes;               // with its request and kBytesBeside
    bool held() const { return made.use_count() > 1; }
  };
  using Entries = std::list<Entry>;
  static constexpr std::size_t kMostClients = 64;  // of an object

  static const std::string& client_of(numerics::Context& session) { return session.cache<ScanEnvironment>().client; }
  static std::uint64_t bytes_of(const Made& made, const Request& request) {
    return made.bytes() + request.bytes() + kBytesBeside;
  }

  struct Making {
    Device device;
    const Request* request;
    std::stop_token stop;  // of the session that makes it
  };

  /// Makes the object on a device of its own if it may be within the bound; else in the session's memory.
  std::shared_ptr<const Made> make(numerics::Context& session, const Device& device, const Request& request) {
    if (request.bytes() < most_bytes_) {
      try {
        numerics::Context own(device.first, session.shared_resources(),
                              {.device = device.second,
                               .memory_budget = memory_to_make(device, request),
                               .stop_token = session.stop_token(),
                               .group = session.group(),
                               .account = session.account()});
        own.cache<ScanEnvironment>().client = client_of(session);
        auto made = request.make(own);
        own.synchronize();  // others use it on streams of their own
        if (bytes_of(*made, request) <= most_bytes_) return keep(own, device, request, std::move(made));
      } catch (const numerics::OverBudget&) {
        throw;
      } catch (const numerics::OverLimit&) {  // too large for the cache
      } catch (const numerics::ResourceError&) {
        make_room_on(device);
      }
    }
    try {
      return request.make(session);
    } catch (const numerics::OverBudget&) {
      throw;
    } catch (const numerics::OverLimit&) {
      throw;
    } catch (const numerics::ResourceError&) {
      if (!make_room_on(device)) throw;
    }
    return request.make(session);
  }

  /// Drops unused objects of a full device. Returns false if there is none, or if that makes no room.
  bool make_room_on(const Device& device) {
    if (device.first != numerics::Backend::cuda) return false;
    return !take_out(kAll, [](const Entry&) { return true; }).empty();
  }

  /// Returns the bytes that making an object may take, which are more than the object's: on the CPU up to half of the
  /// budget, which the session pays for.
  std::uint64_t memory_to_make(const Device& device, const Request& request) const {
    constexpr std::uint64_t kMost = std::uint64_t{8} << 30;
    if (device.first == numerics::Backend::cuda) return most_bytes_ - request.bytes();
    return std::max(most_bytes_, std::min(kMost, account_->budget()->bound() / 2));
  }

  /// Keeps the object if the client's part and the budget have room for it; else it stays the session's. Gives the one
  /// that was kept before where two sessions have made it, of which one was to stop.
  std::shared_ptr<const Made> keep(numerics::Context& own, const Device& device, const Request& request,
                                   std::shared_ptr<const Made> made) {
    const std::string client = client_of(own);
    const std::uint64_t bytes = bytes_of(*made, request), unpaid = request.bytes() + kBytesBeside;
    {
      Entries gone;
      const std::scoped_lock lock(mutex_);
      if (auto found = find(device, request, client)) return found;
      if (!make_room(gone, bytes, client)) return made;
    }
    if (!account_->budget()->make_room(unpaid)) return made;
    try {
      own.hand_over(account_);
    } catch (const numerics::OverBudget&) {
      return made;
    }
    Entries gone;
    const std::scoped_lock lock(mutex_);
    if (auto found = find(device, request, client)) return found;
    entries_.push_front(
        {device, request, made, account_->budget()->now(), std::chrono::steady_clock::now(), {client}, bytes});
    bytes_ += bytes;
    beside_.set(beside_.bytes() + unpaid);
    make_room(gone);  // others may have kept something meanwhile
    return made;
  }

  void end_making(const Request& request) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(being_made_, [&](const Making& each) { return each.request == &request; });
    ++made_;
    changed_.notify_all();
  }

  // The members below are called with mutex_ held.

  /// Finds the request that makes this object, unless its session is to stop.
  auto being_made(const Device& device, const Request& request) const {
    return std::find_if(being_made_.begin(), being_made_.end(), [&](const Making& each) {
      return each.device == device && !each.stop.stop_requested() && each.request->same(request);
    });
  }

  /// Waits until an object has been made, or `session` or the maker is to stop, without mutex_ for the thread that
  /// stops them. A maker that hangs holds up no other session.
  void wait(std::unique_lock<std::mutex>& lock, numerics::Context& session, const std::stop_token& maker) {
    std::optional<numerics::Progress::Wait> for_maker;
    if (numerics::Progress* const own = numerics::Progress::of_thread().get()) for_maker.emplace(*own);
    std::stop_source either;
    const auto stop = [&either] { either.request_stop(); };
    const std::stop_callback with_session(session.stop_token(), stop), with_maker(maker, stop);
    changed_.wait(lock, either.get_token(), [&, seen = made_] { return seen != made_; });
  }

  void note_use(Entry& entry, const std::string& client) {
    entry.used = account_->budget()->now();
    entry.used_at = std::chrono::steady_clock::now();
    auto at = std::find(entry.clients.begin(), entry.clients.end(), client);
    if (at == entry.clients.end() && entry.clients.size() == kMostClients) return;
    if (at == entry.clients.end()) at = entry.clients.insert(at, client);
    std::rotate(entry.clients.begin(), at, at + 1);
  }

  std::shared_ptr<const Made> find(const Device& device, const Request& request, const std::string& client) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->device != device || !entry->request.same(request)) continue;
      entries_.splice(entries_.begin(), entries_, entry);
      note_use(*entry, client);
      return entry->made;
    }
    return nullptr;
  }

  /// Takes out what goes by the rule until all are within the bounds, with one of `more` bytes that `client` is to get.
  /// False: what is left is held, or within others' parts. As all that takes objects out, it leaves them to the caller,
  /// who frees them without mutex_: thousands take milliseconds.
  bool make_room(Entries& gone, std::uint64_t more = 0, const std::string& client = {}) {
    using At = typename Entries::iterator;
    const At added = entries_.end();
    const std::uint64_t one = more > 0 ? 1 : 0;
    const auto now = std::chrono::steady_clock::now();
    const auto fits = [&] { return bytes_ + more <= most_bytes_ && entries_.size() + one <= most_entries_; };
    // An object that its client loses may be the one's before: parts are counted anew then.
    for (bool again = true; again && !fits();) {
      again = false;
      const auto keep = [&](std::uint64_t most, const auto& amount) {
        std::map<std::string, std::vector<At>> owned;
        if (more > 0) owned[client].push_back(added);
        for (At entry = entries_.begin(); entry != entries_.end(); ++entry)
          owned[entry->clients.front()].push_back(entry);
        evict_to_fair_share(
            owned, most, amount,
            [&](At item) {
              if (item == added || item->held()) return false;
              again = true;
              return lose(item, gone);
            },
            [&](At item) { return item != added && !item->held() && now - item->used_at > lapses_; });
      };
      if (bytes_ + more > most_bytes_) keep(most_bytes_, [&](At item) { return item == added ? more : item->bytes; });
      if (entries_.size() + one > most_entries_) keep(most_entries_, [](At) { return std::uint64_t{1}; });
    }
    return fits();
  }

  /// The client that has it loses it. False: it is the one's now that used it before.
  bool lose(typename Entries::iterator entry, Entries& gone) {
    entry->clients.erase(entry->clients.begin());
    if (!entry->clients.empty()) return false;
    take_out(entry, gone);
    return true;
  }

  void take_out(typename Entries::iterator entry, Entries& gone) {
    beside_.set(beside_.bytes() - (entry->request.bytes() + kBytesBeside));
    bytes_ -= entry->bytes;
    gone.splice(gone.begin(), entries_, entry);
  }

  // The members below take mutex_ themselves.

  static constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

  /// Takes out entries that nobody holds and for which `goes` is true, what was unused for longest first, until they
  /// have `bytes`. Those of one client, if that is given, which may be another's then.
  template <class Goes>
  Entries take_out(std::uint64_t bytes, const Goes& goes, bool of_client = false) {
    Entries gone;
    const std::scoped_lock lock(mutex_);
    std::uint64_t left = worth_a_walk(bytes, bytes_);
    for (auto next = entries_.end(); next != entries_.begin() && left > 0;) {
      const auto entry = std::prev(next);
      if (entry->held() || !goes(*entry)) {
        next = entry;
        continue;
      }
      left -= std::min(left, entry->bytes);
      if (!of_client)
        take_out(entry, gone);
      else if (!lose(entry, gone))
        next = entry;
    }
    return gone;
  }

  // The budget's calls. What lies on a GPU takes nothing of it.

  static bool is_on_cpu(const Entry& entry) { return entry.device.first == numerics::Backend::cpu; }
  std::optional<std::uint64_t> unused_since() const override {
    const std::scoped_lock lock(mutex_);
    const auto entry = std::find_if(entries_.rbegin(), entries_.rend(),
                                    [](const Entry& each) { return !each.held() && is_on_cpu(each); });
    return entry == entries_.rend() ? std::nullopt : std::optional<std::uint64_t>(entry->used);
  }
  void evict(std::uint64_t wanted) override { take_out(wanted, is_on_cpu); }
  Shares shares() const override {
    const std::scoped_lock lock(mutex_);
    Shares shares;
    for (const Entry& entry : entries_) {
      if (!is_on_cpu(entry)) continue;
      Share& share = shares[entry.clients.front()];
      share.bytes += entry.bytes;
      if (!entry.held()) share.unused_since = entry.used;  // the last one is unused for longest
    }
    return shares;
  }
  void evict_of(const std::string& client, std::uint64_t wanted) override {
    take_out(
        wanted, [&](const Entry& each) { return is_on_cpu(each) && each.clients.front() == client; }, true);
  }

  const std::uint64_t most_bytes_, most_entries_;
  const std::chrono::steady_clock::duration lapses_;        // a client's part in what it does not use
  const std::shared_ptr<numerics::MemoryAccount> account_;  // of the kept objects and their requests
  numerics::MemoryShare beside_;                            // of the kept objects' requests and kBytesBeside
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t made_ = 0;  // calls of get() that have ended making, in whatever way
  std::uint64_t hits_ = 0, misses_ = 0;
  std::uint64_t bytes_ = 0;         // of all entries
  Entries entries_;                 // most recently used first
  std::vector<Making> being_made_;  // of calls of get() in progress
};

}  // namespace echotrain
