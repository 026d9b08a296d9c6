// A live scan is what the live page shows of one session.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/pipeline_spec.h"
#include "protocol/data/result.h"
#include "protocol/dicom/study.h"
#include "server/base/scan_header.h"
#include "server/console/live/kspace_picture.h"
#include "server/console/live/recent_images.h"
#include "server/console/live/recent_latency.h"
#include "server/console/live/scan_diagnosis.h"
#include "server/metrics/scan_observer.h"
#include "server/metrics/session_status.h"

namespace echotrain::server {

/// The facts of a scan for DICOM files; without fields of the patient unless they are shown.
struct ScanOrigin {
  protocol::dicom::Study study;
  std::string key;  ///< of the reconstruction: another session's is another
};

/// Keeps one session and its scan for the live page. Thread-safe; no call waits for a viewer.
class LiveScan final : public ScanObserver {
 public:
  /// `images` may be null: none are kept. `subject`: show the patient's name where the header has one. `delays`
  /// outlives this.
  LiveScan(std::shared_ptr<const SessionStatus> status, std::shared_ptr<RecentImages> images, RecentLatency& delays,
           bool subject, std::shared_ptr<ScanDiagnosis> why = nullptr);

  std::uint64_t id() const { return status_->id; }
  const std::string& client() const { return client_; }
  /// Returns the part for the view "Diagnose"; null while no viewer asks.
  const std::shared_ptr<ScanDiagnosis>& diagnosis() const { return diagnosis_; }

  /// A scan begins. A session that begins another one shows that one.
  void begin(std::string_view pipeline, const ScanHeader& header, config::TrajectoryUnit unit,
             std::string_view occasion) override;
  void watch(Pipeline& pipeline, numerics::Context& compute) override;
  void readouts(const std::vector<protocol::Acquisition>& batch) override;
  void image(const protocol::Image& image) override;
  void sent(const ImageLatency& latency) override;
  /// The first one is kept.
  void error(const protocol::Error& error) override;
  /// The first kMostWarnings are kept.
  static constexpr std::size_t kMostWarnings = 20;
  void warning(std::string_view text) override;

  /// True if the session is worth showing once it has ended: it had a scan, or a reason why there was none.
  bool worth_telling() const;
  bool begun() const;                                ///< a scan has begun
  std::shared_ptr<const ScanOrigin> origin() const;  ///< null before that
  /// An object; `pictures`: with the k-space picture and the newest readout's path.
  nlohmann::ordered_json json(bool pictures) const;

 private:
  const std::shared_ptr<const SessionStatus> status_;
  const std::string client_;  // its address, as it is counted
  const std::shared_ptr<RecentImages> images_;
  RecentLatency& delays_;
  const bool subject_;
  const std::shared_ptr<ScanDiagnosis> diagnosis_;
  const std::chrono::system_clock::time_point began_ = std::chrono::system_clock::now();

  mutable std::mutex mutex_;
  bool begun_ = false;
  std::string pipeline_, trajectory_, protocol_name_, patient_name_;
  std::shared_ptr<const ScanOrigin> origin_;
  std::optional<KspacePicture> picture_;
  std::uint64_t announced_ = 0, lines_ = 0, images_made_ = 0;
  std::uint64_t warnings_said_ = 0;
  std::vector<std::string> warnings_;
  std::optional<protocol::Error> error_;
};

}  // namespace echotrain::server
