#include "clients/cpp/send/send.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <memory>
#include <ostream>
#include <string_view>
#include <vector>

#include "clients/cpp/base/pipeline_files.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/connection/config_message.h"
#include "clients/cpp/connection/exchange.h"
#include "clients/cpp/connection/mrd2_source.h"
#include "clients/cpp/images/image_report.h"
#include "clients/cpp/send/latency_report.h"
#include "protocol/data/pluralized.h"
#include "protocol/files/dataset.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {
namespace {

using Clock = std::chrono::steady_clock;

protocol::Buffer preamble(const SendOptions& o, const std::string& xml) {
  protocol::Buffer bytes = config_message(o.config, o.config_text, o.server.token());
  protocol::encode(protocol::HeaderText{xml.empty() ? kNoHeader : xml}, bytes);
  return bytes;
}

// One line that rewrites itself on a terminal; a line every two seconds elsewhere.
class Progress {
 public:
  Progress(bool wanted, std::size_t readouts, std::ostream& err)
      : wanted_(wanted), terminal_(::isatty(STDERR_FILENO) == 1), readouts_(readouts), err_(err) {}

  void show(const Exchange& exchange, std::size_t images, bool last) {
    const auto now = Clock::now();
    const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(2000);
    if (!wanted_ || (!last && now - shown_ < pause)) return;
    shown_ = now;
    const std::size_t sent = exchange.readouts_sent();
    constexpr std::size_t kWidth = 30;
    const std::size_t filled = readouts_ == 0 ? kWidth : kWidth * sent / readouts_;
    const std::string line = fmt::format("[{}{}] {}/{} readouts, {} images", std::string(filled, '#'),
                                         std::string(kWidth - filled, '.'), sent, readouts_, images);
    err_ << (terminal_ ? "\r" + line + (last ? "\n" : "") : line + "\n") << std::flush;
    open_ = terminal_ && !last;
  }
  /// Ends the line that is being rewritten, so that other text can follow.
  void interrupt() {
    if (open_) err_ << '\n';
    open_ = false;
  }

 private:
  bool wanted_, terminal_;
  std::size_t readouts_;
  std::ostream& err_;
  Clock::time_point shown_{};
  bool open_ = false;
};

// Takes everything that comes back: images go to the file first, then to the report.
class Collector {
 public:
  Collector(const SendOptions& o, const std::string& xml, std::ostream& err)
      : err_(err), report_(truth(o), o.png), file_(open(o, xml)) {}

  void take(const ReceivedImage& received) {
    file_->append(received.image);
    // Often enough to lose little if this program is killed, seldom enough not to slow the stream.
    if (Clock::now() - flushed_ > std::chrono::seconds(1)) {
      file_->flush();
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

  void take(const protocol::Text& text) {
    const std::size_t end = text.text.find_last_not_of(" \r\n") + 1;
    const std::string line = protocol::printable(std::string_view(text.text).substr(0, end));
    if (line.rfind("ERROR", 0) == 0 && server_error.empty())  // said at the end
      server_error = line.substr(std::min(line.size(), line.find_first_not_of(' ', 5)));
    else
      err_ << "server: " << line << '\n';
  }

  void finish() {
    file_->flush();
    if (report_failure.empty()) report_.finish();
  }
  const ImageReport& report() const { return report_; }

  std::size_t images = 0;
  std::vector<double> latencies;
  LatencyReport latency;
  std::string backend, server_error, report_failure;

 private:
  static std::unique_ptr<protocol::DatasetWriter> open(const SendOptions& o, const std::string& xml) {
    auto file = std::make_unique<protocol::DatasetWriter>(o.output);
    if (!xml.empty()) file->header_xml(xml);
    return file;
  }
  std::vector<StoredArray> truth(const SendOptions& o) {
    if (!o.truth) return {};
    return read_truths(o.truth->empty() ? o.input : std::filesystem::path(*o.truth), o.group);
  }

  std::ostream& err_;
  ImageReport report_;
  std::unique_ptr<protocol::DatasetWriter> file_;  // opened after the truth, which may be missing: opening empties it
  Clock::time_point flushed_ = Clock::now();
};

std::string summary(const Collector& got, const Exchange& exchange) {
  const double seconds = std::max(exchange.sending_time().count(), 1e-9);
  std::string text = fmt::format("readouts sent     {} in {:.2f} s ({:.0f}/s, {:.1f} MB/s)\n", exchange.readouts_sent(),
                                 seconds, static_cast<double>(exchange.readouts_sent()) / seconds,
                                 static_cast<double>(exchange.bytes_sent()) / seconds / 1e6);
  text += fmt::format("images received   {}\n", got.images);
  if (!got.latencies.empty()) {
    std::vector<double> sorted = got.latencies;
    std::sort(sorted.begin(), sorted.end());
    text += fmt::format(
        "latency           median {:.1f} ms, p99 {:.1f} ms, max {:.1f} ms (last readout sent -> image received)\n",
        1e3 * quantile(sorted, 0.5), 1e3 * quantile(sorted, 0.99), 1e3 * sorted.back());
  }
  if (const auto error = got.report().median_error())
    text += fmt::format("NRMSE             median {:.4g} against the truth\n", *error);
  if (!got.backend.empty()) text += fmt::format("backend           {}\n", got.backend);
  return text;
}

// A name that ends like a file's is taken for a pipeline's where there is no such file.
std::string hint_for(const SendOptions& o, const std::string& error) {
  const bool named_as_file = o.config.ends_with(".yaml") || o.config.ends_with(".yml");
  if (!error.starts_with("unknown-config") || !named_as_file || is_pipeline_file(o.config)) return "";
  return fmt::format("; nor is there a file '{}' in this folder", o.config);
}

}  // namespace

int send(const SendOptions& o, std::ostream& out, std::ostream& err) {
  const auto source = open_scan(o.input, o.group, err);
  if (source->header_xml().empty() && source->readouts() > 0) {
    throw std::runtime_error(o.input.string() + ": has readouts but no header (xml); a server cannot use them");
  }
  return send_scan(o, preamble(o, source->header_xml()), *source, out, err);
}

int send_scan(const SendOptions& o, protocol::Buffer opening, ScanSource& source, std::ostream& out,
              std::ostream& err) {
  ExchangeTimeouts patience;
  if (o.timeout_s) {
    patience.sending = std::chrono::duration<double>(*o.timeout_s);
    patience.after_close = patience.sending;
  }
  Exchange exchange(o.server.server_address(), patience, std::move(opening), source, o.rate);
  // Opened only when there is a server, so that a failed connection does not cost the output of an earlier run.
  Collector got(o, source.header_xml(), err);
  Progress progress(o.progress, source.readouts(), err);
  while (!exchange.over()) {
    if (const auto event = exchange.next(std::chrono::milliseconds(50))) {
      if (const auto* image = std::get_if<ReceivedImage>(&*event)) {
        got.take(*image);
      } else {
        progress.interrupt();
        got.take(std::get<protocol::Text>(*event));
      }
    }
    progress.show(exchange, got.images, false);
  }
  progress.show(exchange, got.images, true);
  got.finish();

  const std::string text = summary(got, exchange) + (o.latency ? got.latency.text() : "");
  out << text;
  if (!o.summary.empty()) {
    std::ofstream file(o.summary);
    if (!(file << text)) throw std::runtime_error("cannot write " + o.summary.string());
  }
  const auto fail = [&](const std::string& what) {
    err << "error: " << what << '\n';
    if (got.images == 0)
      err << "no image was received\n";
    else
      err << fmt::format("{} received before that: {}\n", protocol::pluralized(got.images, "image"), o.output.string());
    return 1;
  };
  if (!got.server_error.empty())
    return fail("the server ended the scan: " + got.server_error + hint_for(o, got.server_error));
  if (!exchange.failure().empty()) return fail(exchange.failure());
  if (!exchange.sent_all()) return fail("the server closed the scan before all of it was sent");
  if (!got.report_failure.empty()) return fail(got.report_failure);
  if (got.images == 0 && (exchange.imaging_sent() || exchange.readouts_sent() == 0))
    err << "warning: the server has taken the scan and sent no image; 'echotrain info' shows what the file holds\n";
  return 0;
}

}  // namespace echotrain::client
