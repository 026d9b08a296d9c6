// The view "Diagnose" has an entry for each scan that runs, and for those that ran last.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "gadgets/numerics/core/memory_budget.h"
#include "server/console/live/scan_diagnosis.h"

namespace echotrain::server {

/// Keeps a ScanDiagnosis for each scan. Drops those of ended scans, the oldest first, when a scan needs the memory.
/// Thread-safe.
class ScanDiagnoses final : public numerics::Evictable {
 public:
  explicit ScanDiagnoses(std::shared_ptr<numerics::MemoryBudget> budget);
  ~ScanDiagnoses() override;

  std::shared_ptr<ScanDiagnosis> make(std::uint64_t session);
  /// Null: this one does not run, and its entry is gone.
  std::shared_ptr<ScanDiagnosis> find(std::uint64_t session) const;
  /// It is kept until forget().
  void ended(std::shared_ptr<ScanDiagnosis> scan);
  void forget(std::uint64_t session);

  std::optional<std::uint64_t> unused_since() const override;
  void evict(std::uint64_t wanted) override;

 private:
  struct Ended {
    std::shared_ptr<ScanDiagnosis> scan;
    std::uint64_t since;
  };
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<ScanDiagnosis>> running_;
  std::deque<Ended> ended_;  // the oldest first
};

}  // namespace echotrain::server
