#include "server/scan/scan_admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace echotrain::server {

ScanAdmission::ScanAdmission(std::shared_ptr<MemoryAdmission> memory, std::shared_ptr<ComputePool> places,
                             std::int64_t max_waiting, Client client)
    : memory_admission_(std::move(memory)),
      places_(std::move(places)),
      max_waiting_(max_waiting),
      client_(std::move(client)) {}

ScanAdmission::Answer ScanAdmission::ask_for_memory(const Needs& needs) {
  needs_ = needs;
  memory_.reset();
  memory_ = memory_admission_->ask(
      {client_.queues->account(), needs.bytes, client_.address, client_.exempt, client_.queues->input()}, client_.wake);
  if (has_memory()) return {};
  place_.reset();  // who has the memory may wait for it
  if (memory_)
    return {.wait = fmt::format("waiting for memory, {} MiB; {} scans wait before this one",
                                (memory_->bytes() >> 20) + 1, memory_->position())};
  return {protocol::Error{
      "busy", fmt::format("the {} MiB that this scan needs are not free, and the line for memory "
                          "is full (max_waiting = {}{}); try again later",
                          (needs.bytes >> 20) + 1, max_waiting_,
                          client_.exempt ? "" : ", whose last quarter is for addresses that have none in it")}};
}

ScanAdmission::Answer ScanAdmission::ask_for_place() {
  if (place_ && place_->backend() == needs_.backend) return {};  // of the scan that this one replaces
  place_.reset();
  place_ = places_->ask(needs_.backend, client_.wake, counted_as(), needs_.device_bytes);
  if (has_place()) return {};
  if (place_) return {.wait = place_wait()};
  return {protocol::Error{"busy",
                          fmt::format("no place for a scan on the {} is free, and the line for one is "
                                      "full (max_waiting = {}); try again later{}",
                                      numerics::to_string(needs_.backend), max_waiting_, why_longer(needs_.backend))}};
}

std::uint64_t ScanAdmission::give_back_unused_memory() {
  const std::uint64_t before = client_.queues->account()->reserved();
  return memory_ && memory_->give_back_unused() ? before - client_.queues->account()->reserved() : 0;
}

ScanAdmission::Answer ScanAdmission::regain_memory() {
  memory_->regain();
  if (has_memory()) return {};
  return {.wait = fmt::format("waiting for memory, which others had during the pause; {} scans wait before this one",
                              memory_->position())};
}

ScanAdmission::Answer ScanAdmission::ask_again(const ScanPlace& before) {
  place_ = places_->ask_again(before.backend, before.device, client_.wake, counted_as(), before.load);
  if (has_place()) return {};
  return {.wait = place_wait()};
}

std::string ScanAdmission::place_wait() const {
  return fmt::format("waiting for a place on the {}; {} scans wait before this one{}",
                     numerics::to_string(place_->backend()), place_->position(), why_longer(place_->backend()));
}

// Says why the wait is longer than the number of free places lets expect: a place may be free, but not for one more
// scan of the address.
std::string ScanAdmission::why_longer(numerics::Backend backend) const {
  const std::string bound = client_.exempt ? "" : places_->bound(backend, client_.address);
  return bound.empty() ? "" : "; " + bound;
}

int ScanAdmission::yields_now(int cores) const {
  // A scan on a GPU does not yield: the threads that it starts work for all scans there.
  if (client_.exempt || place_->backend() == numerics::Backend::cuda) return 0;
  return yields(memory_->other_scans(), cores);
}

void ScanAdmission::give_back() {
  place_.reset();
  memory_.reset();
}

std::string ScanAdmission::why_it_ends() const {
  const std::uint64_t used = client_.queues->account()->used(), reserved = memory_ ? memory_->bytes() : 0;
  const auto mib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const std::string takes =
      fmt::format("this one takes {:.1f} MiB, {:.1f} more than ", mib(used), mib(used - std::min(used, reserved)));
  const bool cut_by_address = needs_.bytes > reserved;
  if (cut_by_address || needs_.estimate > reserved)  // its header may be true
    return takes + fmt::format(
                       "the {:.1f} that this server reserves for one {}, whatever the header says; send it "
                       "again when others need less, or let the server have more memory ({})",
                       mib(reserved), cut_by_address ? "address (7/16 of memory_mib)" : "session",
                       cut_by_address ? "memory_mib" : "session_memory_mib");
  return takes +
         "its header made the server reserve; send it again later, with its true sizes and number of channels in "
         "the header, or let the server have more memory (memory_mib)";
}

std::shared_ptr<void> ScanAdmission::hand_over() {
  if (memory_) memory_->is_stuck();
  return std::make_shared<std::pair<decltype(memory_), decltype(place_)>>(std::move(memory_), std::move(place_));
}

}  // namespace echotrain::server
