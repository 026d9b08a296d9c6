#include "server/scan/compute_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/device_memory.h"
#include "gadgets/numerics/core/team/communicator.h"

namespace echotrain::server {

ComputePool::ComputePool(std::vector<Place> places, std::int64_t most_waiting, MemoryLeft memory_left)
    : places_(std::move(places)),
      most_waiting_(most_waiting),
      memory_left_(std::move(memory_left)),
      quiet_since_(Clock::now()) {
  if (std::any_of(places_.begin(), places_.end(), [](const Place& place) { return place.most > 0; }))
    looking_ = std::jthread([this](const std::stop_token& stop) { keep_looking(stop); });
}

void ComputePool::keep_looking(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kLook{20};
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    waits_.wait(lock, stop, [this] { return !line_.empty(); });
    waits_.wait_for(lock, stop, kLook, [] { return false; });
    const auto wakes = grant_all();
    lock.unlock();
    for (const auto& wake : wakes) wake();
    lock.lock();
  }
}

std::unique_ptr<ComputePool::Ticket> ComputePool::ask(numerics::Backend backend, std::function<void()> wake,
                                                      std::string address, std::uint64_t bytes) {
  std::unique_ptr<Ticket> ticket(
      new Ticket(shared_from_this(), backend, std::move(address), bytes, std::nullopt, std::move(wake)));
  bool refused = false;
  std::vector<std::function<void()>> wakes;
  {
    const std::scoped_lock lock(mutex_);
    wakes = grant_all();  // where a load has fallen, who waits goes first
    if (!try_grant(*ticket)) {
      refused = line_is_full(*ticket);
      if (!refused) stand_in_line(*ticket);
    }
  }
  for (const auto& each : wakes) each();
  if (refused) ticket.reset();
  return ticket;
}

std::unique_ptr<ComputePool::Ticket> ComputePool::ask_again(numerics::Backend backend, int device,
                                                            std::function<void()> wake, std::string address,
                                                            std::shared_ptr<ScanLoad> load) {
  // It has its memory already.
  std::unique_ptr<Ticket> ticket(
      new Ticket(shared_from_this(), backend, std::move(address), 0, device, std::move(wake)));
  ticket->load_ = std::move(load);
  const std::scoped_lock lock(mutex_);
  if (!try_grant(*ticket)) stand_in_line(*ticket);
  return ticket;
}

// Requires mutex_; so do the functions below. One address leaves a quarter of the line to others, as it does of the
// places.
bool ComputePool::line_is_full(const Ticket& ticket) const {
  const auto waiting = static_cast<std::int64_t>(line_.size());
  if (ticket.address_.empty() || waiting >= most_waiting_) return waiting >= most_waiting_;
  const auto its =
      std::count_if(line_.begin(), line_.end(), [&](const Ticket* each) { return each->address_ == ticket.address_; });
  return its >= most_waiting_ - most_waiting_ / 4;
}

// Returns how many places an address has.
std::int64_t ComputePool::held(numerics::Backend backend, const std::string& address) const {
  const auto found = held_.find({backend, address});
  return found == held_.end() ? 0 : found->second;
}

ComputePool::Share ComputePool::share(numerics::Backend backend) const {
  constexpr std::int64_t kEnough = 1 << 30;
  std::int64_t all = 0, bound = 0;
  for (const Place& place : places_)
    if (place.backend == backend) {
      all = std::min(kEnough, all + std::min(kEnough, place.capacity));
      bound += place.most;
    }
  return {all - all / 4, all, bound - bound / 4, bound};
}

double ComputePool::load(const Place& place) const {
  const auto now = Clock::now();
  double sum = 0;
  for (const Ticket* each : loads_)
    if (each->backend_ == place.backend && each->device_ == place.device) sum += each->load_->share(now);
  return sum;
}

double ComputePool::load(numerics::Backend backend, const std::string& address) const {
  const auto now = Clock::now();
  double sum = 0;
  for (const Ticket* each : loads_)
    if (each->backend_ == backend && each->address_ == address) sum += each->load_->share(now);
  return sum;
}

// Its scans leave a quarter to others: of the places, or of what they compute and of the places' bound.
bool ComputePool::address_may(numerics::Backend backend, const std::string& address) const {
  const Share all = share(backend);
  const std::int64_t has = held(backend, address);
  if (has < all.most) return true;
  return address.empty() ||
         (has < all.most_ever && load(backend, address) + ScanLoad::kNew <= static_cast<double>(all.most));
}

// Scans may compute more than they did when they got their places. Those of one address still leave a quarter.
bool ComputePool::is_left_to_others(const Ticket& ticket) const {
  std::int64_t scans = 0, fullest = 0;
  for (const Place& place : places_)
    if (place.backend == ticket.backend_) scans += place.scans;
  for (const auto& [of, count] : held_)
    if (of.first == ticket.backend_ && of.second != ticket.address_) fullest = std::max(fullest, count);
  const Share all = share(ticket.backend_);
  return scans - fullest < all.all - all.most;
}

bool ComputePool::takes_one_more(const Place& place, const Ticket& ticket) const {
  if (place.scans < place.capacity) return true;
  if (place.scans >= place.most) return false;
  const bool has_room = load(place) + ScanLoad::kNew <= static_cast<double>(place.capacity);
  if (!has_room && !is_left_to_others(ticket)) return false;
  if (!memory_left_) return true;
  // Who has just begun has not taken yet what it will take.
  constexpr std::chrono::seconds kYoung{1};
  const auto now = Clock::now();
  std::uint64_t wanted = ticket.bytes_;
  for (const Ticket* each : loads_)
    if (each->device_ == place.device && now - each->load_->born() < kYoung) wanted += each->bytes_;
  return wanted <= memory_left_(place.device) && std::all_of(place.others.begin(), place.others.end(),
                                                             [&](int other) { return wanted <= memory_left_(other); });
}

// The place that it would have; null: it has to wait.
Place* ComputePool::place_for(const Ticket& ticket) {
  Place* best = nullptr;
  for (Place& place : places_) {
    if (!ticket.suits(place) || (best != nullptr && place.scans >= best->scans)) continue;
    if (takes_one_more(place, ticket)) best = &place;
  }
  return best != nullptr && address_may(ticket.backend_, ticket.address_) ? best : nullptr;
}

// This overtakes no ticket: while one waits for a place, the place is not free, or its address may not have it.
bool ComputePool::try_grant(Ticket& ticket) {
  Place* const place = place_for(ticket);
  if (place == nullptr) return false;
  ticket.others_ = place->others;
  std::int64_t* const its = ticket.address_.empty() ? nullptr : &held_[{ticket.backend_, ticket.address_}];
  if (place->most > 0) {
    if (!ticket.load_) ticket.load_ = std::make_shared<ScanLoad>(Clock::now());
    loads_.push_back(&ticket);
  }
  if (its != nullptr) ++*its;  // what may run out of memory is done
  ++place->scans;
  if (++lent_ == 1) {
    next_scan_.request_stop();
    quiet_.notify_all();
  }
  ticket.device_ = place->device;
  ticket.granted_ = true;
  return true;
}

// Grants what can be granted; whom to wake once the lock is released, when a ticket may be gone. Who cannot be granted
// for want of memory stays in line.
std::vector<std::function<void()>> ComputePool::grant_all() {
  std::vector<std::function<void()>> wakes;
  try {
    for (;;) {
      auto next = line_.end();
      for (auto each = line_.begin(); each != line_.end(); ++each)
        if (place_for(**each) != nullptr && (next == line_.end() || held(**each) < held(**next))) next = each;
      if (next == line_.end()) break;
      std::function<void()> wake = (*next)->wake_;  // before it is granted: who is, is told
      wakes.reserve(wakes.size() + 1);
      if (!try_grant(**next)) break;
      wakes.push_back(std::move(wake));
      line_.erase(next);
    }
  } catch (const std::bad_alloc&) {
  }
  return wakes;
}

void ComputePool::stand_in_line(Ticket& ticket) {
  line_.push_back(&ticket);
  waits_.notify_all();
}

void ComputePool::give_back(Ticket& ticket) {
  std::vector<std::function<void()>> wakes;
  {
    const std::scoped_lock lock(mutex_);
    loads_.remove(&ticket);
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
    wakes = grant_all();
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
  const auto [most, all, most_ever, ever] = share(backend);
  if (address_may(backend, address) || most == all) return {};
  if (ever > 0 && held(backend, address) >= most_ever)
    return fmt::format(
        "{} has {} places on the {}, of which there are at most {}, the most for one address; who runs the server can "
        "exempt the address (per_address_exempt)",
        address, held(backend, address), numerics::to_string(backend), ever);
  if (ever > 0)
    return fmt::format(
        "{} has {} places on the {}, whose scans compute as much as {} of {} that do so all the time, the most for one "
        "address; who runs the server can exempt the address (per_address_exempt)",
        address, held(backend, address), numerics::to_string(backend), most, all);
  return fmt::format(
      "{} has {} of the {} places on the {}, the most for one address; who runs the server can exempt the address "
      "(per_address_exempt)",
      address, most, all, numerics::to_string(backend));
}

std::vector<Place> ComputePool::places() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Place> places = places_;
  for (Place& place : places) {
    if (place.most == 0) continue;
    place.load = load(place);
    const double room = std::max(0.0, static_cast<double>(place.capacity) - place.load) / ScanLoad::kNew;
    place.capacity = std::clamp(place.scans + static_cast<std::int64_t>(room), place.capacity, place.most);
  }
  return places;
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

// What all programs leave, and what this one keeps for arrays to come; an eighth stays free for what is no array: plans
// of cuFFT, the driver.
std::uint64_t memory_left(int device) {
  for (const numerics::DeviceMemory& each : numerics::device_memory()) {
    if (each.device != device) continue;
    const std::uint64_t spare = each.pool_reserved - std::min(each.pool_reserved, each.pool_used);
    const std::uint64_t left = each.total - std::min(each.total, each.used) + spare;
    return left - std::min(left, each.total / 8);
  }
  return std::numeric_limits<std::uint64_t>::max();  // no scan has used it yet
}

}  // namespace

std::shared_ptr<ComputePool> make_compute_pool(const config::ServerOptions& options) {
  std::vector<Place> places{{numerics::Backend::cpu, 0,
                             options.cpu_scans > 0 ? options.cpu_scans : std::numeric_limits<std::int64_t>::max(), 0}};
  const std::set<int> devices = chosen_devices(options.devices, numerics::device_count());
  if (options.backend != config::BackendChoice::cpu)
    check_together(options.devices_per_scan, static_cast<std::int64_t>(devices.size()));
  // With device_scans: 0, as the option's text says.
  constexpr std::int64_t kAlways = 8, kMost = 64;
  const bool fixed = options.device_scans > 0;
  std::int64_t taken = 0;
  for (const int device : devices) {
    if (taken++ % options.devices_per_scan == 0)
      places.push_back({numerics::Backend::cuda,
                        device,
                        fixed ? options.device_scans : kAlways,
                        0,
                        {},
                        fixed ? std::int64_t{0} : kMost});
    else
      places.back().others.push_back(device);
  }
  return std::make_shared<ComputePool>(std::move(places), options.max_waiting, memory_left);
}

}  // namespace echotrain::server
