// A Gadgetron pipeline is a pipeline of ours that is made of a Gadgetron configuration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gadgets/engine/gadgetron/gadgetron_config.h"

namespace echotrain {

struct GadgetronPipeline {
  std::string yaml;                   ///< a pipeline file; its comments say what was not taken over
  std::vector<std::string> missing;   ///< "FatWaterGadget (none)": gadgets without which images are other ones
  std::vector<std::string> left_out;  ///< gadgets that images do not need
  std::size_t properties = 0;         ///< values of the other gadgets that were not taken over

  /// Returns why a client that sent the configuration gets no images; empty where nothing is missing.
  std::string refusal() const;
  /// Returns what a client that gets images should know; empty where all was taken over.
  std::string remark() const;
};

/// Makes it of the XML; `file` is the name of its file. The YAML is not checked: values come from the XML. The error
/// "bad-config" says why there is no pipeline: XML that is not read, or without a reconstruction that is known.
protocol::Result<GadgetronPipeline> from_gadgetron(std::string_view xml, std::string_view file);

}  // namespace echotrain
