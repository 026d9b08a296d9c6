#include "server/scan/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "protocol/wire/codec.h"

namespace echotrain::server {

using protocol::Error;
using protocol::Result;

Catalogue::Catalogue(config::PipelineLibrary library, std::string default_pipeline, const Registry& registry,
                     std::vector<std::string> dicom_peers)
    : registry_(registry),
      dicom_peers_(std::move(dicom_peers)),
      library_(std::move(library)),
      default_(std::move(default_pipeline)) {
  for (const config::PipelineSpec& spec : library_.all()) plans_[spec.name] = check(spec);
  if (has_default()) {
    if (Result<Plan> plan = by_name(default_); !plan)
      throw std::invalid_argument("default_pipeline: " + plan.error().message);
  }
}

Catalogue::Plan Catalogue::check(const config::PipelineSpec& spec) const {
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

Result<Catalogue::Plan> Catalogue::by_name(std::string_view name) const {
  if (name.empty() && !has_default())
    return Error{"unknown-config", fmt::format("no pipeline was named and this server has no default; it knows: {}",
                                               fmt::join(library_.names(), ", "))};
  if (name.empty()) name = default_;
  if (const config::PipelineSpec* spec = library_.find(name)) return plans_.find(spec->name)->second;
  const std::vector<std::string> names = library_.names();
  const std::string near = config::nearest(name, names);
  return Error{"unknown-config",
               fmt::format("no pipeline is called '{}'{} This server knows: {}", protocol::printable(name, 255),
                           near.empty() ? "." : fmt::format("; did you mean '{}'?", near), fmt::join(names, ", "))};
}

Result<Catalogue::Plan> Catalogue::from_text(std::string_view text, std::string* token) const {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return by_name("");
  try {
    const config::ClientConfig config = config::read_client_config(text, "config", token);
    return config.pipeline ? check(*config.pipeline) : by_name(config.use);
  } catch (const config::ConfigError& error) {
    return Error{"bad-config", protocol::printable(error.what())};
  }
}

Result<Catalogue::Choice> Catalogue::choose(std::string_view text, std::string* token) const {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const HostParameters host =
      first != std::string_view::npos && text[first] == '{' ? read_host_parameters(text) : HostParameters();
  if (host.given && token != nullptr) *token = host.token;
  const Result<Plan> plan = host.given ? by_name(host.pipeline) : from_text(text, token);
  if (!plan) return plan.error();
  return with_values(*plan, host.values);
}

Result<Catalogue::Choice> Catalogue::with_values(const Plan& plan, const std::vector<HostValue>& values) const {
  Choice out{plan, "", ""};
  if (values.empty()) return out;
  config::PipelineSpec spec = plan->spec();
  const std::vector<Exposed> exposed = exposed_of(spec, registry_);
  std::vector<std::string> set, unknown;
  for (const HostValue& value : values) {
    const auto known =
        std::find_if(exposed.begin(), exposed.end(), [&](const Exposed& each) { return each.spec.id == value.id; });
    if (known == exposed.end()) {
      unknown.push_back(protocol::printable(value.id, 64));
      continue;
    }
    try {
      if (!value.simple) throw config::ConfigError({}, fmt::format("one value is expected, not {}", value.text));
      config::set_parameter(spec, known->spec.gadget, known->spec.parameter, known->read(value.text));
    } catch (const config::ConfigError& error) {
      const std::string why = protocol::printable(error.message(), 512), allowed = known->info.allowed();
      return Error{"bad-config",
                   fmt::format("parameter '{}' ({}, sets {}): {}{}", value.id, known->spec.label, known->info.name, why,
                               why.find(allowed) == std::string::npos ? "; allowed is " + allowed : "")};
    }
    set.push_back(fmt::format("{}={}", value.id, protocol::printable(value.text, 256)));
  }
  if (!unknown.empty()) {
    constexpr std::size_t kMostNamed = 8;
    if (unknown.size() > kMostNamed) {
      const std::size_t more = unknown.size() - kMostNamed;
      unknown.resize(kMostNamed);
      unknown.push_back(fmt::format("and {} more", more));
    }
    std::vector<std::string> ids;
    for (const Exposed& each : exposed) ids.push_back(each.spec.id);
    out.warning = fmt::format("pipeline '{}' exposes no parameter {}, which changes nothing; it exposes {}", spec.name,
                              fmt::join(unknown, ", "), ids.empty() ? "none" : fmt::format("{}", fmt::join(ids, ", ")));
  }
  if (set.empty()) return out;
  out.set_by_host = fmt::format("{}", fmt::join(set, ", "));
  spec.text += fmt::format("\n# set by the host: {}\n", out.set_by_host);
  try {
    out.plan = check(spec);
  } catch (const config::ConfigError& error) {
    return Error{"bad-config", fmt::format("{}: {}", out.set_by_host, protocol::printable(error.message()))};
  }
  return out;
}

bool Catalogue::offers(const Plan& plan) const {
  // A file's name: that of what a client sends is none.
  const auto own = plans_.find(plan->spec().name);
  return own != plans_.end() && own->second->spec().mark.file == plan->spec().mark.file;
}

std::string Catalogue::describe() const {
  std::vector<std::string> lines;
  for (const config::PipelineSpec& spec : library_.all())
    lines.push_back(fmt::format("{}: {}", spec.name, spec.description));
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace echotrain::server
