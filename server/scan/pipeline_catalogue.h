// The catalogue holds the pipelines that a server offers, each one checked before the first client comes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/pipeline_spec.h"
#include "config/server_options.h"
#include "gadgets/engine/host/host_parameters.h"
#include "gadgets/engine/pipeline.h"
#include "protocol/data/result.h"

namespace echotrain::server {

/// The advice for a client whose own pipeline the server does not trust.
constexpr const char* kHowToTrust =
    "who runs the server can add it to the folder `pipelines`, set client_pipelines: all, or write "
    "client_pipelines=all behind the client's token";

/// Turns what a client asks for (a name, a text) into a pipeline, or into the error that the client is told.
class PipelineCatalogue {
 public:
  using Plan = std::shared_ptr<const PipelinePlan>;

  /// Checks every pipeline of the library. Throws config::ConfigError on the first bad one, and std::invalid_argument
  /// when `default_pipeline` is neither empty nor known. `registry` has the gadgets that pipelines may name, and must
  /// outlive this. Pipelines may send images to `dicom_peers` only. `client_pipelines` says what clients' own pipelines
  /// may name.
  explicit PipelineCatalogue(config::PipelineLibrary library, std::string default_pipeline = "",
                             const Registry& registry = Registry::builtin(), std::vector<std::string> dicom_peers = {},
                             config::ClientPipelines client_pipelines = config::ClientPipelines::gadgets);

  /// A pipeline as it is to run.
  struct Choice {
    Plan plan;
    Plan as_written;          ///< the same without what the host has set
    HostParameters used;      ///< what of the host's parameters is in `plan`, or for its steps
    std::string set_by_host;  ///< "strength=2, search=3"; empty: nothing
    std::string warning;      ///< for the client: what is not as it asked for; may be empty
  };

  bool has_default() const { return !default_.empty(); }
  /// Returns a pipeline by name or alias; the empty name is the default pipeline. The error "unknown-config" suggests
  /// the nearest.
  protocol::Result<Plan> by_name(std::string_view name) const;
  /// Does the same, with what differs where the name is another server's.
  protocol::Result<Choice> choose_by_name(std::string_view name) const;
  /// Returns the pipeline that a client sent (also one that is made of its Gadgetron configuration), or named in its
  /// text. The error "bad-config" says file:line:column.
  protocol::Result<Plan> from_text(std::string_view text) const;
  /// Does the same for a text that may also be a host's JSON (HostParameters).
  protocol::Result<Choice> choose(std::string_view text) const;
  /// Returns the pipeline with these values in place of its own. The error "bad-config" says which value is not
  /// allowed, and what is; parameters that the pipeline does not expose change nothing.
  protocol::Result<Choice> with_values(const Plan& plan, const HostParameters& host) const;
  /// True if this is a pipeline of the server's own, not one that a client sent; a host may have set its parameters.
  bool offers(const Plan& plan) const;
  /// True if this pipeline is the server's, or if clients' own may do all that the server's may. `granted` stands in
  /// place of the option.
  bool trusts(const Plan& plan, std::optional<config::ClientPipelines> granted) const;
  /// Returns why a client may not run this pipeline, where it is its own. `granted` stands in place of the option.
  std::optional<protocol::Error> refusal_of(const Plan& plan, std::optional<config::ClientPipelines> granted) const;
  /// Returns why a client may run no pipeline of its own, if it may not.
  std::optional<protocol::Error> refusal_of_own(std::optional<config::ClientPipelines> granted) const;
  /// Returns one line per pipeline: name and description.
  std::string describe() const;
  const config::PipelineLibrary& library() const { return library_; }
  const Registry& registry() const { return registry_; }
  /// Throws config::ConfigError where the pipeline names a peer that the server does not have, or exposes a parameter
  /// in a way that its gadget does not allow.
  Plan check(const config::PipelineSpec& spec) const;

 private:
  struct Found {
    Plan plan;
    std::string remark;  ///< what is not as the client asked for
  };
  protocol::Result<Found> named(std::string_view name) const;
  protocol::Result<Found> found(std::string_view text) const;

  const Registry& registry_;
  std::vector<std::string> dicom_peers_;
  const config::ClientPipelines client_pipelines_;
  config::PipelineLibrary library_;
  std::map<std::string, Plan, std::less<>> plans_;
  std::string default_;
};

}  // namespace echotrain::server
