// Register moves the images of a slice onto one of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/mri/registration/registration.h"

namespace echotrain {

/// Moves each image onto a reference of its series, by gadgets/numerics/mri/registration/registration.h: images that
/// agree in encoding and slice, whatever else they count. Planes of a volume are registered one by one; coils are moved
/// together, by their root sum of squares. Sizes decide, not phases; a client's real parts count with their sign.
///
/// to: `first`, the series' first image; a number, the image that comes so many after the first: earlier ones wait for
/// it; `median`, of each voxel, for which all images wait until the scan ends. Images are otherwise moved as they come,
/// in order; the reference itself passes unchanged. Images that are not finite, and all of a scan in which the
/// reference does not come (with a warning), keep their places.
///
/// With `fields` each moved image is followed by its field: channels of displacements along x and y [voxels], x before
/// y, real numbers in a series of their own (series + 7), with meta attributes role: displacement and DataRole:
/// Quantitative. Meta attributes of moved images: registration, the step REGISTER of ImageProcessingHistory.
///
/// g-factors, images in units of SNR and a client's phases pass unchanged. Throws ClientError for images of less than
/// 16 voxels along x or y, and for those that differ in size from their series' first.
class Register final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::string method = "fast";
    std::string to = "first";
    double regularisation = 0;
    bool fields = false;
  };
  static constexpr std::string_view kName = "register";
  static constexpr std::string_view kSummary =
      "Moves the images of a slice onto one of them: rigid or non-rigid motion.";
  static Parameters<Options> parameters();

  /// Throws std::invalid_argument where `to` or `regularisation` is none.
  explicit Register(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  struct Series {
    numerics::Shape shape;            // of an image
    Array<float> reference;           // [z, y, x]; empty until it has come
    std::vector<CoilImages> waiting;  // in the order they came
  };
  Array<float> sizes(const CoilImages& images) const;
  void move(const Series& series, CoilImages&& images, const Emit<CoilImages>& emit) const;
  void mark(CoilImages&& images, const Emit<CoilImages>& emit) const;

  Options options_;
  numerics::RegistrationOptions how_;
  std::int64_t reference_ = 0;  // the number of the image in its series; -1: the median
  Scan* scan_ = nullptr;
  std::map<FrameKey, Series> open_;
};

}  // namespace echotrain
