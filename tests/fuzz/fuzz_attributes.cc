// Attributes of an image, and the look at XML that comes before a parser.
#include <pugixml.hpp>

#include "protocol/data/acquisition_check.h"
#include "protocol/data/xml_check.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::uint32_t depth_of(const pugi::xml_node& node, std::uint32_t above) {
  std::uint32_t deepest = above;
  for (const pugi::xml_node child : node.children())
    if (child.type() == pugi::node_element) deepest = std::max(deepest, depth_of(child, above + 1));
  return deepest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain;
  const protocol::Limits limits;
  protocol::Image image;
  image.attributes = fuzz::as_text(data, size);
  const auto reason = protocol::check_attributes(image, limits);
  fuzz::require(!reason || !reason->message.empty(), "attributes are dropped without a reason");
  // XML that passes the scan is no deeper in the parser.
  if (!protocol::xml_problem(image.attributes, limits)) {
    pugi::xml_document document;
    if (document.load_buffer(data, size, pugi::parse_default, pugi::encoding_utf8))
      fuzz::require(depth_of(document, 0) <= limits.xml_depth, "the scan of XML counts fewer levels than the parser");
  }
  return 0;
}
