// A Gadgetron configuration is read from its XML.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/data/result.h"

namespace echotrain {

struct GadgetronConfig {
  struct Gadget {
    std::string class_name;  ///< "NoiseAdjustGadget"; of a program of its own, "external TARGET"
    std::string branch;      ///< class that shares items out to the branch in which it stands; empty: it is in none
    std::vector<std::pair<std::string, std::string>> properties;  ///< references to other gadgets' are resolved
  };
  std::vector<Gadget> gadgets;  ///< in the order of the chain, those of all streams one after the other
};

/// Bytes that such a configuration may have; the largest of Gadgetron's own has 20 KiB.
inline constexpr std::size_t kMostGadgetronBytes = 256 << 10;

/// True if the text begins like XML.
bool is_xml(std::string_view text);

/// Reads both forms: <gadgetronStreamConfiguration>, and <configuration> with <stream>s. The error "bad-config" says
/// why a text is none, or is not read: size, depth, number of tags, a document type or entities.
protocol::Result<GadgetronConfig> read_gadgetron(std::string_view xml);

}  // namespace echotrain
