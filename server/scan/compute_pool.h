// The compute pool lends GPUs and the CPU to scans (admission by places).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "config/server_options.h"
#include "gadgets/numerics/core/context.h"
#include "server/base/clock.h"
#include "server/scan/scan_load.h"

namespace echotrain::server {

/// A place is a GPU, several that work together, or the CPU, with its number of scans.
struct Place {
  numerics::Backend backend = numerics::Backend::cpu;
  int device = 0;             ///< the GPU's number
  std::int64_t capacity = 0;  ///< scans at a time; where places follow the load, those in any case, and the most load
  std::int64_t scans = 0;     ///< lent now
  std::vector<int> others{};  ///< GPUs that work with this one
  std::int64_t most = 0;      ///< the most scans, where places follow the load; 0: `capacity` is fixed
  double load = 0;            ///< sum of its scans' loads (ScanLoad), where places follow the load
};

/// Lends places to scans, first where fewest scans are. A scan that finds none free waits in line. Of those that wait
/// for the same backend, the one whose address has fewest places goes first, then the earliest. The scans of one
/// address leave a quarter of a backend's places, and of the line, to others, rounded down: of 4 to 7 one, of fewer
/// none. Thread-safe. Tickets keep the pool alive.
///
/// Where places follow the load (option `device_scans: 0`), `capacity` scans get one in any case. A further scan gets
/// one if there are fewer than `most`, the loads of all scans there and ScanLoad::kNew for its own add up to at most
/// `capacity`, and the device has memory for it. The scans of one address are bounded likewise, by three quarters of
/// `capacity` and of `most`. Where they have come to compute more than that, the scans of all others still get a
/// quarter of `capacity`, if there is memory. While scans wait, a thread of the pool looks every 20 ms whether loads
/// have fallen.
class ComputePool : public std::enable_shared_from_this<ComputePool> {
 public:
  /// Bytes of a device's memory that are left for scans to come.
  using MemoryLeft = std::function<std::uint64_t(int device)>;

  /// At most `most_waiting` tickets wait at a time. Without `memory_left` there is always enough.
  ComputePool(std::vector<Place> places, std::int64_t most_waiting, MemoryLeft memory_left = {});

  /// A scan's turn: waiting, then holding a place until it is destroyed.
  class Ticket {
   public:
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    bool granted() const;
    /// Counts the tickets that now go before this one; 0 when it has been granted.
    std::int64_t position() const;
    /// Valid once granted.
    numerics::Backend backend() const { return backend_; }
    int device() const { return device_; }
    const std::vector<int>& others() const { return others_; }
    /// The scan's load, to be told when the scan computes; null where places do not follow loads.
    const std::shared_ptr<ScanLoad>& load() const { return load_; }

   private:
    friend class ComputePool;
    Ticket(std::shared_ptr<ComputePool> pool, numerics::Backend backend, std::string address, std::uint64_t bytes,
           std::optional<int> wanted, std::function<void()> wake)
        : pool_(std::move(pool)),
          backend_(backend),
          address_(std::move(address)),
          bytes_(bytes),
          wanted_(wanted),
          wake_(std::move(wake)) {}
    bool suits(const Place& place) const { return place.backend == backend_ && (!wanted_ || *wanted_ == place.device); }
    const std::shared_ptr<ComputePool> pool_;
    const numerics::Backend backend_;
    const std::string address_;        // empty: bounds of one address do not hold
    const std::uint64_t bytes_;        // of a device's memory that it will probably take
    const std::optional<int> wanted_;  // the device; none: any
    const std::function<void()> wake_;
    int device_ = 0;
    std::vector<int> others_;
    std::shared_ptr<ScanLoad> load_;
    bool granted_ = false;  // guarded by the pool, as are device_, others_ and load_ until then
  };

  /// Returns a ticket, or null when the line is full. `wake` is called, on any thread, when a ticket that had to wait
  /// is granted. `address`: of the client; empty: it has as many places as there are. `bytes`: what the scan will
  /// probably take of a device's memory.
  std::unique_ptr<Ticket> ask(numerics::Backend backend, std::function<void()> wake, std::string address = {},
                              std::uint64_t bytes = 0);
  /// Returns a ticket for a place on `device`, where a scan that gave its place back has its state. Never null: the
  /// line takes it even when it is full. `load`: that of its earlier ticket.
  std::unique_ptr<Ticket> ask_again(numerics::Backend backend, int device, std::function<void()> wake,
                                    std::string address = {}, std::shared_ptr<ScanLoad> load = nullptr);

  /// Returns a text for the client of an address that has all the places that it may have, naming the option. Empty
  /// where the address may have more, or all.
  std::string bound(numerics::Backend backend, const std::string& address) const;

  /// Returns the places. Where they follow the load, `capacity` is the number of scans that the present loads allow.
  std::vector<Place> places() const;
  std::int64_t waiting() const;

  /// Waits until no scan has had a place for the time `least`. Returns a source, whose stop is requested when the next
  /// scan gets a place; nothing if `stop` is requested first.
  std::optional<std::stop_source> wait_for_quiet(Clock::duration least, const std::stop_token& stop);

 private:
  struct Share {
    std::int64_t most, all;        // places of one address, and places
    std::int64_t most_ever, ever;  // the same for Place::most, where places follow the load; else 0
  };
  bool line_is_full(const Ticket& ticket) const;
  std::int64_t held(numerics::Backend backend, const std::string& address) const;
  std::int64_t held(const Ticket& ticket) const { return held(ticket.backend_, ticket.address_); }
  Share share(numerics::Backend backend) const;
  double load(const Place& place) const;
  double load(numerics::Backend backend, const std::string& address) const;
  bool address_may(numerics::Backend backend, const std::string& address) const;
  bool is_left_to_others(const Ticket& ticket) const;
  bool takes_one_more(const Place& place, const Ticket& ticket) const;
  Place* place_for(const Ticket& ticket);
  bool try_grant(Ticket& ticket);
  std::vector<std::function<void()>> grant_all();
  void stand_in_line(Ticket& ticket);
  void give_back(Ticket& ticket);
  void keep_looking(const std::stop_token& stop);

  mutable std::mutex mutex_;
  std::vector<Place> places_;
  std::map<std::pair<numerics::Backend, std::string>, std::int64_t> held_;  // by addresses
  std::list<Ticket*> line_;
  std::list<const Ticket*> loads_;  // that have a place where places follow the load
  const std::int64_t most_waiting_;
  const MemoryLeft memory_left_;
  std::int64_t lent_ = 0;              // places, in all
  Clock::time_point quiet_since_;      // while none is lent
  std::stop_source next_scan_;         // stopped while some are lent
  std::condition_variable_any quiet_;  // the first place was lent, or the last one given back
  std::condition_variable_any waits_;  // the line got longer
  std::jthread looking_;               // where places follow the load; last: all else exists before it starts
};

/// Makes the pool of the places that the options name on this machine. Throws std::invalid_argument for devices that
/// are not there.
std::shared_ptr<ComputePool> make_compute_pool(const config::ServerOptions& options);

}  // namespace echotrain::server
