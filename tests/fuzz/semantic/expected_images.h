// The expected images follow from a header and a pipeline: their size, their type, and that odd pixels are named.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gadgets/engine/chain/chain_plan.h"
#include "protocol/data/layout.h"
#include "protocol/data/meta.h"
#include "server/scan/scan_request.h"
#include "tests/fuzz/fuzz.h"

namespace echotrain::fuzz {

/// Works out, from the gadgets' names and parameters alone, what an image of a scan may be.
class ExpectedImage {
 public:
  ExpectedImage(const server::ScanRequest& scan, const protocol::Encoding& encoding) {
    sizes_.push_back({encoding.recon.matrix[0], encoding.recon.matrix[1], encoding.recon.matrix[2]});
    // Trajectories of planes give planes, whatever the header says of z.
    if (encoding.encoded.matrix[2] == 1 && encoding.trajectory != protocol::Trajectory::cartesian)
      sizes_.push_back({encoding.recon.matrix[0], encoding.recon.matrix[1], 1});
    for (const config::GadgetSpec& gadget : scan.plan->spec().gadgets) pass(gadget.name, gadget.parameters);
  }

  bool may_be(const std::array<std::uint32_t, 3>& size) const {
    return std::any_of(sizes_.begin(), sizes_.end(), [&](const Size& one) {
      for (std::size_t a = 0; a < 3; ++a)
        if (one[a] != kAny && one[a] != size[a]) return false;
      return true;
    });
  }
  bool may_have(std::uint32_t channels) const { return channels_ == kAny || channels_ == channels; }
  std::uint16_t data_type() const { return data_type_; }

 private:
  using Size = std::array<std::uint32_t, 3>;  // x, y, z
  static constexpr std::uint32_t kAny = 0;

  static std::string text(const config::Node& parameters, const char* name, const char* otherwise) {
    const config::Node value = parameters.get(name);
    return value.kind() == config::Node::Kind::scalar ? value.as_string() : otherwise;
  }

  void pass(const std::string& name, const config::Node& parameters) {
    if (name == "angle_compounding" || name == "coil_maps" ||
        (name == "coil_combine" && text(parameters, "method", "rss") != "none"))
      channels_ = 1;
    if (name == "stack_slices")
      for (Size& size : sizes_)
        if (size[2] == 1) size[2] = kAny;
    if (name == "orient")
      for (std::size_t i = 0, n = sizes_.size(); i < n; ++i)
        sizes_.push_back({sizes_[i][1], sizes_[i][0], sizes_[i][2]});
    if (name == "resize") resize(parameters);
    if (name == "sobel" && text(parameters, "output", "magnitude") != "magnitude") channels_ = kAny;
    if (name == "image") {
      const std::string type = text(parameters, "type", "auto");
      const bool complex = text(parameters, "component", "auto") == "complex";
      data_type_ = type == "uint16"   ? ISMRMRD::ISMRMRD_USHORT
                   : type == "int16"  ? ISMRMRD::ISMRMRD_SHORT
                   : type == "uint32" ? ISMRMRD::ISMRMRD_UINT
                   : type == "int32"  ? ISMRMRD::ISMRMRD_INT
                   : type == "double" ? (complex ? ISMRMRD::ISMRMRD_CXDOUBLE : ISMRMRD::ISMRMRD_DOUBLE)
                   : complex          ? ISMRMRD::ISMRMRD_CXFLOAT
                                      : ISMRMRD::ISMRMRD_FLOAT;
    }
  }

  void resize(const config::Node& parameters) {
    for (const char* what : {"matrix_", "crop_"})
      for (std::size_t a = 0; a < 3; ++a) {
        const std::string name = std::string(what) + "xyz"[a];
        const auto value = static_cast<std::uint32_t>(std::stoul(text(parameters, name.c_str(), "0")));
        for (Size& size : sizes_)
          if (value != 0) size[a] = value;
      }
  }

  std::vector<Size> sizes_;
  std::uint32_t channels_ = kAny;
  std::uint16_t data_type_ = 0;
};

/// Pixels that are not finite are counted in the image's attributes, and an image that is zero everywhere says so.
inline void require_honest_pixels(const protocol::Image& image) {
  if (image.head.data_type != ISMRMRD::ISMRMRD_FLOAT && image.head.data_type != ISMRMRD::ISMRMRD_CXFLOAT) return;
  std::vector<float> values(image.pixels.bytes.size() / sizeof(float));
  image.pixels.copy_to(values.data());
  const std::size_t parts = image.head.data_type == ISMRMRD::ISMRMRD_CXFLOAT ? 2 : 1;
  std::uint64_t not_finite = 0;
  bool zero = true;
  for (std::size_t i = 0; i < values.size(); i += parts) {
    bool finite = true;
    for (std::size_t p = 0; p < parts; ++p) {
      finite = finite && std::isfinite(values[i + p]);
      zero = zero && values[i + p] == 0;
    }
    not_finite += finite ? 0 : 1;
  }
  const std::string counted = protocol::meta_value(image.attributes, "echotrain_not_finite_pixels");
  if (not_finite > 0)
    require(!counted.empty() && std::stoull(counted) >= not_finite, "pixels that are not finite leave without a word");
  // Phases, real and imaginary parts may be zero where the complex image is not.
  const bool whole = image.head.image_type == ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE ||
                     image.head.image_type == ISMRMRD::ISMRMRD_IMTYPE_COMPLEX;
  if (zero && whole)
    require(!counted.empty() || !protocol::meta_value(image.attributes, "echotrain_all_zero").empty(),
            "an image that is zero everywhere leaves without a word");
}

/// Images of the client's own, those made of them, and those of pipelines with branches are not looked at.
inline void require_expected(const server::ScanRequest& scan, const protocol::Image& image) {
  if (scan.plan->takes_images() || !scan.plan->chain().branches.empty()) return;
  const std::uint32_t encodings = static_cast<std::uint32_t>(scan.header->encodings.size());
  const std::uint32_t series = image.head.image_series_index;
  require(series >= 1 && series <= 2 * encodings, "an image of a series that no encoding has");
  const ExpectedImage expected(scan, scan.header->encodings[(series - 1) % encodings]);
  require(expected.may_be({image.head.matrix_size[0], image.head.matrix_size[1], image.head.matrix_size[2]}),
          "an image of a size that header and pipeline do not imply");
  require(expected.may_have(image.head.channels), "an image of as many channels as its pipeline does not make");
  require(image.head.data_type == expected.data_type(), "an image of another type than its pipeline says");
  require_honest_pixels(image);
}

}  // namespace echotrain::fuzz
