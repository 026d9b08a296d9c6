#include "server/scan/pipeline_catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "gadgets/engine/gadgetron/gadgetron_pipeline.h"
#include "gadgets/engine/host/exposed_parameters.h"
#include "protocol/wire/codec.h"

namespace echotrain::server {

using protocol::Error;
using protocol::Result;

PipelineCatalogue::PipelineCatalogue(config::PipelineLibrary library, std::string default_pipeline,
                                     const Registry& registry, std::vector<std::string> dicom_peers,
                                     config::ClientPipelines client_pipelines)
    : registry_(registry),
      dicom_peers_(std::move(dicom_peers)),
      client_pipelines_(client_pipelines),
      library_(std::move(library)),
      default_(std::move(default_pipeline)) {
  for (const config::PipelineSpec& spec : library_.all()) plans_[spec.name] = check(spec);
  if (has_default()) {
    if (Result<Plan> plan = by_name(default_); !plan)
      throw std::invalid_argument("default_pipeline: " + plan.error().message);
  }
}

PipelineCatalogue::Plan PipelineCatalogue::check(const config::PipelineSpec& spec) const {
  for (const std::string& peer : spec.dicom_peers)
    if (std::find(dicom_peers_.begin(), dicom_peers_.end(), peer) == dicom_peers_.end())
      throw config::ConfigError(
          spec.dicom_mark,
          fmt::format("this server has no DICOM peer '{}'; its option dicom.peers has: {}", peer,
                      dicom_peers_.empty() ? "none" : fmt::format("{}", fmt::join(dicom_peers_, ", "))));
  Plan plan = PipelinePlan::check(spec, registry_);
  exposed_of(spec, registry_);
  return plan;
}

Result<PipelineCatalogue::Plan> PipelineCatalogue::by_name(std::string_view name) const {
  if (name.empty() && !has_default())
    return Error{"unknown-config", fmt::format("no pipeline was named and this server has no default; it knows: {}",
                                               fmt::join(library_.names(), ", "))};
  if (name.empty()) name = default_;
  if (const config::PipelineSpec* spec = library_.find(name)) return plans_.find(spec->name)->second;
  const std::string lacks =
      registry_.left_out().empty()
          ? ""
          : fmt::format(
                " (this server was built without the gadgets of {}, and so without pipelines that need them; "
                "./run server, where it was built, builds all)",
                fmt::join(registry_.left_out(), ", "));
  return Error{"unknown-config", library_.unknown(protocol::printable(name, 255)) + lacks};
}

Result<PipelineCatalogue::Found> PipelineCatalogue::named(std::string_view name) const {
  const Result<Plan> plan = by_name(name);
  if (!plan) return plan.error();
  return Found{*plan, library_.remark_on(name)};
}

Result<PipelineCatalogue::Found> PipelineCatalogue::found(std::string_view text) const {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return named("");
  try {
    if (is_xml(text)) {
      const Result<GadgetronPipeline> ours = from_gadgetron(text, "gadgetron");
      if (!ours) return ours.error();
      if (const std::string lacks = ours->refusal(); !lacks.empty())
        return Error{"bad-config", lacks + "; `echotrain convert-config` makes a pipeline of the others"};
      return Found{check(config::read_pipeline(ours->yaml, "config")), ours->remark()};
    }
    const config::ClientConfig config = config::read_client_config(text, "config");
    if (!config.pipeline) return named(config.use);
    return Found{check(*config.pipeline), ""};
  } catch (const config::ConfigError& error) {
    return Error{"bad-config", protocol::printable(error.what())};
  }
}

Result<PipelineCatalogue::Plan> PipelineCatalogue::from_text(std::string_view text) const {
  const Result<Found> any = found(text);
  if (!any) return any.error();
  return any->plan;
}

Result<PipelineCatalogue::Choice> PipelineCatalogue::choose_by_name(std::string_view name) const {
  const Result<Found> any = named(name);
  if (!any) return any.error();
  return Choice{any->plan, any->plan, {}, "", any->remark};
}

Result<PipelineCatalogue::Choice> PipelineCatalogue::choose(std::string_view text) const {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const HostParameters host =
      first != std::string_view::npos && text[first] == '{' ? read_host_parameters(text) : HostParameters();
  if (host.given && !host.problem.empty()) return Error{"bad-config", host.problem};
  const Result<Found> any = host.given ? named(host.pipeline) : found(text);
  if (!any) return any.error();
  Result<Choice> choice = with_values(any->plan, host);
  if (choice && !any->remark.empty())
    choice->warning = any->remark + (choice->warning.empty() ? "" : "; " + choice->warning);
  return choice;
}

Result<PipelineCatalogue::Choice> PipelineCatalogue::with_values(const Plan& plan, const HostParameters& host) const {
  try {
    HostChange change = with_host_values(plan->spec(), host, registry_);
    Choice out{plan, plan, std::move(change.used), std::move(change.set_by_host), std::move(change.warning)};
    if (out.set_by_host.empty()) return out;
    try {
      out.plan = check(change.spec);
    } catch (const config::ConfigError& error) {
      return Error{"bad-config", fmt::format("{}: {}", out.set_by_host, protocol::printable(error.message()))};
    }
    return out;
  } catch (const config::ConfigError& error) {
    return Error{"bad-config", error.message()};
  }
}

bool PipelineCatalogue::offers(const Plan& plan) const {
  // The name is that of a file: what a client sends has none.
  const auto own = plans_.find(plan->spec().name);
  return own != plans_.end() && own->second->spec().mark.file == plan->spec().mark.file;
}

bool PipelineCatalogue::trusts(const Plan& plan, std::optional<config::ClientPipelines> granted) const {
  return granted.value_or(client_pipelines_) == config::ClientPipelines::all || offers(plan);
}

std::optional<Error> PipelineCatalogue::refusal_of_own(std::optional<config::ClientPipelines> granted) const {
  if (granted.value_or(client_pipelines_) != config::ClientPipelines::off) return std::nullopt;
  return Error{"not-allowed",
               fmt::format("this server runs its own pipelines only (its option client_pipelines is off); it has: {}",
                           fmt::join(library_.names(), ", "))};
}

std::optional<Error> PipelineCatalogue::refusal_of(const Plan& plan,
                                                   std::optional<config::ClientPipelines> granted) const {
  if (trusts(plan, granted)) return std::nullopt;
  if (auto off = refusal_of_own(granted)) return off;
  const config::PipelineSpec& spec = plan->spec();
  std::string what = spec.dicom_peers.empty() ? "" : "key 'dicom'";
  for (const char* gadget : {"python", "mrd_server"})
    if (!config::parameters_of(spec, gadget, "").empty()) what = fmt::format("gadget '{}'", gadget);
  if (what.empty()) return std::nullopt;
  return Error{
      "not-allowed",
      fmt::format("the {} is for pipelines of the server's own, and this one is its client's; {}", what, kHowToTrust)};
}

std::string PipelineCatalogue::describe() const {
  std::vector<std::string> lines;
  for (const config::PipelineSpec& spec : library_.all())
    lines.push_back(fmt::format("{}: {}", spec.name, spec.description));
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace echotrain::server
