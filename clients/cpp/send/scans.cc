#include "clients/cpp/send/scans.h"

#include <fmt/format.h>

#include <chrono>
#include <ostream>

#include "clients/cpp/base/interruption.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/connection/query.h"
#include "clients/cpp/connection/tls_layer.h"
#include "clients/cpp/send/collector.h"
#include "clients/cpp/send/delivery.h"
#include "clients/cpp/send/detached_scan.h"
#include "protocol/data/pluralized.h"

namespace echotrain::client {
namespace {

std::string about(const DetachedScan& scan) {
  std::string text = fmt::format("scan              {}\nstate             {}\n", scan.id, scan.state);
  if (!scan.failure.empty()) text += fmt::format("failure           {}\n", scan.failure);
  text += fmt::format("pipeline          {}\nbegun             {}\n", scan.pipeline, scan.begun);
  if (!scan.keep_until.empty()) text += fmt::format("kept until        {}\n", scan.keep_until);
  return text + fmt::format("messages received {}\nimages            {}\n", scan.received, scan.images);
}

std::string row_of(const DetachedScan& scan) {
  return fmt::format("{:<32}  {:<10}  {:>8}  {:>6}  {:<16}  {:<16}  {}\n", scan.id, scan.state, scan.received,
                     scan.images, scan.begun, scan.keep_until, scan.pipeline);
}

std::string asked(const RemoteOptions& server, const std::string& what, double timeout_s) {
  const ServerAddress address = server.server_address();
  try {
    return ask(address, question(what, server.token()), std::chrono::duration<double>(timeout_s));
  } catch (const NoConnection&) {
    throw;
  } catch (const ConnectionError&) {
    if (!address.tls && speaks_tls(address)) throw TlsWanted();
    throw;
  }
}

}  // namespace

config::OptionTable<ScansOptions> scans_options() {
  using O = ScansOptions;
  return config::OptionTable<O>()
      .text("id", &O::id, "a scan, as 'echotrain send --detach' told its ID; without one, all of this client")
      .positional()
      .flag("cancel", &O::cancel, "end this scan; one that has ended: forget its data and images")
      .group("", &O::server, remote_options())
      .number("timeout", &O::timeout_s, 0.001, 1e6, "longest wait for the server's answer")
      .unit("s");
}

config::OptionTable<FetchOptions> fetch_options() {
  using O = FetchOptions;
  return config::OptionTable<O>()
      .text("id", &O::id, "a scan, as 'echotrain send --detach' told its ID")
      .positional()
      .required()
      .path("output", &O::output, "OUT.h5", "file for the images")
      .letter('o')
      .required()
      .group("", &O::server, remote_options())
      .path("png", &O::png, "DIR", "folder for pictures of the images")
      .number("timeout", &O::timeout_s, 0.001, 1e6, "longest wait for a connection, or for the server's answer")
      .unit("s")
      .number("resume_for", &O::resume_for_s, 0, 1e6, "how long to try to connect again when a connection is lost")
      .unit("s");
}

int scans(const ScansOptions& o, std::ostream& out, std::ostream& err) {
  if (o.cancel && o.id.empty()) throw UsageError("--cancel is for one scan: give its ID");
  const std::string what = o.id.empty() ? kScans : fmt::format("{}/{}", o.cancel ? kCancel : kScan, o.id);
  const std::string answer = asked(o.server, what, o.timeout_s);
  if (answer == "unknown" && o.id.empty()) throw ConnectionError("the server detaches no scans");
  if (answer == "unknown" || (o.cancel && answer != "cancelled")) {
    err << "error: " << not_there(o.id, answer) << '\n';
    return 1;
  }
  if (o.cancel) {
    out << fmt::format("scan {} is cancelled\n", o.id);
    return 0;
  }
  const auto found = read_scans(answer);
  if (!o.id.empty()) {
    out << about(found.front());
    return 0;
  }
  if (found.empty()) {
    out << "no detached scan of this client\n";
    return 0;
  }
  out << fmt::format("{:<32}  {:<10}  {:>8}  {:>6}  {:<16}  {:<16}  {}\n", "scan", "state", "messages", "images",
                     "begun", "kept until", "pipeline");
  for (const DetachedScan& scan : found) out << row_of(scan);
  return 0;
}

int fetch(const FetchOptions& o, std::ostream& out, std::ostream& err) {
  const Interruption interruption;
  Collector got({o.output, o.png, {}}, err);
  Progress progress(false, 0, err);
  DeliveryOptions options;
  options.server = o.server.server_address();
  options.token = o.server.token();
  options.patience.sending = std::chrono::duration<double>(o.timeout_s);
  options.resume_for_s = o.resume_for_s;
  Delivery delivery(options, got, progress, out, err);
  std::string failure = delivery.fetch(o.id);
  if (failure.empty()) failure = got.server_error;
  got.finish(failure.empty());
  if (failure.empty()) {
    // The end of the images says nothing of how the scan has ended.
    const std::string answer = asked(o.server, fmt::format("{}/{}", kScan, o.id), o.timeout_s);
    const DetachedScan scan = answer == "unknown" ? DetachedScan{} : read_scans(answer).front();
    if (answer == "unknown")
      failure = "the server has forgotten the scan meanwhile, so that it is not known whether these are all images";
    else if (scan.state != "done")
      failure = fmt::format("the scan is {}{}", scan.state, scan.failure.empty() ? "" : ": " + scan.failure);
    else if (scan.images != got.images)
      failure = fmt::format("the scan has {}", protocol::pluralized(scan.images, "image"));
  }
  if (failure.empty() && !got.report_failure.empty()) failure = got.report_failure;
  if (!failure.empty())
    err << fmt::format("error: {}; {} received\n", failure, protocol::pluralized(got.images, "image"));
  out << got.summary();
  if (failure.empty()) return 0;
  return Interruption::signal() != 0 ? Interruption::status() : 1;
}

}  // namespace echotrain::client
