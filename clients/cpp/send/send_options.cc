#include "clients/cpp/send/send_options.h"

#include <utility>

#include "clients/cpp/images/image_report.h"

namespace echotrain::client {
namespace {

using O = SendOptions;

/// Adds what both commands say of the exchange and its results.
config::OptionTable<O> with_exchange(config::OptionTable<O> table, const std::string& rate_help) {
  return std::move(table)
      .group("", &O::server, remote_options())
      .number("rate", &O::rate, 0, 1e9, rate_help)
      .number("timeout", &O::timeout_s, 0.001, 1e6,
              "longest wait for a connection, or for anything to happen (default: 60, and no limit once everything has "
              "been sent)")
      .unit("s")
      .path("png", &O::png, "DIR", "folder for pictures of the images")
      .path("summary", &O::summary, "FILE", "also write the summary to FILE")
      .flag("progress", &O::progress, "show progress on stderr");
}

}  // namespace

config::OptionTable<O> send_options() {
  auto table =
      config::OptionTable<O>()
          .path("input", &O::input, "IN.h5", "ISMRMRD file to send, or an MRD 2 stream")
          .positional()
          .required()
          .path("config", &O::config, "NAME|FILE.yaml", "pipeline: a name known to the server, or a .yaml file here")
          .letter('c')
          .required()
          .path("output", &O::output, "OUT.h5", "file for the images")
          .letter('o')
          .required()
          .text("group", &O::group, "group of the input file")
          .letter('g');
  return with_exchange(std::move(table), "readouts per second; 0 is as fast as possible")
      .path("truth", &O::truth, "FILE", kTruthHelp)
      .alone("")
      .flag("latency", &O::latency,
            "print a histogram of the times from the last readout to the image, and the server's own parts of them")
      .flag("config_text", &O::config_text, "send the pipeline's text instead of its name");
}

config::OptionTable<O> replay_options() {
  auto table = config::OptionTable<O>()
                   .path("input", &O::input, "IN.mrd", "stream file, as the server's raw captures are")
                   .positional()
                   .required()
                   .path("config", &O::config, "NAME|FILE.yaml",
                         "pipeline, in place of the one that the stream asks for: a name known to the server, or a "
                         ".yaml file here")
                   .letter('c')
                   .path("output", &O::output, "OUT.h5", "file for the images")
                   .letter('o')
                   .required();
  return with_exchange(std::move(table), "readouts per second; 0 is as fast as possible (streams hold no times)");
}

}  // namespace echotrain::client
