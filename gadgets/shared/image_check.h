// An ImageCheck finds bad images among those that leave a pipeline.
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
/// values exceed single precision or the type of its pixels. It uses the gadgets' tallies, and checks the pixels of
/// other images (from the client, from plugins) itself.
class ImageCheck {
 public:
  /// Takes an image whose pixels are complete, on any thread. Adds the meta attribute echotrain_not_finite_pixels,
  /// echotrain_saturated_pixels or echotrain_all_zero, unless the image is the client's own.
  void look(Image& image);
  /// Warns of each kind found, once, and updates the scan's numbers; on the pipeline's thread.
  void report(Scan& scan);

 private:
  struct Kind {
    std::uint64_t images = 0;
    std::string first;  // the text about the first one, until it has been sent
  };
  enum { kNotFinite, kSaturated, kAllZero, kKinds };

  void note(std::size_t kind, std::uint64_t pixels, const char* attribute, Image& image);

  std::atomic<bool> news_ = false;
  std::mutex mutex_;
  std::array<Kind, kKinds> kinds_;
};

}  // namespace echotrain
