// Reservations admit scans by memory: a scan gets its estimate reserved, or waits in line.
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

/// Reserves memory for scans before their data are taken (admission). A scan whose reservation does not fit waits in
/// line, first come first served. An eighth of the budget is left to small scans (a quarter of that eighth each) of
/// addresses that have none: these overtake. One address may reserve at most half of the rest (fair share): its scans
/// that wait because of that hold up nobody else. While others wait, a scan that does nothing has to give back what it
/// has not used of its reservation; when it goes on, it stands before all who have had nothing, but not before those
/// who already waited for this when it gave it back. The last quarter of the line, rounded down, is for addresses that
/// have none in it. Thread-safe. Tickets keep it alive.
///
/// What a scan takes beyond its reservation is borrowed: from all but what is left of that eighth. Where an address
/// that has no more than its part, and with what it waits for no more than half of the rest, has waited for a while,
/// others give back what they borrow: the address that has most beyond its part loses the scan that borrows most, and
/// so on until what is waited for fits; nobody where that would not be enough. That part is an equal one of all
/// addresses that have memory or wait for it, or twice what the address has reserved, if that is more, and at most
/// half. Who uses no more than was reserved for it at first loses nothing.
///
/// Input that waits to be computed is borrowed, too, and nobody ends for it: who asks has_too_much() before it takes
/// more in leaves others something to borrow.
class MemoryAdmission : public std::enable_shared_from_this<MemoryAdmission> {
 public:
  /// At most `most_waiting` tickets wait at a time. Scans that borrow end when somebody has waited for `pause`. A scan
  /// that regains its memory waits for `patience`, and then goes on with what it has; what a scan has left behind is
  /// waited for as long.
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
    /// Says that its scan does nothing for the moment: while others wait, gives back what is reserved and not used.
    /// From then on it is not granted: ask again with regain(). False: it keeps all. For one strand.
    bool give_back_unused();
    /// Asks after that for all of it again: behind those who regain, and who waited and could reserve when it gave it
    /// back, and before all others. Granted in any case once it has waited for the patience: what it then takes beyond
    /// the part that it has kept is borrowed.
    void regain();
    /// True if its scan has to give back what it borrows. It stays so; the ticket is woken.
    bool is_to_end() const { return ends_; }
    /// True if its scan, which does nothing for the moment, has to end already while others wait: it borrows, and the
    /// scans of its address that need not end have more than one address may reserve.
    bool is_to_end_idle();
    /// True if its scan has to end as a scan of another address has waited for the pause. Asked for scans of which next
    /// to no data come.
    bool is_to_end_crawling();
    /// True if the scans of its address have, with their input, more than an equal part of what is lent, as if one
    /// more address were there. Never while all together have less than half of it. Takes no longer while others wait
    /// for memory.
    bool has_too_much() const;
    /// Says that its scan hangs: what it has does not come back, and nobody asks for it.
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
    std::uint64_t reserved_ = 0;     // of the wish
    std::int64_t scans_beside_ = 0;  // until granted, as well
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

  /// True if somebody waits because there is too little left: sessions that have borrowed and can do without give back.
  bool under_pressure() const;
  std::int64_t waiting() const;

 private:
  /// The memory and the scans of an address.
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
  std::uint64_t kept() const { return budget_->bounded() ? budget_->bound() / 8 : 0; }
  std::uint64_t share() const { return (budget_->bound() - kept()) / 2; }
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
  std::uint64_t small_ = 0;  // reserved for those who may take what is kept
  std::atomic<bool> under_pressure_ = false;
  Clock::time_point looked_;
  mutable std::mutex running_mutex_;  // within the other one; for those who must not wait until a look has made room
  std::map<std::string, std::list<const Ticket*>> running_;  // counted_, by address
};

}  // namespace echotrain::server
