// `echotrain send`: streams a file to a server and writes what comes back.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "clients/cpp/connection/remote_options.h"
#include "clients/cpp/connection/scan_source.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

struct SendOptions {
  std::filesystem::path input, output;
  std::string config;        ///< a name known to the server, or a .yaml file here, which is sent as text
  bool config_text = false;  ///< send the pipeline as text in any case
  RemoteOptions server;
  std::string group = "dataset";
  double rate = 0;  ///< readouts/s; 0: as fast as the server takes them
  /// The longest time to connect, and without any progress [s]. When not given: 60 s, and no limit once everything has
  /// been sent, as a server may reconstruct for as long as it takes (docs/protocol.md, "Exchange").
  std::optional<double> timeout_s;
  std::filesystem::path png;         ///< empty: no pictures
  std::optional<std::string> truth;  ///< file with an array `truth`; empty: the input
  std::filesystem::path summary;     ///< empty: on `out` only
  bool progress = false;
  bool latency = false;  ///< print a histogram of the images' latencies
};

/// Sends and receives at the same time. Every image that arrives is in the output file, whatever happens afterwards.
/// Texts of the server go to `err`, the summary to `out`. Returns 0, or 1 when the server reported an error or the scan
/// did not end well (`err` says how). Throws when it could not begin.
int send(const SendOptions& options, std::ostream& out, std::ostream& err);

/// What send() does once it has a scan: `opening` goes first, then `source`.
int send_scan(const SendOptions& options, protocol::Buffer opening, ScanSource& source, std::ostream& out,
              std::ostream& err);

}  // namespace echotrain::client
