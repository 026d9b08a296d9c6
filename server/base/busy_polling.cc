#include "server/base/busy_polling.h"

#include <sched.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace echotrain::server {

namespace {

/// A quarter of the cores, and one at least, for the CPU's pool and for whatever else runs here.
int left_to_others(int cores) { return std::max(1, cores / 4); }

}  // namespace

DedicatedCores::DedicatedCores(int most) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (::sched_getaffinity(0, sizeof mine, &mine) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &mine)) all_.push_back(core);
  const int usable = std::min(most, all());
  lendable_ = std::max(0, usable - left_to_others(usable));
  // The first cores have most of the machine's interrupts: they are lent last.
  free_.assign(all_.end() - lendable_, all_.end());
}

void DedicatedCores::bind(const std::vector<int>& cores) const {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  // The thread stays where the scheduler puts it if that is not permitted.
  static_cast<void>(::sched_setaffinity(0, sizeof set, &set));
}

void DedicatedCores::unpin() const {
  if (!all_.empty()) bind(all_);
}

std::unique_ptr<DedicatedCores::Lease> DedicatedCores::take() {
  int core = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) return nullptr;
    core = free_.back();
    free_.pop_back();
  }
  return std::make_unique<Lease>(*this, core);
}

DedicatedCores::Lease::Lease(DedicatedCores& cores, int core) : cores_(cores), core_(core) { cores_.bind({core_}); }

DedicatedCores::Lease::~Lease() {
  cores_.unpin();
  const std::scoped_lock lock(cores_.mutex_);
  cores_.free_.push_back(core_);
}

BusyPolling::BusyPolling(int cores) : cores_(cores) {
  if (cores_.lendable() > 0) return;
  throw std::invalid_argument("latency: threads that spin need cores of their own, but this process may use only " +
                              std::to_string(std::min(cores, cores_.all())) +
                              "; give it two or more (better four), or leave this option out");
}

void BusyPolling::Wait::rest(bool on) {
  if (std::exchange(rests_, on) == on) return;
  if (on)
    --busy_polling_.waiting_;
  else if (busy_polling_.waiting_++ == 0 && busy_polling_.begin_)
    busy_polling_.begin_();
}

}  // namespace echotrain::server
