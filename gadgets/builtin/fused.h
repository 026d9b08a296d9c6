// Helpers for fusions: gadgets that take the place of several neighbours.
#pragma once

#include <any>
#include <memory>
#include <span>

#include "gadgets/api/registry.h"
#include "gadgets/images/coil_combine.h"

namespace echotrain {

/// Casts options to their gadget's struct; all forms of a name share one struct.
template <class Options>
const Options& options_as(const GadgetOptions& options) {
  return std::any_cast<const Options&>(options);
}

inline bool is_root_sum_of_squares(const GadgetOptions& options) {
  return options_as<CoilCombine::Options>(options).method == "rss";
}

}  // namespace echotrain
