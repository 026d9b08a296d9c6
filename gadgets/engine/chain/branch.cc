#include "gadgets/engine/chain/branch.h"

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <utility>
#include <variant>

#include "gadgets/api/errors.h"
#include "gadgets/engine/chain/spaces.h"

namespace echotrain {

Branch::Branch(const BranchPlan& plan, const ChainBuild& making)
    : plan_(plan),
      condition_(plan.spec.when),
      send_(making.send),
      chain_(*plan.chain, making, [this](Item&& item) { leave(std::move(item)); }) {}

void Branch::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  if (plan_.takes_messages) images_.start(header, scan);
  chain_.start(header_for_spaces(header, [this](std::uint16_t space) { return condition_.admits_space(space); }), scan);
}

void Branch::take(protocol::Image message) {
  if (plan_.chain->types.front() == ItemType::image)
    chain_.push(Image{nullptr, std::move(message), nullptr});
  else
    chain_.push(images_.take(std::move(message)));
}

void Branch::leave(Item&& item) {
  auto* image = std::get_if<Image>(&item);
  if (image == nullptr) return;
  if (!plan_.spec.role.empty()) return give(std::move(image->message));
  const int series = image->message.head.image_series_index + plan_.series_offset;
  if (series > std::numeric_limits<std::uint16_t>::max())
    throw ClientError(fmt::format(
        "an image of series {} leaves a branch that adds {}: series numbers end at 65535; give the branch a "
        "smaller series_offset",
        +image->message.head.image_series_index, plan_.series_offset));
  image->message.head.image_series_index = static_cast<std::uint16_t>(series);
  send_(std::move(item));
}

void Branch::give(protocol::Image&& message) {
  scan_->compute.synchronize();  // its pixels may still be on their way to the host
  // Images from the client may have a role of their own, which was for the pipeline's entrance.
  if (!scan_->side_images.take(message, plan_.spec.role))
    scan_->warn(
        fmt::format("no gadget asks for images of role '{}', which a branch of the pipeline gives; they are left "
                    "out",
                    plan_.spec.role));
}

}  // namespace echotrain
