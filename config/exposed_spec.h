// An exposed parameter of a pipeline may be set by a host for each scan: the pipeline's key `expose`, as data. What
// gadgets declare about it is known in gadgets/engine/host/exposed_parameters.h only.
#pragma once

#include <string>
#include <vector>

#include "config/node.h"

namespace echotrain::config {

/// One of the values that a host may choose from.
struct ExposedValue {
  std::string text;  ///< what the host sends, and what the gadget's parameter becomes
  std::string name;  ///< what people see
  Mark mark;
};

/// An entry of `expose`. Empty, or null, where the file leaves something to the gadget's declaration.
struct ExposedSpec {
  std::string id;                    ///< what the host calls it: letters and digits
  std::string gadget, parameter;     ///< what it sets, in all gadgets of that name: key `sets`
  std::string label, information;    ///< for people
  Node range;                        ///< two numbers
  std::vector<ExposedValue> values;  ///< instead of a range
  Node fallback;                     ///< key `default`: the gadget's value where the host sends none
  Mark mark;
  Mark sets_mark;
};

/// Reads the map `expose`; nothing where it is not given. Throws ConfigError with file:line:column.
std::vector<ExposedSpec> read_exposed(const Node& node);

}  // namespace echotrain::config
