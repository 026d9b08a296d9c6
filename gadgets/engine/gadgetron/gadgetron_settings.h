// Gadgetron settings are properties that no table translates: filters, kinds of images, orders of spokes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gadgets/engine/gadgetron/gadgetron_config.h"

namespace echotrain {

struct GadgetronSettings {
  struct Setting {
    std::string gadget, parameter, value;  ///< of ours
  };
  std::vector<Setting> settings;
  std::string frame;               ///< the pipeline's key `frame`; empty: no matter
  std::vector<std::string> taken;  ///< properties that have found their place
};

/// Returns what a gadget's class and properties say.
GadgetronSettings settings_of(const GadgetronConfig::Gadget& gadget);

/// Returns the number above 0, up to 1e9, that is the whole text; nothing where it is none.
std::optional<double> positive_number(const std::string& text);

}  // namespace echotrain
