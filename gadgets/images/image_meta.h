// The meta attributes of output images.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gadgets/api/items.h"
#include "protocol/data/header.h"

namespace echotrain {

/// Writes an image's ismrmrdMeta document: the frame's notes, and the attributes that a host expects and no gadget has
/// set.
///
///   | attribute              | value, unless a note says otherwise                                                 |
///   | DataRole               | Image; Quantitative for g-factors and images in units of SNR                        |
///   | Keep_image_geometry    | 1: the host must not turn the image again                                           |
///   | ImageRowDir,           | read_dir and phase_dir of the image's header, three values each, where it has them. |
///   | ImageColumnDir         | The header wins over a note once a gadget has turned the image                      |
///   | EchoTime               | TE of the image's contrast in the measurement's header, or its only TE [ms]         |
///   | ImageProcessingHistory | the notes' steps, and ECHOTRAIN                                                     |
///   | WindowCenter, ...Width | the notes', times the scale of the gadget `image`; of Quantitative images in values |
///   | RescaleSlope,          | of Quantitative images only: value = pixel RescaleSlope + RescaleIntercept;         |
///   | RescaleIntercept       | the notes' slope (1) over the scale of the gadget `image`, the notes' intercept (0) |
///   | IceMiniHead            | the notes', but not once a gadget has changed the image's geometry or its window:   |
///   |                        | the host would show the image by its old values                                     |
///   | echotrain_*            | about this pass through the server (docs/protocol.md)                               |
class ImageMeta {
 public:
  ImageMeta() = default;
  ImageMeta(const protocol::Header& header, std::string backend);
  /// `head`: the header that the image leaves with; `scale`: the last factor applied to its values; `steps`: what it
  /// went through (gadgets/api/image_steps.h).
  std::string text(const Frame& frame, const protocol::ImageHeader& head, double scale,
                   std::vector<std::string> steps) const;

 private:
  using Notes = std::map<std::string, std::string>;
  void complete(const Frame& frame, const protocol::ImageHeader& head, Notes& notes) const;

  std::string backend_;
  std::vector<double> echo_times_ms_;
};

}  // namespace echotrain
