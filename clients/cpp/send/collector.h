// A collector takes everything that a server sends for a scan.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clients/cpp/base/json_output.h"
#include "clients/cpp/base/pending_dataset.h"
#include "clients/cpp/base/progress.h"
#include "clients/cpp/connection/exchange.h"
#include "clients/cpp/images/image_report.h"
#include "clients/cpp/send/latency_report.h"

namespace echotrain::client {

/// The places that images go to.
struct CollectorOptions {
  std::filesystem::path output;    ///< empty: nowhere
  std::filesystem::path png;       ///< empty: no pictures
  std::vector<StoredArray> truth;  ///< empty: no comparison
};

/// Writes images to the file first, then to the report; texts go to `err`.
class Collector {
 public:
  Collector(CollectorOptions options, std::ostream& err);

  /// Opens the output, unless it is open. An older file of its name stays until the first image.
  void open(const std::string& header_xml);
  void take(const ReceivedImage& received);
  void take(const protocol::Text& text);
  /// Call it once, after the last image. A scan that did not end well and has no image leaves an older output.
  void finish(bool well);
  const ImageReport& report() const { return report_; }

  /// Adds to a document what the summary says.
  void summarize(Json& document) const;
  /// Returns the lines of a summary about images.
  std::string summary() const;

  std::size_t images = 0;
  std::vector<double> latencies;  // [s]
  LatencyReport latency;
  std::string backend, server_error, report_failure;

 private:
  std::filesystem::path output_;
  std::ostream& err_;
  ImageReport report_;
  std::unique_ptr<PendingDataset> file_;
  std::chrono::steady_clock::time_point flushed_ = std::chrono::steady_clock::now();
};

/// The text of a server without its line end, and with nothing in it that a terminal would take for more.
std::string line_of(const protocol::Text& text);

/// The amount that has been sent, over all connections of a scan.
struct Sent {
  std::size_t readouts = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;

  void add(const Exchange& over);
  std::string summary() const;
};

}  // namespace echotrain::client
