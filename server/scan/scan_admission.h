// Scan admission lets a scan run when it has what it waits for: memory, and then a place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "protocol/data/result.h"
#include "server/base/queue_memory.h"
#include "server/memory/memory_admission.h"
#include "server/scan/compute_pool.h"
#include "server/scan/worker.h"

namespace echotrain::server {

/// Asks for memory, then for a place, and holds what was granted until it is given back or this is destroyed. Belongs
/// to one strand.
class ScanAdmission {
 public:
  /// The client whose scans these are.
  struct Client {
    std::string address;                  ///< as bounds of one address count it
    bool exempt = false;                  ///< these bounds do not hold for it
    std::shared_ptr<QueueMemory> queues;  ///< of its session, whose account pays for the scans
    std::function<void()> wake;  ///< called, on any thread, when something is granted that had to be waited for
  };
  struct Needs {
    numerics::Backend backend = numerics::Backend::cpu;
    std::uint64_t bytes = 0;         ///< of the machine's memory
    std::uint64_t device_bytes = 0;  ///< that it will probably take of a GPU
    std::uint64_t estimate = 0;      ///< of the header, before `bytes` was cut to what a session may have
  };
  /// The outcome of asking, as far as the client hears of it.
  struct Answer {
    std::optional<protocol::Error> refusal{};  ///< the line is full
    std::string wait{};                        ///< what is waited for; empty: nothing new
  };

  /// `max_waiting` is the bound of both lines, for texts that name it.
  ScanAdmission(std::shared_ptr<MemoryAdmission> memory, std::shared_ptr<ComputePool> places, std::int64_t max_waiting,
                Client client);

  /// Begins with a new scan: gives back the memory of the scan that it replaces, and asks for memory. The place of that
  /// scan is kept for ask_for_place(), unless the new one has to wait for memory.
  Answer ask_for_memory(const Needs& needs);
  /// Asks for a place; keeps one that it has on the same backend.
  Answer ask_for_place();
  /// While others wait for memory, gives back what is reserved for the scan and not used, and returns how much [bytes];
  /// has_memory() is then false. Returns 0 where it keeps all.
  std::uint64_t give_back_unused_memory();
  /// True if the scan has to end, as MemoryAdmission::Ticket::must_end() says or, for an idle scan, must_end_idle().
  bool must_end(bool idle) { return memory_ && (idle ? memory_->must_end_idle() : memory_->must_end()); }
  /// True if the scan has to end, as MemoryAdmission::Ticket::must_end_crawling() says.
  bool must_end_crawling() { return memory_ && memory_->must_end_crawling(); }
  bool has_too_much() const { return memory_ && memory_->has_too_much(); }
  /// Tells the client of a scan that is to end what the scan takes beyond its reservation, and what to do.
  std::string why_it_ends() const;
  /// Asks for the memory again after give_back_unused_memory(). Never refused.
  Answer regain_memory();
  /// Asks for a place on the same device again, after give_back_place(). Never refused.
  Answer ask_again(const ScanPlace& before);

  bool has_memory() const { return memory_ && memory_->granted(); }
  bool asked_for_place() const { return place_ != nullptr; }
  bool has_place() const { return place_ && place_->granted(); }
  /// Returns the client's address, by which bounds of one address count; empty where it is exempt from them.
  std::string counted_as() const { return client_.exempt ? "" : client_.address; }

  /// Precondition: has_place().
  const ComputePool::Ticket& place() const { return *place_; }
  /// Returns by how much the scan yields to those of other addresses (see yields()). Precondition: it has memory and a
  /// place.
  int yields_now(int cores) const;

  void give_back_place() { place_.reset(); }
  void give_back();
  /// Hands over the memory and the place of a scan that hangs: the returned object holds them.
  std::shared_ptr<void> hand_over();

 private:
  std::string place_wait() const;
  std::string why_longer(numerics::Backend backend) const;

  const std::shared_ptr<MemoryAdmission> memory_admission_;
  const std::shared_ptr<ComputePool> places_;
  const std::int64_t max_waiting_;
  const Client client_;
  Needs needs_;                                      // of the scan that was asked for
  std::unique_ptr<MemoryAdmission::Ticket> memory_;  // held while the worker lives, also while it pauses
  std::unique_ptr<ComputePool::Ticket> place_;       // asked for once there is memory; none while the worker pauses
};

}  // namespace echotrain::server
