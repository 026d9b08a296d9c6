// What a host says about a scan in JSON, and the pipeline that results from it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/registry.h"

namespace echotrain {

/// What a host has sent for one parameter.
struct HostValue {
  std::string id;
  std::string text;    ///< of a JSON text, number, true or false
  bool simple = true;  ///< false for lists, maps and null, which no parameter of a gadget takes
};

/// What a host says in JSON: {"parameters": {"config": PIPELINE, ID: VALUE, ...}}.
struct HostParameters {
  bool given = false;    ///< whether the text is JSON of this kind
  std::string problem;   ///< why JSON of this kind cannot be used; empty: it can
  std::string pipeline;  ///< customconfig, or else config; empty: none is named
  std::string token;     ///< beside "parameters", for servers that ask for one
  std::vector<HostValue> values;
  std::string json;  ///< the whole object without its token, in ASCII, for steps that take it
};
/// Bounds of what is read of a host: bytes of its JSON, and parameters in it.
inline constexpr std::size_t kMostHostBytes = 65536, kMostHostParameters = 1024;
HostParameters read_host_parameters(std::string_view text);

/// What a host has said before, changed by what it says later: later values count, in the values and in the JSON.
HostParameters later(const HostParameters& before, const HostParameters& after);

/// A pipeline as a host wants it.
struct HostChange {
  config::PipelineSpec spec;
  HostParameters used;      ///< of what the host has sent: what changes a gadget, or goes to a step
  std::string set_by_host;  ///< "strength=2, search=3"; empty: nothing
  std::string warning;      ///< which of the host's values change nothing; may be empty
};

/// The pipeline with a host's values in place of its own. Values that it does not expose go to steps that take the
/// host's JSON (parameter host_parameters); where there is none, they change nothing. ConfigError without a place says
/// which value is not allowed, and what is.
HostChange with_host_values(const config::PipelineSpec& spec, const HostParameters& host, const Registry& registry);

/// An image's meta attributes with what a host has set: echotrain_parameters. Nothing for an empty text.
void note_parameters(std::string& attributes, const std::string& set_by_host);

}  // namespace echotrain
