// Host parameters: a host's JSON about a scan, and the pipeline that results from it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/registry.h"
#include "protocol/data/limits.h"

namespace echotrain {

/// The host's value for one parameter.
struct HostValue {
  std::string id;
  std::string text;    ///< content of a JSON text, number, true or false
  bool simple = true;  ///< false for lists, maps and null, which no parameter of a gadget takes
};

/// The host's JSON: {"parameters": {"config": PIPELINE, ID: VALUE, ...}}.
struct HostParameters {
  bool given = false;    ///< true: the text is JSON of this kind
  std::string problem;   ///< why JSON of this kind cannot be used; empty: it is valid
  std::string pipeline;  ///< customconfig, or else config; empty: it names none
  std::string token;     ///< beside "parameters", for servers that ask for one
  std::vector<HostValue> values;
  std::string json;  ///< the whole object without its token, in ASCII, for steps that take it
};
/// Bounds of a host's input: bytes of its JSON, and parameters in it.
inline constexpr std::size_t kMostHostBytes = protocol::kMaxHostBytes,
                             kMostHostParameters = protocol::kMaxHostParameters;
HostParameters read_host_parameters(std::string_view text);

/// Merges a host's earlier and later parameters: later values count, in the values and in the JSON.
HostParameters later(const HostParameters& before, const HostParameters& after);

/// A pipeline with a host's changes.
struct HostChange {
  config::PipelineSpec spec;
  HostParameters used;      ///< the host's parameters that change a gadget, or go to a step
  std::string set_by_host;  ///< "strength=2, search=3"; empty: nothing
  std::string warning;      ///< names the host's values that change nothing; may be empty
};

/// The pipeline with a host's values in place of its own. Values that it does not expose go to steps that take the
/// host's JSON (parameter host_parameters); where there is none, they change nothing. Throws ConfigError without a
/// place; it names the value that is not allowed, and the allowed ones.
HostChange with_host_values(const config::PipelineSpec& spec, const HostParameters& host, const Registry& registry);

/// Adds the values that a host has set to an image's meta attributes: echotrain_parameters. An empty text adds nothing.
void note_parameters(std::string& attributes, const std::string& set_by_host);

}  // namespace echotrain
