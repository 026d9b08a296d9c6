// A paced scan measures how long after a readout its image comes, when readouts come at the pace of a scanner.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/bench/stream/stream_scans.h"

namespace echotrain::bench {

struct PacedTimes {
  std::vector<double> client_ms;  ///< last readout given to the socket -> last byte of its image read, per image
  std::vector<double> server_ms;  ///< last readout received -> image queued for sending, by the server's clock
  std::vector<double> queue_ms, compute_ms, copy_ms;  ///< parts of server_ms
  std::vector<double> send_ms;  ///< queued -> last byte given to the kernel, by the server's clock; one less
};

/// The times of all images but the first.
PacedTimes without_first(PacedTimes times);

/// Sends one readout of `ring` every `repetition_time_ms`, starting over at its end, until there are
/// `frames` images of `window` readouts, each `stride` readouts after the one before it. Of Cartesian lines, as many as
/// `window` have the same repetition.
PacedTimes paced_scan(std::uint16_t port, const EncodedScan& ring, int window, int stride, int frames,
                      double repetition_time_ms);

/// The value that a fraction `q` of the values do not exceed (nearest rank).
double quantile(std::vector<double> values, double q);

}  // namespace echotrain::bench
