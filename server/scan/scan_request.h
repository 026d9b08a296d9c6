// A scan request is a scan that a session has agreed to run.
#pragma once

#include <memory>
#include <string>

#include "gadgets/engine/pipeline.h"
#include "server/base/scan_header.h"
#include "server/metrics/scan_observer.h"

namespace echotrain::server {

/// A pipeline and the measurement that it is to reconstruct.
struct ScanRequest {
  std::shared_ptr<const PipelinePlan> plan;
  std::shared_ptr<const ScanHeader> header;
  std::string set_by_host;  ///< "strength=2, search=3": parameters for the images' meta attributes; may be empty
  std::string host_json;    ///< for steps that take what the host has sent; empty: nothing was sent
  std::string occasion{};   ///< a name that no other scan has (SessionCapture::name())
  std::string owner{};      ///< the client's identity: only its later scans find what this one leaves
  std::string client{};     ///< the client in whose part of bounded things it counts (Identity::part)
  bool trusted = false;     ///< PipelineCatalogue::trusts() the plan
  bool drops = true;        ///< `when_behind: drop_oldest` holds; not for data that come faster than they were acquired
  std::shared_ptr<ScanObserver> observer{};  ///< null: it is not observed
};

}  // namespace echotrain::server
