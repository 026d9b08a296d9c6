#include "gadgets/steps/python.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "gadgets/numerics/core/resources.h"
#include "gadgets/steps/child_process.h"

namespace echotrain {
namespace {

/// True for a Python name: no path, no package within another.
bool is_identifier(const std::string& name) {
  constexpr std::size_t kLongest = 64;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && name.size() <= kLongest && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

Parameters<Python::Options> Python::parameters() {
  using O = Options;
  return Parameters<O>()
      .text("module", &O::module, "module of the folder that the option python_modules names: NAME.py or NAME/")
      .text("function", &O::function, "function of the module: process(connection, config, header)")
      .choice("gives", &O::gives, {"images", "readouts"},
              "what it gives back; readouts: one for each that it takes, in the same order")
      .text("config", &O::config, "text that the function gets as its second argument; empty: the module's name")
      .flag("host_parameters", &O::host_parameters,
            "whether what the scan's host has sent as JSON, {\"parameters\": {...}}, is that argument, as a dict, in "
            "place of `config`")
      .integer("threads", &O::threads, 1, 1024, "threads of its numerical libraries")
      .number("timeout_s", &O::timeout_s, 0.1, 86400,
              "how long it may neither take nor give anything while the scan waits for it")
      .unit("s");
}

void Python::check(const Options& options) {
  if (!is_identifier(options.module))
    throw std::invalid_argument(
        fmt::format("module: '{}' is no module's name: letters, digits and '_', as in module: blur", options.module));
  if (!is_identifier(options.function))
    throw std::invalid_argument(fmt::format("function: '{}' is no function's name", options.function));
  if (options.config.size() > 65536 || options.config.find('\0') != std::string::npos)
    throw std::invalid_argument("config: a text of at most 65536 characters is expected");
}

std::string Python::who(const Options& options) { return fmt::format("python module '{}'", options.module); }

std::uint64_t Python::memory(Scan& scan) { return scan.compute.resources().get<StepSettings>().memory_bytes; }

std::unique_ptr<Peer> Python::open(const Options& options, Scan& scan, const PeerScan& peer) {
  numerics::Resources& resources = scan.compute.resources();
  StepSettings settings = resources.get<StepSettings>();
  ChildLimits limits{settings.memory_bytes, settings.files, settings.cpu_s};
  for (const std::string& lowered : fit(limits)) scan.warn(fmt::format("python: {}", lowered));
  settings.memory_bytes = limits.memory_bytes;
  settings.files = limits.files;
  settings.cpu_s = limits.cpu_s;
  const std::string& host_json = scan.compute.cache<ScanEnvironment>().host_json;
  const std::string& config = options.host_parameters && !host_json.empty() ? host_json : options.config;
  return resources.get<PeerSource>().python(settings, {options.module, options.function, config, options.threads},
                                            peer);
}

StepBytes Python::greeting(const Options& /*options*/, const protocol::Header& header,
                           const std::string& /*host_json*/) {
  StepBytes bytes;
  protocol::encode(protocol::HeaderText{header.xml}, bytes.head);
  return bytes;
}

}  // namespace echotrain
