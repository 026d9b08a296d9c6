#include "gadgets/steps/python.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "gadgets/numerics/core/resources.h"
#include "gadgets/steps/child_process.h"
#include "gadgets/steps/warm_modules.h"

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
      .text("function", &O::function, "function of the module: process(connection, config, header); of arrays: f(item)")
      .choice("takes", &O::takes,
              {"messages", "Readouts", "KSpace", "Samples", "NormalEquations", "CoilImages", "Images"},
              "messages, as a server gets them, or the arrays of one item at a time")
      .choice("gives", &O::gives,
              {"images", "readouts", "Readouts", "KSpace", "Samples", "NormalEquations", "CoilImages", "Images"},
              "what it gives back; readouts: one for each that it takes, in the same order; arrays: as `takes`")
      .choice("device", &O::device, {"cpu", "cuda"}, "where arrays lie; only cpu is possible")
      .integer("shared_mib", &O::shared_mib, 1, 65536,
               "memory for arrays, in each direction; what finds no room goes through a socket")
      .unit("MiB")
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
  if (options.device != "cpu")
    throw std::invalid_argument(
        "device: cuda is not possible yet: a step's arrays lie in host memory; say device: cpu");
  const bool arrays = options.takes != "messages",
             gives_arrays = options.gives != "images" && options.gives != "readouts";
  if (arrays && !gives_arrays)
    throw std::invalid_argument(
        fmt::format("gives: {} are messages, but what is taken, {}, are arrays; say gives: {}, or another of the names "
                    "with capitals",
                    options.gives, options.takes, options.takes));
  if (!arrays && gives_arrays)
    throw std::invalid_argument(fmt::format(
        "gives: {} are arrays, for which takes: must name arrays, too, such as takes: CoilImages", options.gives));
  if (options.config.size() > 65536 || options.config.find('\0') != std::string::npos)
    throw std::invalid_argument("config: a text of at most 65536 characters is expected");
}

void Python::check_arrays(const Options& options, std::string_view takes, std::string_view gives) {
  if (options.takes == "messages" && (takes == "Images" || takes == "Readouts"))
    throw std::invalid_argument(fmt::format("gives: {} is not possible here: of what it takes ({}) it can only give {}",
                                            options.gives, takes == "Images" ? "Image" : takes,
                                            takes == "Images" ? "images" : "images or readouts"));
  if (options.takes == "messages")
    throw std::invalid_argument(
        fmt::format("here comes {}, which no message carries; say takes: {}, for arrays", takes, takes));
  if (options.takes != takes)
    throw std::invalid_argument(fmt::format("takes: {} is not what comes here; say takes: {}", options.takes, takes));
  if (options.gives != gives)
    throw std::invalid_argument(fmt::format("gives: {} is not possible here: of {}, a step makes the same{}",
                                            options.gives, takes,
                                            takes == "Images" || takes == "Readouts" ? ""
                                            : takes == "CoilImages"                  ? ", or Images"
                                                                                     : ", CoilImages or Images"));
}

std::string Python::who(const Options& options) { return fmt::format("python module '{}'", options.module); }

std::uint64_t Python::memory(Scan& scan) { return scan.compute.resources().get<StepSettings>().memory_bytes; }

StepSettings Python::settings(Scan& scan) {
  StepSettings settings = scan.compute.resources().get<StepSettings>();
  ChildLimits limits{settings.memory_bytes, settings.files, settings.cpu_s};
  for (const std::string& lowered : fit(limits)) scan.warn(fmt::format("python: {}", lowered));
  settings.memory_bytes = limits.memory_bytes;
  settings.files = limits.files;
  settings.cpu_s = limits.cpu_s;
  return settings;
}

double Python::timeout_s(const Options& options, Scan& scan) {
  const double most = scan.compute.resources().get<StepSettings>().most_timeout_s;
  if (options.timeout_s > most)
    scan.warn(fmt::format("python: timeout_s: {} s here, not {} (python_timeout_s)", most, options.timeout_s));
  return std::min(options.timeout_s, most);
}

PythonStart Python::start_of(const Options& options, Scan& scan) {
  const std::int64_t most = scan.compute.resources().get<StepSettings>().most_threads;
  if (options.threads > most)
    scan.warn(fmt::format("python: threads: {} here, not {} (python_threads)", most, options.threads));
  const std::string& host_json = scan.compute.cache<ScanEnvironment>().host_json;
  const std::string& config = options.host_parameters && !host_json.empty() ? host_json : options.config;
  numerics::Resources& resources = scan.compute.resources();
  return {options.module, options.function, config, std::min(options.threads, most),
          resources.get<StepSettings>().warm > 0 ? resources.share<WarmModules>() : nullptr};
}

std::unique_ptr<Peer> Python::open(const Options& options, Scan& scan, const PeerScan& peer) {
  return scan.compute.resources().get<PeerSource>().python(settings(scan), start_of(options, scan), peer);
}

StepBytes Python::greeting(const Options& /*options*/, const protocol::Header& header,
                           const std::string& /*host_json*/) {
  StepBytes bytes;
  protocol::encode(protocol::HeaderText{header.xml}, bytes.head);
  return bytes;
}

}  // namespace echotrain
