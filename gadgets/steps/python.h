// Python runs a Python module as a step of the chain.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gadgets/steps/step.h"

namespace echotrain {

/// Runs a module of the program's own folder (StepSettings::modules) in a process of its own for each scan, which is
/// killed when the scan ends (docs/python-steps.md).
struct Python {
  struct Options {
    std::string module;
    std::string function = "process";
    std::string takes = "messages";
    std::string gives = "images";
    std::string device = "cpu";
    std::int64_t shared_mib = kSharedMib;
    std::string config;
    bool host_parameters = false;
    std::int64_t threads = 1;
    double timeout_s = 60;
  };
  static constexpr std::string_view kName = "python";
  static constexpr std::string_view kSummary =
      "Runs a Python module of the server's folder, which gets readouts, images or arrays and gives others back.";
  static Parameters<Options> parameters();
  /// Throws std::invalid_argument for names that no module or function can have, and for options that exclude each
  /// other.
  static void check(const Options& options);
  /// Throws std::invalid_argument where the options ask for other items.
  static void check_arrays(const Options& options, std::string_view takes, std::string_view gives);
  static std::string who(const Options& options);
  static std::uint64_t memory(Scan& scan);  ///< memory of the process [bytes]
  /// The program's settings, with the limits that this machine allows; a warning tells of those that are lower.
  static StepSettings settings(Scan& scan);
  /// The option, or the program's bound; a warning tells of a longer one.
  static double timeout_s(const Options& options, Scan& scan);
  /// Likewise for the threads.
  static PythonStart start_of(const Options& options, Scan& scan);
  static std::unique_ptr<Peer> open(const Options& options, Scan& scan, const PeerScan& peer);
  static StepBytes greeting(const Options& options, const protocol::Header& header, const std::string& host_json);
};

}  // namespace echotrain
