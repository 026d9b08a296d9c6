// The counters of Metrics, by the Prometheus client library.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>

#include "server/metrics/metrics.h"

namespace echotrain::server {

using Counters = prometheus::Family<prometheus::Counter>;
using Histograms = prometheus::Family<prometheus::Histogram>;

struct Metrics::Counts {
  Counts();

  const std::chrono::system_clock::time_point began = std::chrono::system_clock::now();
  prometheus::Registry registry;
  Counters &sessions, &scans, &errors, &readouts, &waveforms, &images_in, &images, &odd_images, &skipped;
  Histograms &total, &queue, &compute, &copy, &send;
  prometheus::Counter &bytes_in, &bytes_out;
};

}  // namespace echotrain::server
