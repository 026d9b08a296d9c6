// Things made once per trajectory that sessions share.
#pragma once

#include <chrono>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "gadgets/numerics/context.h"

namespace echotrain {

/// What `Request`s ask for, on every device of the process; each device has the bound. A thing is made once, however
/// many sessions ask for it at the same time. When the bytes of all things would pass the bound, those that no session
/// holds are dropped, the longest unused first. Thread-safe.
///
/// A Request has `using Made`, `bool same(const Request&) const` and
/// `std::shared_ptr<const Made> make(numerics::Context&) const`; Made has `std::uint64_t bytes() const`.
template <class Request>
class DeviceCache {
 public:
  using Made = typename Request::Made;
  explicit DeviceCache(std::uint64_t bytes) : most_bytes_(bytes) {}

  struct Result {
    std::shared_ptr<const Made> plan;
    bool reused;     ///< it was there
    double made_ms;  ///< how long making it took, if it was not
  };
  /// For `session`'s device. What does not fit the cache is made in the session's own memory, and not kept.
  /// ResourceError when that is exhausted too; what make() throws otherwise.
  Result get(numerics::Context& session, const Request& request) {
    if (auto found = find(session, request)) return {found, true, 0};
    const std::scoped_lock lock(making_);
    if (auto found = find(session, request)) return {found, true, 0};  // another session has just made it
    const auto begin = std::chrono::steady_clock::now();
    const auto took = [begin] {
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    };
    while (most_bytes_ > 0) {
      try {
        auto made = request.make(home(session));
        const double ms = took();
        const std::scoped_lock entries_lock(mutex_);
        entries_.push_front({session.backend(), session.device(), request, made});
        return {std::move(made), false, ms};
      } catch (const numerics::ResourceError&) {
        if (!drop_one()) break;
      }
    }
    auto made = request.make(session);
    return {std::move(made), false, took()};
  }

  std::uint64_t bytes() const {
    const std::scoped_lock lock(mutex_);
    std::uint64_t sum = 0;
    for (const Entry& entry : entries_) sum += entry.made->bytes();
    return sum;
  }
  std::size_t plans() const {
    const std::scoped_lock lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    numerics::Backend backend;
    int device;
    Request request;
    std::shared_ptr<const Made> made;
  };

  std::shared_ptr<const Made> find(const numerics::Context& session, const Request& request) {
    const std::scoped_lock lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->backend != session.backend() || entry->device != session.device() || !entry->request.same(request))
        continue;
      entries_.splice(entries_.begin(), entries_, entry);
      return entry->made;
    }
    return nullptr;
  }

  /// False: everything is in use.
  bool drop_one() {
    const std::scoped_lock lock(mutex_);
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry)
      if (entry->made.use_count() == 1) {
        entries_.erase(std::next(entry).base());
        return true;
      }
    return false;
  }

  numerics::Context& home(const numerics::Context& session) {
    auto& context = homes_[{session.backend(), session.device()}];
    if (!context)
      context = std::make_unique<numerics::Context>(
          session.backend(), numerics::ContextOptions{.device = session.device(), .memory_budget = most_bytes_});
    return *context;
  }

  const std::uint64_t most_bytes_;
  std::mutex making_;  // taken before mutex_; the contexts are used under it
  std::map<std::pair<numerics::Backend, int>, std::unique_ptr<numerics::Context>> homes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
};

/// Mebibytes that an environment variable says, as bytes; `mib` of them if it says nothing that can be read.
std::uint64_t bytes_from_environment(const char* variable, std::uint64_t mib);

}  // namespace echotrain
