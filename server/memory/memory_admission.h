// Memory admission reserves for each scan the memory that it will probably need; scans for which it is short wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/memory_budget.h"
#include "server/base/clock.h"

namespace echotrain::server {

/// Reserves memory for scans before their data are taken (admission). Scans whose reservation does not fit wait in
/// line, first come first served; the last quarter of the line, rounded down, is for addresses that have none in it.
/// Thread-safe. Tickets keep it alive.
///
/// The budget is divided among addresses (fair share):
/// - An eighth is kept for the first scan of an address, where that reserves at most a quarter of this eighth. It
///   overtakes the line.
/// - The share is half of the other seven eighths: the scans of one address reserve no more together. Those that wait
///   because of that hold up nobody else.
/// - The part of an address is these seven eighths divided by the number of addresses that have memory or wait for it,
///   or twice what the address has reserved, if that is more; but at most the share.
///
/// A scan borrows what it takes beyond its reservation from these seven eighths. Borrowers have to give back once a
/// scan has waited for `pause` whose address has no more than its part and, with what the scan wants, no more than the
/// share. Then the address that has most beyond its part loses its scan that borrows most, and so on until the wanted
/// memory is free. No scan ends where that would not be enough, or if it uses no more than was reserved for it at
/// first.
///
/// While others wait, an idle scan gives back the unused part of its reservation. When it goes on, it asks for that
/// part again: before all scans that have had no memory, but after those that waited already when it gave it back.
///
/// Input that waits to be computed is borrowed, too, but no scan ends for it: a session asks has_too_much() before it
/// takes in more, so that others find something to borrow.
class MemoryAdmission : public std::enable_shared_from_this<MemoryAdmission> {
 public:
  /// At most `most_waiting` tickets wait at a time. Scans that borrow end when another has waited for `pause`. A scan
  /// that regains its memory waits for `patience`, and then goes on with what it has. What an ended scan still holds is
  /// expected back for as long.
  MemoryAdmission(std::shared_ptr<numerics::MemoryBudget> budget, std::int64_t most_waiting,
                  Clock::duration pause = std::chrono::seconds(10), Clock::duration patience = std::chrono::seconds(10))
      : budget_(std::move(budget)), most_waiting_(most_waiting), pause_(pause), patience_(patience) {
    count_small(0);
  }

  /// The wish of a scan: `bytes` of the budget for `account`.
  struct Request {
    std::shared_ptr<numerics::MemoryAccount> account;
    std::uint64_t bytes = 0;
    std::string address;                                             ///< without a port
    bool exempt = false;                                             ///< the address may have the whole line
    std::shared_ptr<const numerics::MemoryAccount> input = nullptr;  ///< what waits for the scan; null: nothing does
  };

 private:
  /// Memory that a scan has left behind when its ticket ended, such as images that are being sent: it comes back soon.
  struct Leaving {
    std::weak_ptr<numerics::MemoryAccount> account;
    Clock::time_point until;  ///< as long as that is believed
  };

 public:
  /// A scan's turn: waiting, then holding its reservation until it is destroyed. The account may keep more than that.
  class Ticket {
   public:
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    bool granted() const;
    std::uint64_t bytes() const { return request_.bytes; }
    /// Counts the tickets before this one; 0 when it has been granted.
    std::int64_t position() const;
    /// Says that the scan is idle for the moment. While others wait, gives back what is reserved and not used; from
    /// then on granted() is false, until regain(). Returns false if it keeps all. For one strand.
    bool give_back_unused();
    /// Asks for all of it again. It stands behind those that regain, too, and behind those that waited already when it
    /// gave it back and may have it; before all others. It is granted in any case once it has waited for the patience:
    /// what the scan then takes beyond what it has kept is borrowed.
    void regain();
    /// True if the scan has to end, because it borrows and others wait. It stays so; `wake` is called.
    bool must_end() const { return ends_; }
    /// True if the scan, which is idle, has to end: others wait, it borrows, and the scans of its address that need not
    /// end have more than the share.
    bool must_end_idle();
    /// True if the scan has to end, because a scan of another address has waited for `pause`. Asked for scans of which
    /// next to no data come.
    bool must_end_crawling();
    /// True if the scans of its address have, with their input, more than an equal part of the seven eighths, counted
    /// as if one more address had scans. Never while all together have no more than half of these. It does not wait for
    /// looks, which may take long while others wait for memory.
    bool has_too_much() const;
    /// Says that the scan hangs: its memory does not come back and is asked back no more.
    void is_stuck();
    /// Counts the other scans of its address that had their memory when this one got its own. Valid once granted.
    std::int64_t scans_beside() const { return scans_beside_; }

   private:
    friend class MemoryAdmission;
    Ticket(std::shared_ptr<MemoryAdmission> all, Request request, std::function<void()> wake)
        : all_(std::move(all)),
          request_(std::move(request)),
          wake_(std::make_shared<const std::function<void()>>(std::move(wake))),
          leaves_{{request_.account, {}}} {}
    const std::shared_ptr<MemoryAdmission> all_;
    const Request request_;
    const std::shared_ptr<const std::function<void()>> wake_;
    std::list<Leaving> leaves_;               // made with it: where a ticket ends, nothing may fail
    bool granted_ = false;                    // guarded by all_'s mutex, as those below
    bool in_line_ = false, counted_ = false;  // counted: among the scans of its address
    bool stuck_ = false;
    std::atomic<bool> ends_ = false;
    Clock::time_point waits_since_, lent_at_;
    std::uint64_t reserved_ = 0;     // of what is wanted
    std::int64_t scans_beside_ = 0;  // guarded until granted
  };

  /// Returns a ticket, or null when the line is full, for this address or at all. A wish for more than an address may
  /// have is cut to that. `wake` is called, on any thread, when a ticket that had to wait is granted or a scan is to
  /// end.
  std::unique_ptr<Ticket> ask(Request request, std::function<void()> wake);
  /// Looks again who of those in line can have what it wants, and who has to give back what it borrows. Called when a
  /// ticket ends. Without memory it does nothing.
  void look_again();
  /// Does the same, some 20 times a second at most: memory that was borrowed comes back at any time.
  void look_now_and_then();

  /// True if a scan waits because too little memory is left: sessions that have borrowed and can do without give it
  /// back.
  bool under_pressure() const;
  std::int64_t waiting() const;

 private:
  /// The reservation of an address, and the number of its scans.
  struct Held {
    std::uint64_t bytes = 0;
    std::int64_t scans = 0;
  };
  /// The sums over all addresses that have something or want it.
  struct Sums {
    struct Had {
      std::uint64_t all = 0, staying = 0;  // staying: without scans that end, which give it back a little later
    };
    std::map<std::string_view, Had> had;
  };
  static constexpr std::chrono::milliseconds kBetweenLooks{50};
  std::uint64_t kept() const { return budget_->bounded() ? budget_->bound() / 8 : 0; }  // for first scans
  std::uint64_t share() const { return (budget_->bound() - kept()) / 2; }               // for one address
  bool may_reserve(const Ticket& ticket) const;
  bool may_take_kept(const Ticket& ticket) const;
  Sums sums() const;
  bool is_due(const Ticket& ticket, const Sums& sums) const;
  bool stands_behind(const Ticket& ticket, const Ticket& other, const Sums& sums) const;
  bool is_overdue(const Ticket& ticket) const;
  std::uint64_t part_of(const std::string& address, const Sums& sums) const;
  std::uint64_t room_for(const Ticket& ticket) const;
  std::uint64_t coming() const;
  std::vector<Ticket*> next_to_end() const;
  Ticket* borrows_most(const std::vector<Ticket*>& ending, const Sums& sums) const;
  bool line_is_full(const Request& request) const;
  bool grant(Ticket& ticket);
  void look(std::vector<std::shared_ptr<const std::function<void()>>>& wakes);
  bool reserve(Ticket& ticket, std::uint64_t bytes);
  void count_small(std::uint64_t more);
  void end(Ticket& ticket);

  const std::shared_ptr<numerics::MemoryBudget> budget_;
  const std::int64_t most_waiting_;
  const Clock::duration pause_, patience_;
  mutable std::mutex mutex_;
  std::list<Ticket*> line_;
  std::map<std::string, Held> held_;  // by address
  std::list<Ticket*> counted_;
  std::list<Leaving> leaving_;
  std::uint64_t small_ = 0;  // reserved for first scans
  std::atomic<bool> under_pressure_ = false;
  Clock::time_point looked_;
  mutable std::mutex running_mutex_;  // locked inside mutex_; for has_too_much(), which must not wait for a look
  std::map<std::string, std::list<const Ticket*>> running_;  // counted_, by address
};

}  // namespace echotrain::server
