// Who may reconstruct where: GPUs and the CPU, lent to scans.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "config/server_options.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain::server {

/// A GPU, several that work together, or the CPU.
struct Place {
  numerics::Backend backend = numerics::Backend::cpu;
  int device = 0;             ///< of a GPU
  std::int64_t capacity = 0;  ///< scans at a time
  std::int64_t scans = 0;     ///< lent now
  std::vector<int> others;    ///< GPUs that work with this one
};

/// Lends places to scans, the least loaded one first. A scan that finds none free waits in line, first come first
/// served for each backend. Thread-safe. Tickets keep the pool alive.
class ComputePool : public std::enable_shared_from_this<ComputePool> {
 public:
  /// At most `most_waiting` tickets wait at a time.
  ComputePool(std::vector<Place> places, std::int64_t most_waiting);

  /// A scan's turn: waiting, then holding a place until it is destroyed.
  class Ticket {
   public:
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    bool granted() const;
    /// Tickets before this one; 0 when it has been granted.
    std::int64_t position() const;
    /// Valid once granted.
    numerics::Backend backend() const { return backend_; }
    int device() const { return device_; }
    const std::vector<int>& others() const { return others_; }

   private:
    friend class ComputePool;
    Ticket(std::shared_ptr<ComputePool> pool, numerics::Backend backend, std::optional<int> wanted,
           std::function<void()> wake)
        : pool_(std::move(pool)), backend_(backend), wanted_(wanted), wake_(std::move(wake)) {}
    bool suits(const Place& place) const { return place.backend == backend_ && (!wanted_ || *wanted_ == place.device); }
    const std::shared_ptr<ComputePool> pool_;
    const numerics::Backend backend_;
    const std::optional<int> wanted_;  // the device; none: any
    const std::function<void()> wake_;
    int device_ = 0;
    std::vector<int> others_;
    bool granted_ = false;  // guarded by the pool, as are device_ and others_ until then
  };

  /// A ticket, or null when the line is full. `wake` is called, on any thread, when a ticket that had to wait is
  /// granted.
  std::unique_ptr<Ticket> ask(numerics::Backend backend, std::function<void()> wake);
  /// For a scan that gave its place back and has its state on `device`: a ticket for a place there. Never null: the
  /// line takes it even when it is full.
  std::unique_ptr<Ticket> ask_again(numerics::Backend backend, int device, std::function<void()> wake);

  std::vector<Place> places() const;
  std::int64_t waiting() const;

 private:
  bool try_grant(Ticket& ticket);
  void grant(Ticket& ticket, Place& place);
  void give_back(Ticket& ticket);

  mutable std::mutex mutex_;
  std::vector<Place> places_;
  std::list<Ticket*> line_;
  const std::int64_t most_waiting_;
};

/// The places that the options name on this machine. std::invalid_argument for devices that are not there.
std::shared_ptr<ComputePool> make_compute_pool(const config::ServerOptions& options);

}  // namespace echotrain::server
