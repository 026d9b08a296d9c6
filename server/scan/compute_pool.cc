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
    : places_(std::move(places)), most_waiting_(most_waiting), quiet_since_(Clock::now()) {}

std::unique_ptr<ComputePool::Ticket> ComputePool::ask(numerics::Backend backend, std::function<void()> wake,
                                                      std::string address) {
  std::unique_ptr<Ticket> ticket(
      new Ticket(shared_from_this(), backend, std::move(address), std::nullopt, std::move(wake)));
  bool refused = false;
  {
    const std::scoped_lock lock(mutex_);
    if (!try_grant(*ticket)) {
      refused = line_is_full(*ticket);
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

// With the lock held, as those below. One address leaves a quarter of the line to others, as it does of the places.
bool ComputePool::line_is_full(const Ticket& ticket) const {
  const auto waiting = static_cast<std::int64_t>(line_.size());
  if (ticket.address_.empty() || waiting >= most_waiting_) return waiting >= most_waiting_;
  const auto its =
      std::count_if(line_.begin(), line_.end(), [&](const Ticket* each) { return each->address_ == ticket.address_; });
  return its >= most_waiting_ - most_waiting_ / 4;
}

// How many places an address has.
std::int64_t ComputePool::held(numerics::Backend backend, const std::string& address) const {
  const auto found = held_.find({backend, address});
  return found == held_.end() ? 0 : found->second;
}

ComputePool::Share ComputePool::share(numerics::Backend backend) const {
  constexpr std::int64_t kEnough = 1 << 30;
  std::int64_t all = 0;
  for (const Place& place : places_)
    if (place.backend == backend) all = std::min(kEnough, all + std::min(kEnough, place.capacity));
  return {all - all / 4, all};
}

// The place that it would have; null: it has to wait.
Place* ComputePool::place_for(const Ticket& ticket) {
  Place* best = nullptr;
  for (Place& place : places_) {
    if (!ticket.suits(place) || place.scans >= place.capacity) continue;
    if (best == nullptr || place.scans < best->scans) best = &place;
  }
  return best != nullptr && held(ticket) < share(ticket.backend_).most ? best : nullptr;
}

// This overtakes nobody: while somebody waits for a place, it is not free, or one of the address may not have it.
bool ComputePool::try_grant(Ticket& ticket) {
  Place* const place = place_for(ticket);
  if (place == nullptr) return false;
  ticket.others_ = place->others;
  if (!ticket.address_.empty()) ++held_[{ticket.backend_, ticket.address_}];  // what may run out of memory is done
  ++place->scans;
  if (++lent_ == 1) {
    next_scan_.request_stop();
    quiet_.notify_all();
  }
  ticket.device_ = place->device;
  ticket.granted_ = true;
  return true;
}

// Grants what can be granted; whom to wake once the lock is released, when a ticket may be gone.
std::vector<std::function<void()>> ComputePool::look_again() {
  std::vector<std::function<void()>> wakes;
  for (;;) {
    auto next = line_.end();
    for (auto each = line_.begin(); each != line_.end(); ++each)
      if (place_for(**each) != nullptr && (next == line_.end() || held(**each) < held(**next))) next = each;
    if (next == line_.end() || !try_grant(**next)) return wakes;
    wakes.push_back((*next)->wake_);
    line_.erase(next);
  }
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
    if (--lent_ == 0) {
      quiet_since_ = Clock::now();
      next_scan_ = std::stop_source();
      quiet_.notify_all();
    }
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
  if (granted_) return 0;
  const std::int64_t mine = pool_->held(*this);
  std::int64_t before = 0;
  bool earlier = true;
  for (const Ticket* each : pool_->line_) {
    if (each == this)
      earlier = false;
    else if (each->backend_ == backend_)
      before += pool_->held(*each) < mine + (earlier ? 1 : 0) ? 1 : 0;
  }
  return before;
}

std::string ComputePool::bound(numerics::Backend backend, const std::string& address) const {
  const std::scoped_lock lock(mutex_);
  const auto [most, all] = share(backend);
  if (held(backend, address) < most || most == all) return {};
  return fmt::format(
      "{} has {} of the {} places on the {}, the most for one address; who runs the server can exempt the address "
      "(per_address_exempt)",
      address, most, all, numerics::to_string(backend));
}

std::vector<Place> ComputePool::places() const {
  const std::scoped_lock lock(mutex_);
  return places_;
}

std::int64_t ComputePool::waiting() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::int64_t>(line_.size());
}

std::optional<std::stop_source> ComputePool::wait_for_quiet(Clock::duration least, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (lent_ > 0)
      quiet_.wait(lock, stop, [this] { return lent_ == 0; });
    else if (const auto until = quiet_since_ + least; Clock::now() < until)
      quiet_.wait_until(lock, stop, until, [this] { return lent_ > 0; });
    else
      return next_scan_;
  }
  return std::nullopt;
}

void ComputePool::wait_for_use(const std::stop_source& quiet, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  quiet_.wait(lock, stop, [&] { return quiet.stop_requested(); });
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
