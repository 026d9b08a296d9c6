#include "gadgets/plan_cache.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace echotrain {
namespace {

/// Positions are compared bit by bit: a digest alone could be met by another trajectory.
bool same(const SamplePositions& a, const SamplePositions& b) {
  return &a == &b ||
         (a.digest == b.digest && a.dims == b.dims && a.coordinates.size() == b.coordinates.size() &&
          std::memcmp(a.coordinates.data(), b.coordinates.data(), a.coordinates.size() * sizeof(double)) == 0);
}

std::shared_ptr<const numerics::NufftPlan> make(numerics::Context& context, const PlanCache::Request& request) {
  const SamplePositions& positions = *request.positions;
  std::vector<double> coordinates = positions.coordinates;
  for (std::size_t i = 0; i < coordinates.size(); ++i)
    coordinates[i] *= request.voxel_ratio[i % static_cast<std::size_t>(positions.dims)];
  return numerics::NufftPlan::make(context, {coordinates.data(), {positions.count(), positions.dims}}, request.image,
                                   request.options);
}

std::uint64_t bytes_from_environment() {
  constexpr std::uint64_t kDefaultMib = 2048;
  const char* text = std::getenv("ECHOTRAIN_PLAN_CACHE_MIB");
  if (text == nullptr || *text == '\0') return kDefaultMib << 20;
  char* end = nullptr;
  const unsigned long long mib = std::strtoull(text, &end, 10);
  return (*end == '\0' && mib <= 1ull << 30 ? mib : kDefaultMib) << 20;
}

}  // namespace

PlanCache& PlanCache::shared() {
  static PlanCache& cache = *new PlanCache(bytes_from_environment());  // lives until the process ends
  return cache;
}

PlanCache::Result PlanCache::get(numerics::Context& session, const Request& request) {
  if (auto plan = find(session, request)) return {plan, true, 0};
  const std::scoped_lock lock(making_);
  if (auto plan = find(session, request)) return {plan, true, 0};  // another session has just made it
  const auto begin = std::chrono::steady_clock::now();
  const auto took = [begin] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  while (most_bytes_ > 0) {
    try {
      auto plan = make(home(session), request);
      const double ms = took();
      const std::scoped_lock entries_lock(mutex_);
      entries_.push_front({session.backend(), session.device(), request, plan});
      return {std::move(plan), false, ms};
    } catch (const numerics::ResourceError&) {
      if (!drop_one()) break;
    }
  }
  auto plan = make(session, request);
  return {std::move(plan), false, took()};
}

std::shared_ptr<const numerics::NufftPlan> PlanCache::find(const numerics::Context& session, const Request& request) {
  const std::scoped_lock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const Request& other = entry->request;
    if (entry->backend != session.backend() || entry->device != session.device() ||
        !(other.options == request.options) || !(other.image == request.image) ||
        other.voxel_ratio != request.voxel_ratio || !same(*other.positions, *request.positions))
      continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->plan;
  }
  return nullptr;
}

bool PlanCache::drop_one() {
  const std::scoped_lock lock(mutex_);
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry)
    if (entry->plan.use_count() == 1) {
      entries_.erase(std::next(entry).base());
      return true;
    }
  return false;
}

numerics::Context& PlanCache::home(const numerics::Context& session) {
  auto& context = homes_[{session.backend(), session.device()}];
  if (!context)
    context = std::make_unique<numerics::Context>(
        session.backend(), numerics::ContextOptions{.device = session.device(), .memory_budget = most_bytes_});
  return *context;
}

std::uint64_t PlanCache::bytes() const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.plan->bytes();
  return sum;
}

std::size_t PlanCache::plans() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

}  // namespace echotrain
