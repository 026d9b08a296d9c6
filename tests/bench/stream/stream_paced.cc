#include "tests/bench/stream/stream_paced.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "tests/bench/stream/stream_io.h"

namespace echotrain::bench {
namespace {

/// The number that an image's meta attribute holds, or a negative one.
double meta_number(std::string_view attributes, std::string_view name) {
  const std::size_t at = attributes.find(name);
  const std::size_t value = at == std::string_view::npos ? at : attributes.find("<value>", at);
  return value == std::string_view::npos ? -1 : std::atof(attributes.data() + value + 7);
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

/// Another repetition for a Cartesian readout: one that has been is not opened again.
void set_repetition(Buffer& readout, std::uint16_t repetition) {
  constexpr std::size_t kAt =
      2 + offsetof(protocol::AcquisitionHeader, idx) + offsetof(decltype(protocol::AcquisitionHeader::idx), repetition);
  std::memcpy(readout.data() + kAt, &repetition, sizeof repetition);
}

PacedTimes without_first(PacedTimes times) {
  for (std::vector<double>* of :
       {&times.client_ms, &times.server_ms, &times.queue_ms, &times.compute_ms, &times.copy_ms, &times.send_ms})
    if (!of->empty()) of->erase(of->begin());
  return times;
}

PacedTimes paced_scan(std::uint16_t port, const EncodedScan& ring, int window, int stride, int frames,
                      double repetition_time_ms) {
  PacedTimes times;
  const int readouts = window + (frames - 1) * stride;
  std::vector<std::atomic<Clock::rep>> sent(static_cast<std::size_t>(readouts));
  Connection connection(port);
  std::exception_ptr failed;
  std::thread receiving([&] {
    try {
      Receiver receiver;
      receiver.run(connection, [&](const protocol::Image& image, Clock::time_point now) {
        const auto last = static_cast<std::size_t>(window - 1 + static_cast<int>(times.client_ms.size()) * stride);
        const Clock::time_point from{Clock::duration(sent.at(last).load())};
        times.client_ms.push_back(std::chrono::duration<double, std::milli>(now - from).count());
        times.server_ms.push_back(meta_number(image.attributes, "echotrain_latency_ms"));
        times.queue_ms.push_back(meta_number(image.attributes, "echotrain_queue_ms"));
        times.compute_ms.push_back(meta_number(image.attributes, "echotrain_compute_ms"));
        times.copy_ms.push_back(meta_number(image.attributes, "echotrain_copy_ms"));
        if (const double ms = meta_number(image.attributes, "echotrain_last_send_ms"); ms >= 0)
          times.send_ms.push_back(ms);
      });
    } catch (...) {
      failed = std::current_exception();
    }
  });
  connection.write(ring.bytes.data(), ring.begin);
  const auto pause =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(repetition_time_ms));
  const auto start = Clock::now();
  for (int i = 0; i < readouts; ++i) {
    const std::size_t r = static_cast<std::size_t>(i) % ring.readouts();
    const std::size_t begin = r == 0 ? ring.begin : ring.ends[r - 1];
    Buffer readout(ring.bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                   ring.bytes.begin() + static_cast<std::ptrdiff_t>(ring.ends[r]));
    if (!ring.shape.radial) set_repetition(readout, static_cast<std::uint16_t>(i / window));
    std::this_thread::sleep_until(start + i * pause);
    sent[static_cast<std::size_t>(i)] = Clock::now().time_since_epoch().count();
    connection.write(readout);
  }
  Buffer close;
  protocol::encode(protocol::Close{}, close);
  connection.write(close);
  connection.end();
  receiving.join();
  if (failed) std::rethrow_exception(failed);
  if (times.client_ms.size() != static_cast<std::size_t>(frames))
    throw std::runtime_error(std::to_string(times.client_ms.size()) + " images came of a paced scan");
  return times;
}

}  // namespace echotrain::bench
