// ImageOutput turns complex images into the IMAGE message that the client gets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/images/image_meta.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/mri/images/pixels.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Converts to the wanted component and type, counts bad pixels meanwhile, copies both to host memory (on CUDA
/// asynchronously: nothing waits here), and fills in geometry, counters and time stamps from the frame's reference
/// readout and the header's recon space. With E encodings, the images of encoding e form the series e + 1, its
/// g-factors e + 1 + 2 E, its images in units of SNR e + 1 + 4 E; with component magnitude_and_phase, the phase of each
/// forms the series E above it. Meta attributes: image_meta.h.
///
/// Images that a client sent leave in their own component and type with `auto`. Real numbers stay real numbers (their
/// sign, too; for unsigned types, the magnitude of the gadgets' result), integers are rounded and clamped, and
/// image_type, image_index and image_series_index are theirs. With magnitude_and_phase, phases form the series 100
/// above. For images made of readouts, `auto` is the magnitude in floating point.
class ImageOutput final : public Gadget<CoilImages, Image> {
 public:
  struct Options {
    std::string component = "auto";
    std::string type = "auto";
    double scale = 1;
  };
  static constexpr std::string_view kName = "image";
  static constexpr std::string_view kSummary =
      "Converts images to the component and type the client wants, with geometry and meta attributes.";
  static Parameters<Options> parameters();

  /// Throws std::invalid_argument for a component that the type cannot hold.
  explicit ImageOutput(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<Image>& emit) override;
  /// Gives one component, in floating point, whatever the options say.
  void give(const CoilImages& images, numerics::Component component, const Emit<Image>& emit);
  /// The image_index that follows `index` in a series: 1, 2, ... 65535 and then 1 again, as 0 means that there is none.
  static constexpr std::uint16_t index_after(std::uint16_t index) {
    return index == 65535 ? std::uint16_t{1} : static_cast<std::uint16_t>(index + 1);
  }

 private:
  /// One image to output.
  struct Kind {
    numerics::Component component;
    numerics::PixelType type;
    bool second = false;  ///< the phase after the magnitude
  };
  Kind kind_of(const Frame& frame) const;
  numerics::PixelType type_of(const Frame& frame, numerics::Component component) const;
  void give(const CoilImages& images, const Kind& kind, const Emit<Image>& emit);
  void convert(const CoilImages& images, const Kind& kind, Image& to);
  void lay_out(const Frame& frame, protocol::ImageHeader& head) const;
  void number(const Frame& frame, const Kind& kind, protocol::ImageHeader& head);

  Options options_;
  Scan* scan_ = nullptr;
  std::uint16_t encodings_ = 0;
  FieldsOfView fields_of_view_;
  ImageMeta meta_;
  std::map<std::uint16_t, std::uint16_t> image_index_;  // per series: index of the last image
};

}  // namespace echotrain
