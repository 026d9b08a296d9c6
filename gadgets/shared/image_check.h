// What is wrong with the images that leave a pipeline.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"

namespace echotrain {

/// Finds images with pixels that are not finite or saturated, and images that are zero everywhere: signs that a scan's
/// values are beyond what single precision or the type of its pixels can hold. What gadgets tallied is taken; the
/// pixels of other images (of the client, of plugins) are looked at here.
class ImageCheck {
 public:
  /// Takes an image whose pixels are complete, on any thread. Adds the meta attribute echotrain_not_finite_pixels,
  /// echotrain_saturated_pixels or echotrain_all_zero, unless the image is the client's own.
  void look(Image& image);
  /// Warns of each kind that was found, once, and brings the scan's numbers up to date; on the pipeline's thread.
  void report(Scan& scan);

 private:
  struct Kind {
    std::uint64_t images = 0;
    std::string first;  // what is to be said of the first one, until it has been said
  };
  enum { kNotFinite, kSaturated, kAllZero, kKinds };

  void note(std::size_t kind, std::uint64_t pixels, const char* attribute, Image& image);

  std::atomic<bool> news_ = false;
  std::mutex mutex_;
  std::array<Kind, kKinds> kinds_;
};

}  // namespace echotrain
