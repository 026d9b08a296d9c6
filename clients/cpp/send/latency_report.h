// The latency report says how long after their last readouts the images of a scan came: `echotrain send --latency`.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace echotrain::client {

/// Returns the value that a fraction `q` of the sorted values do not exceed (nearest rank). `sorted` must not be empty.
double quantile(const std::vector<double>& sorted, double q);

/// Draws bars over steps of 1, 2, 5, 10, ..., from the step with the smallest value to the step with the largest; a
/// value at the border of two steps is in the upper one. Values are positive [ms]; a value below 0.001 counts as 0.001.
std::string histogram(const std::vector<double>& values_ms);

class LatencyReport {
 public:
  using Meta = std::vector<std::pair<std::string, std::string>>;

  /// Adds one image: the time from sending its last readout to its arrival, and its meta attributes, where an Echotrain
  /// server reports its own share (docs/protocol.md, "Latency"). An image without a latency was not made from the sent
  /// readouts and its attributes describe another scan: it is left out.
  void add(std::optional<double> latency_ms, const Meta& meta);

  /// Returns the histogram, its quantiles, and a line for each part that the server reported. Ends with a newline.
  std::string text() const;

 private:
  static constexpr std::size_t kParts = 5;
  std::vector<double> latencies_ms_;
  std::array<std::vector<double>, kParts> parts_ms_;
};

}  // namespace echotrain::client
