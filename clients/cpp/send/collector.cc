#include "clients/cpp/send/collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <ostream>
#include <string_view>
#include <utility>

#include "clients/cpp/base/image_pixels.h"
#include "protocol/data/text.h"

namespace echotrain::client {

using Clock = std::chrono::steady_clock;

std::string line_of(const protocol::Text& text) {
  return protocol::printable(std::string_view(text.text).substr(0, text.text.find_last_not_of(" \r\n") + 1));
}

Collector::Collector(CollectorOptions options, std::ostream& err)
    : output_(std::move(options.output)), err_(err), report_(std::move(options.truth), std::move(options.png)) {}

void Collector::open(const std::string& header_xml) {
  if (output_.empty() || file_) return;
  file_ = std::make_unique<PendingDataset>(output_);
  if (!header_xml.empty()) file_->writer().header_xml(header_xml);
}

void Collector::take(const ReceivedImage& received) {
  if (file_) {
    file_->writer().append(received.image);
    file_->keep();
  }
  // Often enough to lose little if this program is killed, seldom enough not to slow the stream.
  if (file_ && Clock::now() - flushed_ > std::chrono::seconds(1)) {
    file_->writer().flush();
    flushed_ = Clock::now();
  }
  ++images;
  if (received.latency) latencies.push_back(received.latency->count());
  const auto meta = meta_values(received.image.attributes);
  for (const auto& [name, value] : meta) {
    if (name == "echotrain_backend") backend = value;
  }
  latency.add(received.latency ? std::optional(1e3 * received.latency->count()) : std::nullopt, meta);
  try {
    report_.add(received.image);
  } catch (const std::exception& error) {
    if (report_failure.empty()) report_failure = error.what();
  }
}

void Collector::take(const protocol::Text& text) {
  const std::string line = line_of(text);
  if (line.starts_with("ERROR") && server_error.empty())  // said at the end
    server_error = line.substr(std::min(line.size(), line.find_first_not_of(' ', 5)));
  else
    err_ << "server: " << line << '\n';
}

void Collector::finish(bool well) {
  if (file_) file_->writer().flush();
  if (file_ && well) file_->keep();
  if (report_failure.empty()) report_.finish();
}

void Collector::summarize(Json& document) const {
  document["images"] = images;
  document["latency_ms"] = nullptr;
  if (!latencies.empty()) {
    std::vector<double> sorted = latencies;
    std::sort(sorted.begin(), sorted.end());
    document["latency_ms"] = {
        {"median", 1e3 * quantile(sorted, 0.5)}, {"p99", 1e3 * quantile(sorted, 0.99)}, {"max", 1e3 * sorted.back()}};
  }
  document["nrmse"] = nullptr;
  if (const auto error = report_.median_error()) document["nrmse"] = *error;
  document["backend"] = backend;
}

std::string Collector::summary() const {
  std::string text = fmt::format("images received   {}\n", images);
  if (!latencies.empty()) {
    std::vector<double> sorted = latencies;
    std::sort(sorted.begin(), sorted.end());
    text += fmt::format(
        "latency           median {:.1f} ms, p99 {:.1f} ms, max {:.1f} ms (last readout sent -> image received)\n",
        1e3 * quantile(sorted, 0.5), 1e3 * quantile(sorted, 0.99), 1e3 * sorted.back());
  }
  if (const auto error = report_.median_error())
    text += fmt::format("NRMSE             median {:.4g} against the truth\n", *error);
  if (!backend.empty()) text += fmt::format("backend           {}\n", backend);
  return text;
}

void Sent::add(const Exchange& over) {
  readouts += over.readouts_sent();
  bytes += over.bytes_sent();
  seconds += over.sending_time().count();
}

std::string Sent::summary() const {
  const double time = std::max(seconds, 1e-9);
  return fmt::format("readouts sent     {} in {:.2f} s ({:.0f}/s, {:.1f} MB/s)\n", readouts, time,
                     static_cast<double>(readouts) / time, static_cast<double>(bytes) / time / 1e6);
}

}  // namespace echotrain::client
