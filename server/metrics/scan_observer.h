// A scan observer is told of scans while they run. The live page has one.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "config/pipeline_spec.h"
#include "protocol/data/messages.h"
#include "protocol/data/result.h"
#include "server/base/scan_header.h"
#include "server/metrics/latency.h"

namespace echotrain {
class Pipeline;
namespace numerics {
class Context;
}
}  // namespace echotrain

namespace echotrain::server {

class SessionStatus;
struct ScanSummary;

/// Is told of one session and its scan. Thread-safe; none of its calls waits.
class ScanObserver {
 public:
  virtual ~ScanObserver() = default;
  /// A scan begins, with an `occasion` that no other scan has. A session may begin another one.
  virtual void begin(std::string_view pipeline, const ScanHeader& header, config::TrajectoryUnit unit,
                     std::string_view occasion) = 0;
  /// Gives what runs the scan, on the scan's thread, before the pipeline starts. Both last until the scan has ended,
  /// and so must this.
  virtual void watch(Pipeline& pipeline, numerics::Context& compute) = 0;
  /// Gives readouts that have passed the check, before the pipeline gets them.
  virtual void readouts(const std::vector<protocol::Acquisition>& batch) = 0;
  virtual void image(const protocol::Image& image) = 0;
  virtual void sent(const ImageLatency& latency) = 0;
  virtual void error(const protocol::Error& error) = 0;
  virtual void warning(std::string_view text) = 0;
};

/// Is told of all sessions of a server. Thread-safe. Outlives what it gives.
class SessionObservers {
 public:
  virtual ~SessionObservers() = default;
  virtual std::shared_ptr<ScanObserver> observe(std::shared_ptr<const SessionStatus> session) = 0;
  /// A session has ended. `scan`: what observe() gave for it.
  virtual void observe_end(const ScanObserver& scan, const ScanSummary& summary) = 0;
};

}  // namespace echotrain::server
