// echotrain-server's command line: options, checks, and the run of the server.
#include <fmt/format.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/branch_spec.h"
#include "config/command_line.h"
#include "config/mistakes.h"
#include "config/server_options.h"
#include "gadgets/api/registry.h"
#include "gadgets/engine/gadget_reference.h"
#include "gadgets/engine/host/exposed_parameters.h"
#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/shared/program/resources_from_options.h"
#include "gadgets/shared/program/step_sandbox.h"
#include "gadgets/shared/program/step_settings.h"
#include "server/base/log.h"
#include "server/base/machine_memory.h"
#include "server/commit_built.h"
#include "server/health/canary.h"
#include "server/health/device_check.h"
#include "server/scan/queries.h"
#include "server/server.h"
#include "server/session/optional_parts.h"
#include "server/stdio.h"

namespace fs = std::filesystem;
using namespace echotrain;

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr const char* kExamples = R"(Examples:
  echotrain-server                                     serve on 127.0.0.1:9002
  echotrain-server --bind 0.0.0.0 --allow 10.1.0.0/16  serve a network
  echotrain-server --bind 0.0.0.0 --tls-only --tls-certificate cert.pem --tls-key key.pem   serve everybody, over TLS
  echotrain-server --pipelines ~/pipelines             serve the pipelines of a folder of your own
  echotrain-server --stdio < scan.mrd > images.mrd     one measurement through pipes, without a network
  echotrain-server --check my_pipeline.yaml            check a pipeline file, print its chain
  echotrain-server --list                              the pipelines and the gadgets
  echotrain-server --explain gridding                  what a gadget does and its parameters; without a name: of all
  echotrain-server --print-options >my_options.yaml    an options file to begin with, for --options
)";

/// The wish for something besides serving.
struct Request {
  std::string options_file, check_file;
  std::optional<std::string> explain;        // a gadget; empty: everything
  std::vector<std::string> plugins;          // what was loaded
  std::vector<std::string> openrecon_label;  // pipelines
  std::vector<std::string> command_line;     // as it was given
  bool list = false, list_pipelines = false, list_gadgets = false, markdown = false, print_options = false,
       stdio = false;
};

/// The pipelines that come with the program, in the source tree or where they are installed, then the folders given.
config::PipelineLibrary load_library(const config::ServerOptions& options) {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path places[] = {program / "../../config/pipelines", program / "../share/echotrain/pipelines",
                             ECHOTRAIN_PIPELINES_DIR};
  std::vector<fs::path> folders;
  for (const fs::path& place : places)
    if (folders.empty() && fs::is_directory(place, ignored)) folders.push_back(place.lexically_normal());
  folders.insert(folders.end(), options.pipelines.begin(), options.pipelines.end());
  if (folders.empty())
    throw std::runtime_error(
        fmt::format("the shipped pipelines were not found in {}, {} or {}; name a folder with --pipelines",
                    places[0].lexically_normal().string(), places[1].lexically_normal().string(), places[2].string()));
  return config::PipelineLibrary(folders);
}

/// Leaves out the pipelines that need families of gadgets which this build lacks. Returns a line that says so; empty:
/// it can serve all.
std::string leave_out_what_is_not_built(config::PipelineLibrary& library, const Registry& registry) {
  if (registry.left_out().empty()) return "";
  const std::vector<std::string> names = library.keep_if([&](const config::PipelineSpec& spec) {
    try {
      PipelinePlan::check(spec, registry);
      return true;
    } catch (const config::ConfigError&) {
      return false;
    }
  });
  if (names.empty()) return "";
  return fmt::format(
      "this build has no gadgets of the families {}, and so not the pipelines {}; ./run server makes one that has all",
      fmt::join(registry.left_out(), ", "), fmt::join(names, ", "));
}

int print(const std::string& text) {
  fmt::print("{}", text);
  return EXIT_SUCCESS;
}

int check(const std::string& file, const Registry& registry) {
  config::Mistakes mistakes;
  std::shared_ptr<const PipelinePlan> plan;
  std::vector<ExposedParameter> exposed;
  config::Mistakes::attempt([&] {
    const config::PipelineSpec spec = config::read_pipeline_file(file);
    if (spec.gadgets.empty()) return;  // said
    plan = PipelinePlan::check(spec, registry);
    if (!config::Mistakes::found()) exposed = exposed_of(spec, registry);
  });
  if (const auto all = mistakes.all(); !all.empty()) {
    for (const config::ConfigError& each : all) fmt::print(stderr, "{}\n", each.what());
    if (all.size() > 1) fmt::print(stderr, "{} mistakes\n", all.size());
    return kFailed;
  }
  fmt::print("{}: {}\n{}", plan->spec().name, plan->spec().description, plan->describe());
  for (const ExposedParameter& each : exposed)
    fmt::print("exposes {} ({}): {}, default {}\n", each.spec.id, each.info.name, each.info.allowed(),
               each.info.fallback.empty() ? "none" : each.info.fallback);
  return EXIT_SUCCESS;
}

int print_openrecon_label(const std::vector<std::string>& names, const config::PipelineLibrary& library,
                          const Registry& registry) {
  const server::OptionalParts& parts = server::OptionalParts::built();
  if (parts.openrecon_label == nullptr)
    throw std::runtime_error(server::not_built("--openrecon-label", "labels of OpenRecon containers"));
  std::vector<const config::PipelineSpec*> pipelines;
  for (const std::string& name : names) {
    pipelines.push_back(library.find(name));
    if (pipelines.back() == nullptr) {
      fmt::print(stderr, "no pipeline is called '{}'; --list-pipelines shows all\n", name);
      return kFailed;
    }
    PipelinePlan::check(*pipelines.back(), registry);
  }
  return print(parts.openrecon_label(pipelines, registry));
}

int explain(const std::string& name, const config::ServerOptions& options, const Registry& registry) {
  if (name == config::kBranch) return print(explain_branches());
  if (fs::path(name).extension() == ".yaml" || name.find('/') != std::string::npos)
    return print(explain_pipeline(config::read_pipeline_file(name), registry));
  const std::vector<std::string> names = registry.names();
  if (registry.find(name) == nullptr) {
    const config::PipelineLibrary library = load_library(options);
    if (const config::PipelineSpec* spec = library.find(name)) return print(explain_pipeline(*spec, registry));
    std::vector<std::string> known = library.names();
    known.insert(known.end(), names.begin(), names.end());
    const std::string near = config::nearest(name, known);
    fmt::print(stderr, "no gadget or pipeline is called '{}'{} --list shows all; a pipeline's file ends in .yaml\n",
               name, near.empty() ? "." : fmt::format("; did you mean '{}'?", near));
    return kFailed;
  }
  fmt::print("{}\n", registry.explain(name));
  return EXIT_SUCCESS;
}

int explain_all(config::PipelineLibrary library, const Registry& registry) {
  const std::string left_out = leave_out_what_is_not_built(library, registry);
  fmt::print("Pipelines\n\n");
  for (const config::PipelineSpec& spec : library.all()) fmt::print("{}\n", explain_pipeline(spec, registry));
  fmt::print("Gadgets\n\n");
  for (const std::string& name : registry.names()) fmt::print("{}\n", registry.explain(name));
  if (!left_out.empty()) fmt::print("{}\n", left_out);
  return EXIT_SUCCESS;
}

/// Returns a line for each pipeline, then one of those that this build lacks gadgets for.
std::string pipelines_of_build(config::PipelineLibrary library, const Registry& registry) {
  const std::string left_out = leave_out_what_is_not_built(library, registry);
  return list_pipelines(library.all()) + (left_out.empty() ? "" : "\n" + left_out + "\n");
}

int list_all(const config::PipelineLibrary& library, const Registry& registry) {
  fmt::print("Pipelines\n{}\nGadgets\n{}", pipelines_of_build(library, registry), list_gadgets(registry));
  return EXIT_SUCCESS;
}

/// Makes what all scans share, from the options.
std::shared_ptr<numerics::Resources> make_resources(const config::ServerOptions& options) {
  numerics::ResourceOptions to = resource_options(options.resources);
  to.memory_budget =
      options.memory_mib > 0 ? static_cast<std::uint64_t>(options.memory_mib) << 20 : server::default_memory_budget();
  // Sessions that need the memory of caches drop them; yet new caches must not push all others out.
  to.plan_cache_bytes = std::min(to.plan_cache_bytes, to.memory_budget / 4);
  to.operator_cache_bytes = std::min(to.operator_cache_bytes, to.memory_budget / 4);
  to.trajectory_cache_bytes = std::min(to.trajectory_cache_bytes, to.memory_budget / 8);
  auto resources = std::make_shared<numerics::Resources>(to);
  resources->get<StepSettings>() = step_settings(options.steps);
  return resources;
}

/// Returns 16 hexadecimal digits that are the same for the same options file, variables and command line.
std::string options_digest(const Request& request) {
  std::string all;
  if (!request.options_file.empty()) {
    std::ifstream file(request.options_file, std::ios::binary);
    all.assign(std::istreambuf_iterator<char>(file), {});
  }
  for (const config::OptionInfo& each : config::server_option_table().info())
    if (const char* value = each.variable.empty() ? nullptr : std::getenv(each.variable.c_str()))
      all += fmt::format("\n{}={}", each.variable, value);
  all += fmt::format("\n{}", fmt::join(request.command_line, "\n"));
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest.data());
  return fmt::format("{:02x}", fmt::join(std::span(digest).first<8>(), ""));
}

/// Tells the log what begins here: the program, its options, the machine.
void log_start(const config::ServerOptions& options, const Request& request, numerics::Resources& resources) {
  const std::string gpus = options.backend == config::BackendChoice::cpu
                               ? "not asked for"
                               : numerics::describe(numerics::Backend::cuda, resources);
  const nlohmann::ordered_json facts{{"version", server::version()},
                                     {"commit", ECHOTRAIN_COMMIT},
                                     {"options", options_digest(request)},
                                     {"memory_mib", resources.options().memory_budget >> 20},
                                     {"threads", resources.threads().size()},
                                     {"cpu", numerics::describe(numerics::Backend::cpu, resources)},
                                     {"gpus", gpus}};
  const server::LogEvent event{"start", facts};
  server::write_log(server::LogLevel::info,
                    fmt::format("start: echotrain-server {} ({}), options {}, {} MiB, {}, GPUs: {}", server::version(),
                                ECHOTRAIN_COMMIT, facts["options"].get<std::string>(),
                                resources.options().memory_budget >> 20, facts["cpu"].get<std::string>(), gpus),
                    std::nullopt, &event);
}

void announce(const char* what, const std::string& address) {
  const nlohmann::ordered_json facts{{"on", what}, {"address", address}};
  server::announce(fmt::format("{} on {}", what, address), {"listening", facts});
}

int serve(const config::ServerOptions& options, const Request& request, const Registry& registry) {
  const auto began = server::Clock::now();
  config::PipelineLibrary library = load_library(options);
  if (const std::string text = leave_out_what_is_not_built(library, registry); !text.empty())
    server::write_log(server::LogLevel::info, text);
  if (!options.steps.python_modules.empty()) hide_this_process();
  if (const SandboxLine line = sandbox_line(step_settings(options.steps)); !line.text.empty())
    server::write_log(line.is_warning ? server::LogLevel::warning : server::LogLevel::info, line.text);
  for (const std::string& plugin : request.plugins) server::write_log(server::LogLevel::info, "plugin " + plugin);
  const std::shared_ptr<numerics::Resources> resources = make_resources(options);
  if (!request.stdio) resources->get<StepSettings>().warm = options.python_warm;
  if (request.stdio) {
    const server::Environment environment = server::make_environment(options, std::move(library), registry, resources);
    const bool complete = server::serve_descriptors(environment, STDIN_FILENO, STDOUT_FILENO);
    const bool broken = environment.readiness->state() == server::Readiness::State::broken;
    if (environment.captures) environment.captures->finish();
    if (environment.sinks) environment.sinks->finish(server::Clock::time_point::max());
    std::fflush(nullptr);
    std::_Exit(broken ? server::Server::kBrokenStatus : complete ? EXIT_SUCCESS : kFailed);  // as below
  }
  log_start(options, request, *resources);
  // The server is never destroyed, so that its signal handlers stay until the process is gone: a second SIGTERM that
  // comes when all is done must not turn a clean stop into a death by signal.
  static auto* const server = new server::Server(options, std::move(library), registry, resources);
  server->handle_signals();
  server->use_canary({"/proc/self/exe", std::string(server::Canary::kFlag)});
  if (!options.tls.only) announce("listening", server->address());
  if (!server->tls_address().empty()) announce("listening with TLS", server->tls_address());
  if (!server->admin_address().empty()) announce("admin", server->admin_address());
  if (!server->agent_address().empty()) announce("agent-check", server->agent_address());
  const bool broken = server->run() == server::Server::End::broken;
  const int code = broken ? server::Server::kBrokenStatus : EXIT_SUCCESS;
  const double uptime_s = std::chrono::duration<double>(server::Clock::now() - began).count();
  const nlohmann::ordered_json facts{{"reason", broken ? "broken" : "asked"}, {"status", code}, {"uptime_s", uptime_s}};
  const server::LogEvent event{"stop", facts};
  server::write_log(broken ? server::LogLevel::error : server::LogLevel::info,
                    fmt::format("stop: {} after {:.1f} s", broken ? "broken" : "asked to", uptime_s), std::nullopt,
                    &event);
  // Nothing is left to do: captures and images for peers are on the disk. Destructors would only take time, and might
  // destroy what is in use by a thread that computes for a session that was cut off.
  std::fflush(nullptr);
  std::_Exit(code);
}

config::OptionTable<Request> request_table() {
  using R = Request;
  return config::OptionTable<R>()
      .path("options", &R::options_file, "FILE.yaml", "YAML file of the options below; the command line overrides it")
      .path("check", &R::check_file, "FILE.yaml", "check a pipeline file, print its chain and exit")
      .path(
          "explain", &R::explain, "GADGET",
          "print what a gadget (or a pipeline, or one's FILE.yaml) does and its parameters, and exit; without a name: "
          "all of them")
      .alone("")
      .flag("markdown", &R::markdown, "with --explain: all gadgets, as docs/gadgets.md has them")
      .flag("stdio", &R::stdio, "serve one measurement from standard input to standard output, and exit")
      .flag("list", &R::list, "print the pipelines and the gadgets, a line for each, and exit")
      .flag("list_pipelines", &R::list_pipelines, "print the pipelines and exit")
      .flag("list_gadgets", &R::list_gadgets, "print the gadgets and exit")
      .list(
          "openrecon_label", &R::openrecon_label, "PIPELINE",
          "print the label of an OpenRecon container that runs this pipeline, and exit; again for more to choose from")
      .flag("print_options", &R::print_options, "print an options file with every option explained and exit");
}

/// Reads the options of the environment, then of the options file, then of the command line.
config::ServerOptions read_options(const std::string& file, const config::ParsedOptions<config::ServerOptions>& given) {
  config::ServerOptions options = config::read_server_variables();
  if (!file.empty()) options = config::read_server_options_file(file, std::move(options));
  given.read_into(options);
  return options;
}

int answer(Request request, const config::ServerOptions& options) {
  // The registry is never destroyed, like the server, which refers to it.
  static auto& registry = *new Registry(Registry::builtin());
  const server::OptionalParts& parts = server::OptionalParts::built();
  if (parts.load_plugins != nullptr)
    request.plugins = parts.load_plugins(options.plugins, registry);
  else if (!options.plugins.empty())
    throw std::runtime_error(server::not_built("plugins", "plugins"));
  if (!request.check_file.empty()) return check(request.check_file, registry);
  if (request.list_gadgets) return print(list_gadgets(registry));
  if (!request.openrecon_label.empty())
    return print_openrecon_label(request.openrecon_label, load_library(options), registry);
  if (request.print_options) return print(config::server_options_template());
  if (request.markdown) return print(gadgets_markdown(registry));
  if (request.explain && !request.explain->empty()) return explain(*request.explain, options, registry);
  if (request.explain) return explain_all(load_library(options), registry);
  if (request.list) return list_all(load_library(options), registry);
  if (request.list_pipelines) return print(pipelines_of_build(load_library(options), registry));
  return serve(options, request, registry);
}

/// Answers, and tells what keeps it from that as the log has its lines.
int answer_or_tell(Request request, const config::ServerOptions& options) {
  const bool json = options.log_format == "json";
  server::set_up_log(options.log_level, json ? server::LogFormat::json : server::LogFormat::text);
  const auto tell = [json](const std::exception& error, int status) {
    if (json)
      server::write_log(server::LogLevel::error, error.what());
    else
      fmt::print(stderr, "{}\n", error.what());
    return status;
  };
  try {
    return answer(std::move(request), options);
  } catch (const std::invalid_argument& error) {  // an option that does not fit the rest
    return tell(error, kUsage);
  } catch (const std::exception& error) {
    return tell(error, kFailed);
  }
}

int run(int argc, char** argv) {
  config::Command program("echotrain-server", "Streaming MRI reconstruction server: ISMRMRD readouts in, images out.");
  program.version(fmt::format("echotrain-server {}", server::version()));
  program.examples(kExamples);
  const auto asked = program.add(request_table());
  const auto given = program.add(config::server_option_table(), config::OptionRepeat::settings);
  program.act([&] {
    Request request = asked.read();
    if (request.markdown && !request.explain) throw config::CommandLineError("--markdown requires --explain");
    config::ServerOptions options;
    try {
      options = read_options(request.options_file, given);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      return kUsage;
    }
    request.command_line.assign(argv + 1, argv + argc);
    return answer_or_tell(std::move(request), options);
  });
  return program.run(argc, argv, std::cout, std::cerr);
}

}  // namespace

int main(int argc, char** argv) {
  // The child of a server runs this; it is not for people.
  constexpr unsigned kMost_s = 120;
  if (argc > 2 && argv[1] == server::Canary::kFlag) {
    int status = server::Canary::kWorks;
    for (int i = 2; i < argc && status != server::Canary::kBroken; ++i)
      if (const int each = server::check_device(std::atoi(argv[i]), kMost_s); each != server::Canary::kWorks)
        status = each;
    return status;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kFailed;
  }
}
