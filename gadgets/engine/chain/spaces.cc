#include "gadgets/engine/chain/spaces.h"

#include <cstddef>

namespace echotrain {

protocol::Header header_for_spaces(protocol::Header header, const std::function<bool(std::uint16_t)>& comes) {
  const auto spaces = static_cast<std::uint16_t>(header.encodings.size());
  std::uint16_t first = 0;
  while (first < spaces && !comes(first)) ++first;
  if (first == spaces) return header;
  for (std::uint16_t space = 0; space < spaces; ++space)
    if (!comes(space)) header.encodings[space] = header.encodings[first];
  return header;
}

}  // namespace echotrain
