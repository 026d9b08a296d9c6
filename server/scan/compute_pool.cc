#include "server/scan/compute_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/team/communicator.h"

namespace echotrain::server {

ComputePool::ComputePool(std::vector<Place> places, std::int64_t most_waiting)
    : places_(std::move(places)), most_waiting_(most_waiting) {}

std::unique_ptr<ComputePool::Ticket> ComputePool::ask(numerics::Backend backend, std::function<void()> wake,
                                                      std::string address) {
  std::unique_ptr<Ticket> ticket(
      new Ticket(shared_from_this(), backend, std::move(address), std::nullopt, std::move(wake)));
  bool refused = false;
  {
    const std::scoped_lock lock(mutex_);
    if (!try_grant(*ticket)) {
      refused = static_cast<std::int64_t>(line_.size()) >= most_waiting_;
      if (!refused) line_.push_back(ticket.get());
    }
  }
  if (refused) ticket.reset();
  return ticket;
}

std::unique_ptr<ComputePool::Ticket> ComputePool::ask_again(numerics::Backend backend, int device,
                                                            std::function<void()> wake, std::string address) {
  std::unique_ptr<Ticket> ticket(new Ticket(shared_from_this(), backend, std::move(address), device, std::move(wake)));
  const std::scoped_lock lock(mutex_);
  if (!try_grant(*ticket)) line_.push_back(ticket.get());
  return ticket;
}

// With the lock held, as the three below. How many places the ticket's address has.
std::int64_t ComputePool::held(const Ticket& ticket) const {
  const auto found = held_.find({ticket.backend_, ticket.address_});
  return found == held_.end() ? 0 : found->second;
}

// How many one address may have.
std::int64_t ComputePool::most(numerics::Backend backend) const {
  constexpr std::int64_t kEnough = 1 << 30;
  std::int64_t all = 0;
  for (const Place& place : places_)
    if (place.backend == backend) all = std::min(kEnough, all + std::min(kEnough, place.capacity));
  return all - all / 4;
}

// This overtakes nobody: while somebody waits for a place, it is not free, or one of the address may not have it.
bool ComputePool::try_grant(Ticket& ticket) {
  if (held(ticket) >= most(ticket.backend_)) return false;
  Place* best = nullptr;
  for (Place& place : places_) {
    if (!ticket.suits(place) || place.scans >= place.capacity) continue;
    if (best == nullptr || place.scans < best->scans) best = &place;
  }
  if (best == nullptr) return false;
  ++best->scans;
  if (!ticket.address_.empty()) ++held_[{ticket.backend_, ticket.address_}];
  ticket.device_ = best->device;
  ticket.others_ = best->others;
  ticket.granted_ = true;
  return true;
}

// Grants what can be granted; whom to wake once the lock is released, when a ticket may be gone.
std::vector<std::function<void()>> ComputePool::look_again() {
  std::vector<std::function<void()>> wakes;
  std::vector<Ticket*> waiting(line_.begin(), line_.end());
  while (!waiting.empty()) {
    const auto next = std::min_element(waiting.begin(), waiting.end(),
                                       [this](const Ticket* a, const Ticket* b) { return held(*a) < held(*b); });
    if (try_grant(**next)) {
      line_.remove(*next);
      wakes.push_back((*next)->wake_);
    }
    waiting.erase(next);
  }
  return wakes;
}

void ComputePool::give_back(Ticket& ticket) {
  std::vector<std::function<void()>> wakes;
  {
    const std::scoped_lock lock(mutex_);
    if (!ticket.granted_) {
      line_.remove(&ticket);
      return;
    }
    const auto place = std::find_if(places_.begin(), places_.end(), [&](const Place& each) {
      return each.backend == ticket.backend_ && each.device == ticket.device_;
    });
    --place->scans;
    if (const auto its = held_.find({ticket.backend_, ticket.address_}); its != held_.end() && --its->second == 0)
      held_.erase(its);
    wakes = look_again();
  }
  for (const auto& wake : wakes) wake();
}

ComputePool::Ticket::~Ticket() { pool_->give_back(*this); }

bool ComputePool::Ticket::granted() const {
  const std::scoped_lock lock(pool_->mutex_);
  return granted_;
}

std::int64_t ComputePool::Ticket::position() const {
  const std::scoped_lock lock(pool_->mutex_);
  std::int64_t before = 0;
  for (const Ticket* each : pool_->line_) {
    if (each == this) return before;
    before += each->backend_ == backend_ ? 1 : 0;
  }
  return 0;
}

std::vector<Place> ComputePool::places() const {
  const std::scoped_lock lock(mutex_);
  return places_;
}

std::int64_t ComputePool::waiting() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::int64_t>(line_.size());
}

namespace {

std::set<int> chosen_devices(const std::vector<std::string>& names, int count) {
  std::set<int> devices;
  for (const std::string& name : names) {
    int device = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), device);
    if (error != std::errc() || end != name.data() + name.size() || device < 0 || device >= count)
      throw std::invalid_argument(fmt::format(
          "devices: '{}' is not a GPU that can be used here; {}", name,
          count > 0 ? fmt::format("there are {}, numbered from 0", count) : "this machine or program has none"));
    devices.insert(device);
  }
  if (names.empty())
    for (int device = 0; device < count; ++device) devices.insert(device);
  return devices;
}

void check_together(std::int64_t devices_per_scan, std::int64_t devices) {
  if (devices_per_scan == 1 || devices == 0) return;
  if (devices % devices_per_scan != 0)
    throw std::invalid_argument(
        fmt::format("devices_per_scan: {} GPUs cannot be divided into groups of {}; name a "
                    "multiple of that in 'devices'",
                    devices, devices_per_scan));
  std::string reason;
  if (!numerics::can_connect_devices(&reason))
    throw std::invalid_argument(
        fmt::format("devices_per_scan: {} GPUs cannot work together: {}", devices_per_scan, reason));
}

}  // namespace

std::shared_ptr<ComputePool> make_compute_pool(const config::ServerOptions& options) {
  std::vector<Place> places{{numerics::Backend::cpu, 0,
                             options.cpu_scans > 0 ? options.cpu_scans : std::numeric_limits<std::int64_t>::max(), 0}};
  const std::set<int> devices = chosen_devices(options.devices, numerics::device_count());
  if (options.backend != config::BackendChoice::cpu)
    check_together(options.devices_per_scan, static_cast<std::int64_t>(devices.size()));
  std::int64_t taken = 0;
  for (const int device : devices) {
    if (taken++ % options.devices_per_scan == 0)
      places.push_back({numerics::Backend::cuda, device, options.device_scans, 0, {}});
    else
      places.back().others.push_back(device);
  }
  return std::make_shared<ComputePool>(std::move(places), options.max_waiting);
}

}  // namespace echotrain::server
