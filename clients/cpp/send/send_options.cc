#include "clients/cpp/send/send_options.h"

#include <utility>

#include "clients/cpp/base/json_output.h"
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
      .flag("progress", &O::progress, "show progress on stderr")
      .flag("json", &O::json, kJsonHelp);
}

}  // namespace

config::OptionTable<O> send_options() {
  auto table =
      config::OptionTable<O>()
          .path("input", &O::input, "IN",
                "file to send: ISMRMRD HDF5, an MRD 2 stream, or raw data of a Siemens scanner")
          .positional()
          .required()
          .path("config", &O::config, "NAME|FILE.yaml", "pipeline: a name known to the server, or a .yaml file here")
          .letter('c')
          .path("pipeline", &O::config, "NAME|FILE.yaml", "the same as --config")
          .path("output", &O::output, "OUT.h5", "file for the images (not needed with --no-wait)")
          .letter('o')
          .text("group", &O::group, "group of the input file")
          .letter('g')
          .group("", &O::choice, measurement_options());
  return with_exchange(std::move(table), "readouts per second; 0 is as fast as possible")
      .path("truth", &O::truth, "FILE", kTruthHelp)
      .alone("")
      .flag("latency", &O::latency,
            "print a histogram of the times from the last readout to the image, and the server's own parts of them")
      .flag("config_text", &O::config_text, "send the pipeline's text instead of its name")
      .flag("detach", &O::detach,
            "let the server go on with the scan when the connection is lost; prints the scan's ID, and connects again")
      .flag("no_wait", &O::no_wait, "with --detach: leave once the server has all of the scan ('echotrain fetch')")
      .text("resume", &O::resume, "ID of a detached scan: send what the server does not have yet of it")
      .number("resume_for", &O::resume_for_s, 0, 1e6, "how long to try to connect again, with --detach or --resume")
      .unit("s");
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
                   .path("pipeline", &O::config, "NAME|FILE.yaml", "the same as --config")
                   .path("output", &O::output, "OUT.h5", "file for the images")
                   .letter('o')
                   .required();
  return with_exchange(std::move(table), "readouts per second; 0 is as fast as possible (streams hold no times)");
}

}  // namespace echotrain::client
