// The image report shows the images of a scan to a user: pictures, and how far they are from the truth.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "clients/cpp/base/image_pixels.h"
#include "protocol/data/messages.h"

namespace echotrain::client {

/// The help of the option that compares images with a truth.
inline constexpr const char* kTruthHelp =
    "compare every image with the array 'truth' (of contrast or cardiac phase c > 0: 'truth_c') of FILE, or of the "
    "input";

/// Returns ||values - reference|| / ||reference||, with roots of sums of squares as norms. Sizes must be equal.
double nrmse(const std::vector<float>& values, const std::vector<float>& reference);

class ImageReport {
 public:
  /// `truths` are the magnitude [y, x], [slice, y, x] or, of a volume, [z, y, x] of each contrast, or else of each
  /// cardiac phase. Images are compared with their own without any scale fit (but divided by their meta attribute
  /// scale_factor), those without one with the first, and not at all where it is zero; empty: no comparison.
  /// `png_folder` is the folder for pictures (created when missing); empty for none.
  ImageReport(std::vector<StoredArray> truths, std::filesystem::path png_folder);

  /// Compares the image's magnitude and writes image_NNN.png (the middle z of a volume), windowed by the truth's range
  /// or to 99.5 percent of the image. Throws std::runtime_error when the truth has another size.
  void add(const protocol::Image& image);
  /// Writes compare.png of the last image: ours | truth | difference x 5. Call it once, after the last image.
  void finish();

  const std::vector<double>& errors() const { return errors_; }  ///< NRMSE of each image, in order of arrival
  std::optional<double> median_error() const;

 private:
  struct Plane {
    std::size_t height = 0, width = 0;
    std::vector<float> values;
  };
  static Plane middle(const std::vector<float>& volume, std::size_t z, std::size_t y, std::size_t x);

  float truth_peak() const;
  /// Takes the truth of an image [y, x]: where the truth is [slice, y, x], that of the image's slice.
  void choose_truth(const StoredArray& truth, const Pixels& pixels, std::size_t slice);

  std::vector<StoredArray> truths_;
  StoredArray truth_;  // of the last image
  std::filesystem::path folder_;
  std::vector<double> errors_;
  std::size_t count_ = 0;
  Plane last_;
};

}  // namespace echotrain::client
