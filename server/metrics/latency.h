// The latency of an image is its time from its last readout on, divided into the stages of its way.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/api/items.h"

namespace echotrain::server {

/// The stages of the way of one image, one after another [ms].
struct ImageLatency {
  float queue = 0;    ///< last readout received -> the pipeline takes the batch that completes the frame
  float compute = 0;  ///< -> the image is computed (with other frames of the same batch that come before it)
  float copy = 0;     ///< -> its pixels are converted and in host memory
  float send = 0;     ///< -> its last byte is given to the kernel

  float until_ready() const { return queue + compute + copy; }
  float until_sent() const { return until_ready() + send; }
};

/// Returns nothing for an image that was not made from readouts of a connection. `sent` is zero before the image is
/// sent.
std::optional<ImageLatency> latency_of(const ImageTimes& times, Instant sent = {});

/// Adds the meta attributes echotrain_latency_ms, echotrain_queue_ms, echotrain_compute_ms, echotrain_copy_ms and,
/// where an image was sent before, echotrain_last_send_ms to `attributes`, which is an ismrmrdMeta document.
void add_latency(std::string& attributes, const ImageLatency& latency, std::optional<float> last_send_ms);

/// Returns " after_last_readout_ms=1.00/1.20/1.31 queue_ms=... compute_ms=... copy_ms=... send_ms=...
/// (median/p99/max)", or nothing when there were no images.
std::string latency_text(const std::vector<ImageLatency>& latencies);
/// Returns the same as an object: {"after_last_readout_ms": {"median": 1.0, "p99": 1.2, "max": 1.31}, "queue_ms": ...}.
nlohmann::ordered_json latency_facts(const std::vector<ImageLatency>& latencies);

}  // namespace echotrain::server
