// How long after their last readout the images of a scan came, as `echotrain send --latency` prints it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace echotrain::client {

/// The value that a fraction `q` of the sorted values do not exceed (nearest rank). `sorted` must not be empty.
double quantile(const std::vector<double>& sorted, double q);

/// Bars over steps of 1, 2, 5, 10, ..., from the step that holds the smallest value to that of the largest one; a value
/// at the border of two steps is in the upper one. Values are positive [ms]; what is below 0.001 counts as that.
std::string histogram(const std::vector<double>& values_ms);

class LatencyReport {
 public:
  using Meta = std::vector<std::pair<std::string, std::string>>;

  /// One image: how long after its last readout was sent it came, and its meta attributes, where an Echotrain server
  /// says what it needed itself (docs/protocol.md, "Latency"). Without a latency it was not made from what was sent,
  /// and its attributes tell of another scan: it is left out.
  void add(std::optional<double> latency_ms, const Meta& meta);

  /// The histogram, its quantiles, and a line for each part the server told of. Ends with a newline.
  std::string text() const;

 private:
  static constexpr std::size_t kParts = 5;
  std::vector<double> latencies_ms_;
  std::array<std::vector<double>, kParts> parts_ms_;
};

}  // namespace echotrain::client
