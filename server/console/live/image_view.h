// An image view is one plane of an image, as a viewer gets it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/data/pixels.h"
#include "server/console/live/recent_images.h"

namespace echotrain::server {

using ViewPart = protocol::PixelPart;

struct ViewRequest {
  int channel = 0, z = 0;               ///< what is beyond the image is its last one
  ViewPart part = ViewPart::magnitude;  ///< of complex pixels
  int shrink = 1;                       ///< 1, 2, 4, 8: this many pixels along x and y become one
};

/// One plane of one channel [y, x]: magnitudes or phases of complex pixels, else values as they are; empty for pixels
/// that do not fill the matrix. Precondition: there is such a plane.
std::vector<float> plane_values(const protocol::Image& image, std::size_t channel, std::size_t z, ViewPart part);

/// 4 bytes with the length of a JSON object, the object, blanks up to a multiple of 4 bytes, and the plane's pixels
/// [y, x] as float32, all little-endian. The object has what the page says of the image: counters, place, size, the
/// least and the largest value of the plane ("low", "high", of its finite pixels), "width" and "height" of what is
/// sent. Smaller planes hold the means of the pixels that they stand for; of phases, one of these pixels. "map": null,
/// or what a map's meta attributes say: {"quantity": "T1", "unit": "ms", "deviation": false, "slope", "intercept",
/// "window": [low, high] or null}; a value in the unit is a pixel times slope plus intercept, as the window is.
std::string view_of(const KeptImage& image, const ViewRequest& wish);

/// {"first": 3, "more": false, "images": [{"number", "series", "type", "slice", ...}]} of a session's images with
/// numbers above `after`, in the order in which they came, at most kMostListed. "first": the oldest that is kept, 0
/// without any; "more": there are further ones.
std::string images_json(const RecentImages& images, std::uint64_t session, std::uint64_t after);
inline constexpr std::size_t kMostListed = 256;
/// Bytes that view_of() will give, about.
std::uint64_t view_bytes(const KeptImage& image, const ViewRequest& wish);

}  // namespace echotrain::server
