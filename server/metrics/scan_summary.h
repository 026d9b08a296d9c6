// The summary of a scan is the one line that the log has of it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "server/metrics/latency.h"
#include "server/metrics/scan_counts.h"

namespace echotrain::server {

/// The counts and times of one session.
struct ScanSummary {
  std::string peer;      ///< address:port
  std::string client;    ///< by its token, certificate or group; empty where only its address is known
  std::string pipeline;  ///< empty when no scan was started
  std::string backend;
  std::string outcome;  ///< "complete", "incomplete", "peer gone", or the code of the fatal error
  std::string trace;    ///< the scan's trace ID; empty when no scan was started
  std::string capture;  ///< name of the file with the raw data; empty when none is kept
  ScanCounts scan;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_spilled = 0;  ///< of them, what went to the capture first because the pipeline was behind
  std::uint64_t images = 0;
  std::uint64_t bytes_out = 0;
  std::vector<ImageLatency> latencies;  ///< one per image that was made from readouts and sent
  double duration_s = 0;

  std::string text() const;
  /// Returns the same as an object of named numbers and texts; times in the unit of their name.
  nlohmann::ordered_json facts() const;
};

}  // namespace echotrain::server
