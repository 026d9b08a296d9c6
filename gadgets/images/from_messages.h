// FromMessages turns messages of images into images again.
#pragma once

#include "gadgets/api/gadget.h"
#include "gadgets/shared/incoming/image_input.h"

namespace echotrain {

/// Makes items from messages, as the entrance of a pipeline of images does (ImageInput), so that gadgets for images
/// can follow `image`, or a step outside this process that gives messages. They then count as images of a client:
/// `image` gives them back with the type, series and meta attributes that the messages had. Images made of readouts
/// keep the frame's number, times of arrival and number of readouts, and this gadget waits for the device, as their
/// pixels may still be copied to the host.
class FromMessages final : public Gadget<Image, CoilImages> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "from_messages";
  static constexpr std::string_view kSummary = "Takes images out of messages, for gadgets that come after 'image'.";
  static Parameters<Options> parameters() { return {}; }

  explicit FromMessages(Options /*options*/) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Image&& image, const Emit<CoilImages>& emit) override;

 private:
  Scan* scan_ = nullptr;
  ImageInput entrance_;
};

}  // namespace echotrain
