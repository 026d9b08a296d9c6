// MrdServer uses another MRD server as a step of the chain.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gadgets/steps/step.h"

namespace echotrain {

/// Sends a scan to a server that the program's options name (StepSettings::servers), and continues with its answers.
struct MrdServer {
  struct Options {
    std::string address;
    std::string config;
    bool host_parameters = false;
    std::string gives = "images";
    double connect_timeout_s = 5;
    double timeout_s = 60;
  };
  static constexpr std::string_view kName = "mrd_server";
  static constexpr std::string_view kSummary =
      "Sends readouts or images to another MRD server (Gadgetron, FIRE, Echotrain) and goes on with its answer.";
  static Parameters<Options> parameters();
  /// Throws std::invalid_argument for an impossible address or config.
  static void check(const Options& options);
  static std::string who(const Options& options);
  static std::uint64_t memory(Scan& /*scan*/) { return 0; }  ///< memory of this machine: none
  static double timeout_s(const Options& options, Scan& /*scan*/) { return options.timeout_s; }
  static std::unique_ptr<Peer> open(const Options& options, Scan& scan, const PeerScan& peer);
  static StepBytes greeting(const Options& options, const protocol::Header& header, const std::string& host_json);
};

}  // namespace echotrain
