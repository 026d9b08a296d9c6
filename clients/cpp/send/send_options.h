// The send options are those of `echotrain send` and `echotrain replay`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "clients/cpp/base/scan_file.h"
#include "clients/cpp/connection/remote_options.h"
#include "config/option.h"

namespace echotrain::client {

struct SendOptions {
  std::filesystem::path input, output;
  std::string config;  ///< a name known to the server, or a .yaml file here, which is sent as text; not to `resume`
  bool config_text = false;  ///< send the pipeline as text in any case
  RemoteOptions server;
  std::string group = "dataset";
  MeasurementChoice choice;
  double rate = 0;  ///< readouts/s; 0: as fast as the server takes them
  /// The longest time to connect, and without any progress [s]. When not given: 60 s, and no limit once everything has
  /// been sent, as a server may reconstruct for as long as it takes (docs/protocol.md, "Exchange").
  std::optional<double> timeout_s;
  std::filesystem::path png;         ///< empty: no pictures
  std::optional<std::string> truth;  ///< file with an array `truth`; empty: the input
  std::filesystem::path summary;     ///< empty: on `out` only
  bool progress = false;
  bool json = false;
  bool latency = false;  ///< print a histogram of the images' latencies
  bool detach = false;   ///< ask the server to go on with the scan when the connection is lost
  bool no_wait = false;  ///< with `detach`: leave once the server has all of the scan
  std::string resume;    ///< the ID of a detached scan to go on with; empty: a new scan
  double resume_for_s = 600;
};

config::OptionTable<SendOptions> send_options();
/// Returns the options that make sense for a captured stream.
config::OptionTable<SendOptions> replay_options();

}  // namespace echotrain::client
