// The one line that the log keeps of a scan.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "server/metrics/latency.h"

namespace echotrain::server {

/// Counts and times of one session.
struct ScanSummary {
  std::string peer;      ///< address:port
  std::string pipeline;  ///< empty when no scan was started
  std::string backend;
  std::string outcome;  ///< "complete", "incomplete", "peer gone", or the code of the fatal error
  std::string capture;  ///< name of the file with the raw data; empty when none is kept
  std::uint64_t readouts = 0, waveforms = 0, images_in = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_spilled = 0;  ///< of them, what went to the capture first because the pipeline was behind
  std::uint64_t images = 0;
  std::uint64_t bytes_out = 0;
  std::map<std::string, std::uint64_t> skipped;            ///< messages left out, by kind
  std::vector<ImageLatency> latencies;                     ///< one per image that was made from readouts and sent
  std::uint64_t plans_made = 0, plans_reused = 0;          ///< gridding plans made, and frames that found theirs
  std::uint64_t operators_made = 0, operators_reused = 0;  ///< the same for F^H F of least-squares pipelines
  std::uint64_t frames_in_parts = 0;                       ///< frames gridded while their readouts came
  double plan_ms = 0;                                      ///< making plans
  double duration_s = 0;
  std::uint64_t peak_bytes = 0;  ///< of arrays

  std::string text() const;
  /// The same as an object of named numbers and texts; times in the unit of their name.
  nlohmann::ordered_json facts() const;
};

}  // namespace echotrain::server
