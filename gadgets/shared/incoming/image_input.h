// An ImageInput is the entrance of pipelines whose input is images.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "protocol/data/header.h"

namespace echotrain {

/// Makes items from a client's images. Every image is a frame of its own: its counters are the frame's key, with
/// encoding 0; its place, its time stamps and its user fields are those of the frame's reference head; its field of
/// view is the frame's; its meta attributes are the frame's notes (meta_notes.h). Images of one image_series_index and
/// one image_type have one number in FrameKey::series. Pixels become complex numbers [channel, z, y, x].
///
/// For complex images of a header with one encoding and limits of steps 1 and 2, Frame::acquired is the acquired part
/// of k-space, for partial_fourier and filter; headers do not tell of asymmetric echoes.
class ImageInput {
 public:
  void start(const protocol::Header& header, Scan& scan);
  /// Throws ClientError for pixels that do not fit the image's header; ResourceError when memory is exhausted.
  CoilImages take(protocol::Image&& image);
  std::uint64_t frames() const { return frames_; }

 private:
  std::array<float, 3> field_of_view(const protocol::ImageHeader& head);

  Scan* scan_ = nullptr;
  std::optional<std::array<float, 3>> header_fov_mm_;  // set if the header has one encoding
  std::optional<std::array<float, 6>> acquired_;
  std::map<std::pair<std::uint16_t, std::uint16_t>, std::uint16_t> series_;  // by image_series_index and image_type
  std::uint64_t frames_ = 0;
};

}  // namespace echotrain
