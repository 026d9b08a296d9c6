// Label sets meta attributes of images.
#pragma once

#include <optional>
#include <string>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Sets meta attributes of every image, as hosts and archives read them; pixels pass untouched. Other attributes are
/// unchanged. `image_comments` and `history` are appended (comments after "; "), the rest replaces old values. Commas
/// separate the values of image_type and history.
class Label final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::string data_role, series_description, series_description_additional, sequence_description_additional;
    std::string image_comments, image_type, history;
    std::optional<double> window_center, window_width;
    std::optional<double> rescale_slope, rescale_intercept;
    bool keep_image_geometry = true;
  };
  static constexpr std::string_view kName = "label";
  static constexpr std::string_view kSummary =
      "Sets meta attributes: descriptions, comments, image type, display window, rescaling.";
  static Parameters<Options> parameters();

  /// Throws std::invalid_argument for half a window, and for texts with control characters.
  explicit Label(Options options);
  void start(const protocol::Header& /*header*/, Scan& /*scan*/) override {}
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  Options options_;
};

}  // namespace echotrain
