// Turns complex images into the IMAGE message that the client gets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/layout/layout.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Converts to the wanted component and type, counts what is wrong with the pixels while it does, copies both to host
/// memory (on CUDA asynchronously: nothing waits here), and fills in geometry, counters and time stamps from the
/// frame's reference readout and the header's recon space. With E encodings, the images of encoding e form the series
/// e + 1, its g-factors e + 1 + 2 E, its images in units of SNR e + 1 + 4 E; with component magnitude_and_phase, the
/// phase of each forms the series E above it.
class ImageOutput final : public Gadget<CoilImages, Image> {
 public:
  struct Options {
    std::string component = "magnitude";
    std::string type = "float";
    double scale = 1;
  };
  static constexpr std::string_view kName = "image";
  static constexpr std::string_view kSummary =
      "Converts images to the component and type the client wants, with geometry and meta attributes.";
  static Parameters<Options> parameters();

  /// std::invalid_argument for a component that the type cannot hold.
  explicit ImageOutput(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<Image>& emit) override;
  /// The image_index that follows `index` in a series: 1, 2, ... 65535 and then 1 again, as 0 means that there is none.
  static constexpr std::uint16_t index_after(std::uint16_t index) {
    return index == 65535 ? std::uint16_t{1} : static_cast<std::uint16_t>(index + 1);
  }

 private:
  void give(const CoilImages& images, numerics::Component what, const Emit<Image>& emit);
  void convert(const CoilImages& images, numerics::Component what, Image& to);
  std::string attributes(const Frame& frame) const;

  Options options_;
  Scan* scan_ = nullptr;
  std::uint16_t encodings_ = 0;
  FieldsOfView fields_of_view_;
  std::map<std::uint16_t, std::uint16_t> image_index_;  // per series: of the last image
};

}  // namespace echotrain
