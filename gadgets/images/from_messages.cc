#include "gadgets/images/from_messages.h"

#include <memory>
#include <utility>

namespace echotrain {

void FromMessages::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  entrance_.start(header, scan);
}

void FromMessages::process(Image&& image, const Emit<CoilImages>& emit) {
  if (image.frame) scan_->compute.synchronize();
  CoilImages out = entrance_.take(std::move(image.message));
  if (image.frame) {
    const auto frame = std::make_shared<Frame>(*out.frame);
    frame->id = image.frame->id;
    frame->readouts = image.frame->readouts;
    frame->arrival = image.frame->arrival;
    if (frame->acquired) frame->acquired = image.frame->acquired;
    out.frame = frame;
  }
  emit(std::move(out));
}

}  // namespace echotrain
