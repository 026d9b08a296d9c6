#include "clients/cpp/send/send.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <fstream>
#include <memory>
#include <ostream>
#include <string_view>
#include <vector>

#include "clients/cpp/base/interruption.h"
#include "clients/cpp/base/json_output.h"
#include "clients/cpp/base/pipeline_files.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/connection/config_message.h"
#include "clients/cpp/connection/exchange.h"
#include "clients/cpp/connection/mrd2_source.h"
#include "clients/cpp/images/image_report.h"
#include "clients/cpp/send/collector.h"
#include "clients/cpp/send/delivery.h"
#include "protocol/data/pluralized.h"
#include "protocol/files/dataset.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {
namespace {

protocol::Buffer preamble(const SendOptions& o, const std::string& xml) {
  protocol::Buffer bytes = config_message(o.config, o.config_text, o.server.token());
  protocol::encode(protocol::HeaderText{xml.empty() ? kNoHeader : xml}, bytes);
  return bytes;
}

std::vector<StoredArray> truth_of(const SendOptions& o) {
  if (!o.truth) return {};
  return read_truths(o.truth->empty() ? o.input : std::filesystem::path(*o.truth), o.group);
}

// A name that ends like a file's is taken for a pipeline's where there is no such file.
std::string hint_for(const SendOptions& o, const std::string& error) {
  const bool named_as_file = o.config.ends_with(".yaml") || o.config.ends_with(".yml");
  if (!error.starts_with("unknown-config") || !named_as_file || is_pipeline_file(o.config)) return "";
  return fmt::format("; nor is there a file '{}' in this folder", o.config);
}

ExchangeTimeouts patience_of(const SendOptions& o) {
  ExchangeTimeouts patience;
  if (!o.timeout_s) return patience;
  patience.sending = std::chrono::duration<double>(*o.timeout_s);
  patience.after_close = patience.sending;
  return patience;
}

// A server calls the pipeline's text "config", where a token stands above it. Its author knows it by its file.
std::string with_file_name(const SendOptions& o, const std::string& error) {
  constexpr std::string_view kTheirs = " config:";
  const std::size_t at = error.find(kTheirs);
  if (at == std::string::npos || !is_pipeline_file(o.config)) return error;
  const char* const number = error.data() + at + kTheirs.size();
  int line = 0;
  const auto read = std::from_chars(number, error.data() + error.size(), line);
  if (read.ec != std::errc()) return error;
  return fmt::format("{} {}:{}{}", error.substr(0, at), o.config, line - (o.server.token().empty() ? 0 : 1), read.ptr);
}

// The lines of a failure, which stand above the counts.
std::string tell(const std::string& failure, std::size_t images, const std::filesystem::path& output) {
  std::error_code error;
  const bool older = images == 0 && !output.empty() && std::filesystem::exists(output, error);
  return fmt::format(
      "error: {}\n{}\n", failure,
      images > 0 ? fmt::format("{} received before that: {}", protocol::pluralized(images, "image"), output.string())
                 : "no image was received" + (older ? fmt::format("; {} is as it was", output.string()) : ""));
}

Json document_of(const Delivery& delivery, const Collector& got, const std::string& failure) {
  Json document = json_document("send");
  document["scan"] = delivery.id().empty() ? Json() : Json(delivery.id());
  document["readouts"] = delivery.sent().readouts;
  document["bytes"] = delivery.sent().bytes;
  document["seconds"] = delivery.sent().seconds;
  got.summarize(document);
  document["connections"] = delivery.connections();
  document["error"] = failure.empty() ? Json() : Json(failure);
  return document;
}

// A connection of its own for what the scan after it may use: the server keeps it, and sends no image. The scan goes on
// without it where the server does not take it.
void send_preparation(const SendOptions& o, Preparation preparation, std::ostream& err) {
  announce(o.input, preparation, err);
  DatasetSource source(std::move(preparation.reader));
  Exchange exchange(o.server.server_address(), patience_of(o), preamble(o, source.header_xml()), source, /*rate=*/0);
  std::string refused;
  while (!exchange.over()) {
    const auto event = exchange.next(std::chrono::milliseconds(50));
    if (!event || !std::holds_alternative<protocol::Text>(*event)) continue;
    const std::string line = protocol::printable(std::get<protocol::Text>(*event).text);
    if (!line.starts_with("ERROR"))
      err << fmt::format("server: {}: {}\n", preparation.name, line);
    else if (refused.empty())
      refused = line;
  }
  if (refused.empty()) refused = exchange.failure();
  if (!refused.empty()) err << "warning: the server did not take it, and the scan goes on without: " << refused << '\n';
}

}  // namespace

int send(const SendOptions& given, std::ostream& out, std::ostream& err) {
  SendOptions o = given;
  o.detach = o.detach || o.no_wait || !o.resume.empty();
  if (o.config.empty() && o.resume.empty()) throw UsageError("give a pipeline (-c), or a scan to --resume");
  if (o.output.empty() && !o.no_wait) throw UsageError("give a file for the images (-o)");
  const auto source = open_scan(o.input, o.group, o.choice, err);
  if (source->header_xml().empty() && source->readouts() > 0) {
    throw std::runtime_error(o.input.string() + ": has readouts but no header (xml); a server cannot use them");
  }
  if (!o.resume.empty()) return send_scan(o, {}, *source, out, err);
  const protocol::Buffer opening = preamble(o, source->header_xml());
  for (auto& before : open_preparations(o.input, o.choice, err)) send_preparation(o, std::move(before), err);
  return send_scan(o, opening, *source, out, err);
}

int send_scan(const SendOptions& o, protocol::Buffer opening, ScanSource& source, std::ostream& out,
              std::ostream& err) {
  DeliveryOptions options{.server = o.server.server_address(), .token = o.server.token(), .patience = patience_of(o)};
  options.rate = o.rate;
  options.detach = o.detach;
  options.no_wait = o.no_wait;
  options.images_wanted = !o.output.empty();
  options.resume_for_s = o.resume_for_s;
  const Interruption interruption;
  Collector got({o.output, o.png, truth_of(o)}, err);
  Progress progress(o.progress, source.readouts(), err);
  Delivery delivery(options, got, progress, o.json ? err : out, err);
  std::string failure =
      o.resume.empty() ? delivery.send(std::move(opening), source) : delivery.resume(o.resume, source);
  progress.show(delivery.readouts(), got.images, true);
  if (!got.server_error.empty())
    failure = "the server ended the scan: " + with_file_name(o, got.server_error) + hint_for(o, got.server_error);
  got.finish(failure.empty());
  if (failure.empty()) failure = got.report_failure;
  if (!failure.empty()) err << tell(failure, got.images, o.output);

  const Sent& sent = delivery.sent();
  std::string text = sent.summary() + got.summary() + (o.latency ? got.latency.text() : "");
  if (delivery.connections() > 1) text += fmt::format("connections       {}\n", delivery.connections());
  if (o.json)
    write_json(document_of(delivery, got, failure), out);
  else
    out << text;
  if (!o.summary.empty()) {
    std::ofstream file(o.summary);
    if (!delivery.id().empty()) file << fmt::format("scan              {}\n", delivery.id());
    if (!(file << text)) throw std::runtime_error("cannot write " + o.summary.string());
  }
  if (!failure.empty()) return Interruption::signal() != 0 ? Interruption::status() : 1;
  if (delivery.left_early()) {
    (o.json ? err : out) << fmt::format("images            echotrain fetch {} -o OUT.h5\n", delivery.id());
    return 0;
  }
  if (got.images == 0 && (delivery.imaging_sent() || sent.readouts == 0))
    err << "warning: the server has taken the scan and sent no image; 'echotrain info' shows what the file holds\n";
  return 0;
}

}  // namespace echotrain::client
