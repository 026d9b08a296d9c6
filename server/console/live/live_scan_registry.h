// The registry of live scans holds the scans that run and those that ran last, for the live page.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <utility>
#include <vector>

#include "server/console/live/live_scan.h"
#include "server/console/live/scan_diagnoses.h"
#include "server/metrics/scan_observer.h"
#include "server/metrics/scan_summary.h"

namespace echotrain::server {

/// Makes and keeps the LiveScan of each session. Thread-safe. Outlives its scans.
class LiveScanRegistry final : public SessionObservers {
 public:
  static constexpr std::size_t kMostEnded = 50;
  static constexpr std::size_t kMostRefused = 20;  ///< sessions that never became a scan; they push no scans out

  /// `images_bytes` 0: no images are kept, and the page shows none.
  LiveScanRegistry(std::uint64_t images_bytes, bool subject, const std::shared_ptr<numerics::MemoryBudget>& budget);
  ~LiveScanRegistry() override;

  /// A session is in the registry as long as its LiveScan is held.
  std::shared_ptr<LiveScan> session(std::shared_ptr<const SessionStatus> status);
  /// A session has ended; kMostEnded scans are kept, and kMostRefused others. Beyond that, the client (by its address)
  /// that has most loses its oldest: one with no more than an equal part loses none to others.
  void ended(const LiveScan& scan, const ScanSummary& summary);
  std::shared_ptr<ScanObserver> observe(std::shared_ptr<const SessionStatus> status) override {
    return session(std::move(status));
  }
  void observe_end(const ScanObserver& scan, const ScanSummary& summary) override {
    ended(static_cast<const LiveScan&>(scan), summary);
  }

  /// {"scans": [...], "ended": [...], "delays": {...}, "images": {...}}: the newest ended one first.
  nlohmann::ordered_json json() const;
  /// The origin of a session that runs or is kept; null: it is not, or has no scan.
  std::shared_ptr<const ScanOrigin> origin(std::uint64_t session) const;
  const std::shared_ptr<RecentImages>& images() const { return images_; }  ///< null: none are kept
  const std::shared_ptr<ScanDiagnoses>& diagnoses() const { return diagnoses_; }

 private:
  const bool subject_;
  const std::shared_ptr<RecentImages> images_;
  const std::shared_ptr<ScanDiagnoses> diagnoses_;
  RecentLatency delays_;
  mutable std::mutex mutex_;
  mutable std::vector<std::weak_ptr<LiveScan>> scans_;
  struct Ended;
  std::deque<std::shared_ptr<const Ended>> ended_, refused_;  // the newest first
  std::uint64_t ends_ = 0;
};

}  // namespace echotrain::server
