#include "server/console/live/scan_diagnoses.h"

#include <algorithm>
#include <utility>

namespace echotrain::server {

ScanDiagnoses::ScanDiagnoses(std::shared_ptr<numerics::MemoryBudget> budget) : budget_(std::move(budget)) {
  budget_->add_evictable(*this);
}

ScanDiagnoses::~ScanDiagnoses() { budget_->remove_evictable(*this); }

std::shared_ptr<ScanDiagnosis> ScanDiagnoses::make(std::uint64_t session) {
  auto scan = std::make_shared<ScanDiagnosis>(session, budget_);
  const std::scoped_lock lock(mutex_);
  std::erase_if(running_, [](const auto& one) { return one.expired(); });
  running_.push_back(scan);
  return scan;
}

std::shared_ptr<ScanDiagnosis> ScanDiagnoses::find(std::uint64_t session) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& weak : running_)
    if (auto scan = weak.lock(); scan && scan->session() == session) return scan;
  for (const Ended& one : ended_)
    if (one.scan->session() == session) return one.scan;
  return nullptr;
}

void ScanDiagnoses::ended(std::shared_ptr<ScanDiagnosis> scan) {
  const std::scoped_lock lock(mutex_);
  ended_.push_back({std::move(scan), budget_->now()});
}

void ScanDiagnoses::forget(std::uint64_t session) {
  Ended out;  // ends after the lock
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(ended_, [&](const Ended& one) { return one.scan->session() == session; });
  if (found == ended_.end()) return;
  out = std::move(*found);
  ended_.erase(found);
}

std::optional<std::uint64_t> ScanDiagnoses::unused_since() const {
  const std::scoped_lock lock(mutex_);
  for (const Ended& one : ended_)
    if (one.scan->bytes() > 0) return one.since;
  return std::nullopt;
}

void ScanDiagnoses::evict(std::uint64_t wanted) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t freed = 0;
  for (const Ended& one : ended_) {
    if (freed >= std::max<std::uint64_t>(1, wanted)) return;
    freed += one.scan->forget();
  }
}

}  // namespace echotrain::server
